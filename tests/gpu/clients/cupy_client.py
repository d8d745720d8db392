# SPDX-License-Identifier: MIT
"""CuPy with its pools off: every array is a request to the driver."""

import sys
import time

from common import fact, leave_figures, need, result

numpy = need('numpy')
cupy = need('cupy')

TURNS = 300


def turn(number):
    count = 1000 + 9973 * (number % 64)
    values = cupy.arange(count, dtype=cupy.int64) * 7919 % 10007
    order = cupy.argsort(values)
    sums = cupy.cumsum(values[order])
    square = cupy.arange(256 * 256, dtype=cupy.float32).reshape(256, 256) % (number + 2)
    product = square @ square.T
    pinned = cupyx_empty(count)
    pinned[:] = number
    back = cupy.asarray(pinned)
    return int(sums[-1]) + int(back.sum()), product


def cupyx_empty(count):
    """A pinned array of the host."""
    memory = cupy.cuda.alloc_pinned_memory(count * 8)
    return numpy.frombuffer(memory, numpy.int64, count)


def main():
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    total = 0
    began = time.monotonic()
    for number in range(TURNS):
        found, product = turn(number)
        total += found
        if number % 50 == 0:
            result(f'product {number}', product.get())
    seconds = time.monotonic() - began
    result('total', total)
    leave_figures()
    fact('turns a second', TURNS / seconds, '1/s', 'loop')
    fact('version', cupy.__version__, '', 'cupy')
    return 0


if __name__ == '__main__':
    sys.exit(main())
