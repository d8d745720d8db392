# SPDX-License-Identifier: MIT
"""PyCUDA as programs use it, without kernels: contexts, blocks, arrays, pinned memory, streams.

Every result is checked. At the end it holds until stdin ends, so that it can be looked at while it
holds nothing.
"""

import gc
import os
import sys

# It refers to functions for textures, which the simulated driver lacks and nobody calls here.
sys.setdlopenflags(os.RTLD_LAZY)

import numpy  # noqa: E402
import pycuda.driver as cuda  # noqa: E402
from pycuda import gpuarray  # noqa: E402

TURNS = 100


def through_the_device(values, stream):
    """From a pinned array over two blocks into another one; is it all there?"""
    source = cuda.pagelocked_empty_like(values)
    target = cuda.pagelocked_zeros(values.shape, values.dtype)
    source[:] = values
    first, second = cuda.mem_alloc(values.nbytes), cuda.mem_alloc(values.nbytes)
    cuda.memcpy_htod_async(first, source, stream)
    cuda.memcpy_dtod_async(second, first, values.nbytes, stream)
    first.free()
    cuda.memcpy_dtoh_async(target, second, stream)
    event = cuda.Event().record(stream)
    event.synchronize()
    array = gpuarray.to_gpu(values)
    return (target == values).all() and (array.get() == values).all()


def in_a_context(device):
    """How many turns went wrong. The context goes with its last user, and what is left in it too."""
    context = device.make_context()
    streams = [cuda.Stream(), cuda.Stream()]
    free, total = cuda.mem_get_info()
    wrong = int(not 0 < free <= total)
    for turn in range(TURNS):
        values = numpy.arange(1000 + 9973 * (turn % 32), dtype=numpy.float64) + turn
        wrong += not through_the_device(values, streams[turn % 2])
    left = cuda.mem_alloc(1 << 20)
    del streams
    gc.collect()
    context.detach()
    del left
    return wrong


def main():
    cuda.init()
    device = cuda.Device(0)
    wrong = sum(in_a_context(device) for _ in range(3))
    print(f'wrong: {wrong}', flush=True)
    sys.stdin.read()
    return int(wrong != 0)


if __name__ == '__main__':
    sys.exit(main())
