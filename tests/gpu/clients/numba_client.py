# SPDX-License-Identifier: MIT
"""Numba's own kernels over its own arrays, which come and go with every turn."""

import os
import sys
import time

from common import arguments_of, fact, leave_figures, need, result, skip

# Frees happen when an array dies, not when ten of them have.
os.environ['NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT'] = '0'
numpy = need('numpy')
numba = need('numba')
cuda = need('numba.cuda')


def make_kernel():
    @cuda.jit
    def axpy(a, x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] += a * x[i]

    return axpy


def main():
    options = arguments_of(__doc__, turns=300).parse_args()
    if not cuda.is_available():
        skip('Numba sees no card')
    axpy = make_kernel()
    digest = numpy.zeros(1)
    began = time.monotonic()
    for number in range(options.turns):
        count = 1000 + 997 * (number % 64)
        x = cuda.to_device(numpy.arange(count, dtype=numpy.float64))
        y = cuda.to_device(numpy.full(count, float(number)))
        axpy[(count + 255) // 256, 256](2.0, x, y)
        digest += y.copy_to_host().sum()
    seconds = time.monotonic() - began
    result('digest', digest)
    leave_figures()
    fact('turns a second', options.turns / seconds, '1/s', 'loop')
    fact('version', numba.__version__, '', 'numba')
    return 0


if __name__ == '__main__':
    sys.exit(main())
