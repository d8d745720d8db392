# SPDX-License-Identifier: MIT
"""numba-cuda as programs use it, without kernels: arrays, copies, streams, events, frees.

Every result is checked. At the end it holds until stdin ends, so that it can be looked at while it
holds nothing.
"""

import gc
import sys

import numpy
from numba import cuda

TURNS = 200


def through_the_device(values, stream):
    """In by one array, across the device, out by another."""
    first = cuda.to_device(values, stream=stream)
    second = cuda.device_array_like(values, stream=stream)
    second.copy_to_device(first, stream=stream)
    back = second.copy_to_host(stream=stream)
    half = first[: len(values) // 2].copy_to_host(stream=stream)
    event = cuda.event()
    event.record(stream)
    event.synchronize()
    stream.synchronize()
    return (back == values).all() and (half == values[: len(values) // 2]).all()


def main():
    wrong = 0
    streams = [cuda.default_stream(), cuda.stream(), cuda.stream()]
    free, total = cuda.current_context().get_memory_info()
    wrong += not 0 < free <= total
    kept = cuda.to_device(numpy.arange(1 << 18, dtype=numpy.int32))
    for turn in range(TURNS):
        values = numpy.arange(1000 + 9973 * (turn % 32), dtype=numpy.float64) + turn
        wrong += not through_the_device(values, streams[turn % len(streams)])
    wrong += not (kept.copy_to_host() == numpy.arange(1 << 18)).all()
    del kept
    gc.collect()
    print(f'wrong: {wrong}', flush=True)
    sys.stdin.read()
    return int(wrong != 0)


if __name__ == '__main__':
    sys.exit(main())
