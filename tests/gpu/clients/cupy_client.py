# SPDX-License-Identifier: MIT
"""CuPy with its pools off: every array is a request to the driver."""

import sys
import time

from common import arguments_of, fact, leave_figures, need, result

numpy = need('numpy')


def turn(cupy, empty, number):
    count = 1000 + 9973 * (number % 64)
    values = cupy.arange(count, dtype=cupy.int64) * 7919 % 10007
    order = cupy.argsort(values)
    sums = cupy.cumsum(values[order])
    square = cupy.arange(256 * 256, dtype=cupy.float32).reshape(256, 256) % (number + 2)
    product = square @ square.T
    pinned = empty(count)
    pinned[:] = number
    back = cupy.asarray(pinned)
    return int(sums[-1]) + int(back.sum()), product


def on_card():
    """CuPy, and how it makes a pinned array of the host."""
    cupy = need('cupy')
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)

    def empty(count):
        return numpy.frombuffer(cupy.cuda.alloc_pinned_memory(count * 8), numpy.int64, count)

    return cupy, empty


def on_cpu():
    """NumPy in CuPy's place: what is done here both can do."""
    return numpy, lambda count: numpy.empty(count, numpy.int64)


def main():
    options = arguments_of(__doc__, turns=300).parse_args()
    module, empty = on_card() if options.device == 'cuda' else on_cpu()
    total = 0
    began = time.monotonic()
    for number in range(options.turns):
        found, product = turn(module, empty, number)
        total += found
        if number % 50 == 0:
            result(f'product {number}', product.get() if options.device == 'cuda' else product)
    seconds = time.monotonic() - began
    result('total', total)
    leave_figures()
    fact('turns a second', options.turns / seconds, '1/s', 'loop')
    fact('version', module.__version__, '', module.__name__)
    return 0


if __name__ == '__main__':
    sys.exit(main())
