# SPDX-License-Identifier: MIT
"""NVIDIA's own Python packages as programs use them: cuda.bindings and the memory of cuda.core.

A memory resource over cuMemAlloc as the manual shows how to write one, beside the package's pinned
and stream-ordered ones. Every result is checked. At the end it holds until stdin ends, so that it
can be looked at while it holds nothing.
"""

import ctypes
import sys

from cuda.bindings import driver
from cuda.core import Buffer, Device, LegacyPinnedMemoryResource, MemoryResource

TURNS = 200


def checked(answer):
    """The values of a call, without its result, which must be success."""
    result, *values = answer
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(result)
    return values


class PlainMemory(MemoryResource):
    """One cuMemAlloc for each buffer."""

    def __init__(self, device):
        self.device = device

    def allocate(self, size, *, stream=None):
        return Buffer.from_handle(int(checked(driver.cuMemAlloc(size))[0]), size, mr=self)

    def deallocate(self, ptr, size, *, stream=None):
        checked(driver.cuMemFree(int(ptr)))

    @property
    def device_id(self):
        return self.device.device_id

    @property
    def is_device_accessible(self):
        return True

    @property
    def is_host_accessible(self):
        return False


def bytes_of(buffer):
    """Those of a pinned buffer, in place."""
    return (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))


def through_the_device(turn, stream, plain, pinned, pool):
    """From a pinned buffer over two kinds of device memory into another one; how much is wrong."""
    size = 1000 + 9973 * (turn % 32)
    source, target = pinned.allocate(size), pinned.allocate(size)
    first, second = plain.allocate(size, stream=stream), pool.allocate(size, stream=stream)
    ctypes.memset(bytes_of(source), turn % 251, size)
    first.copy_from(source, stream=stream)
    second.copy_from(first, stream=stream)
    third = plain.allocate(size, stream=stream)
    third.copy_from(second, stream=stream)
    target.copy_from(third, stream=stream)
    first.close(stream)
    second.close(stream)
    stream.sync()
    wrong = bytes(bytes_of(target)) != bytes([turn % 251]) * size
    for buffer in (third, source, target):
        buffer.close(stream)
    return wrong


def main():
    device = Device(0)
    device.set_current()
    streams = [device.create_stream(), device.create_stream()]
    plain, pinned = PlainMemory(device), LegacyPinnedMemoryResource()
    free, total = checked(driver.cuMemGetInfo())
    wrong = int(not 0 < free <= total)
    for turn in range(TURNS):
        wrong += through_the_device(turn, streams[turn % 2], plain, pinned, device.memory_resource)
    refused, *_ = driver.cuMemFree(12345)
    wrong += refused == driver.CUresult.CUDA_SUCCESS
    print(f'wrong: {wrong}', flush=True)
    sys.stdin.read()
    return int(wrong != 0)


if __name__ == '__main__':
    sys.exit(main())
