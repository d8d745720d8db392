# SPDX-License-Identifier: MIT
"""Numba's own kernels over its own arrays, which come and go with every turn."""

import os
import sys
import time

from common import fact, leave_figures, need, result, skip

# Frees happen when an array dies, not when ten of them have.
os.environ['NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT'] = '0'
numpy = need('numpy')
numba = need('numba')
cuda = need('numba.cuda')

TURNS = 300


def make_kernel():
    @cuda.jit
    def axpy(a, x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] += a * x[i]

    return axpy


def main():
    if not cuda.is_available():
        skip('Numba sees no card')
    axpy = make_kernel()
    digest = numpy.zeros(1)
    began = time.monotonic()
    for number in range(TURNS):
        count = 1000 + 997 * (number % 64)
        x = cuda.to_device(numpy.arange(count, dtype=numpy.float64))
        y = cuda.to_device(numpy.full(count, float(number)))
        axpy[(count + 255) // 256, 256](2.0, x, y)
        digest += y.copy_to_host().sum()
    seconds = time.monotonic() - began
    result('digest', digest)
    leave_figures()
    fact('turns a second', TURNS / seconds, '1/s', 'loop')
    fact('version', numba.__version__, '', 'numba')
    return 0


if __name__ == '__main__':
    sys.exit(main())
