#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks the allocator about itself, and works as well without it:

    cudamemstat run -- python3 stats.py
"""

import ctypes
import json
import sys

CURRENT_DEVICE = -1
MIB = 1 << 20


class Cudamem:
    """The functions of cudamem(3), of the library that is loaded in this process."""

    def __init__(self):
        self._library = ctypes.CDLL(None)
        for name in ('memory_allocated', 'max_memory_allocated', 'memory_reserved',
                     'max_memory_reserved'):
            function = self._library[f'cudamem_{name}']
            function.restype = ctypes.c_uint64
            setattr(self, name, lambda device=CURRENT_DEVICE, call=function: call(device))
        self._json = self._library.cudamem_memory_stats_json
        self._json.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        self._json.restype = ctypes.c_size_t

    def memory_stats(self, device=CURRENT_DEVICE):
        text = ctypes.create_string_buffer(self._json(device, None, 0) + 4096)
        self._json(device, text, len(text))
        return json.loads(text.value)

    def empty_cache(self):
        self._library.cudamem_empty_cache()


class Device:
    """Device 0 by the driver API; a program with a CUDA library of its own needs none of this."""

    def __init__(self):
        self._driver = ctypes.CDLL('libcuda.so.1')
        context = ctypes.c_void_p()
        self._call('cuInit', 0)
        self._call('cuDevicePrimaryCtxRetain', ctypes.byref(context), 0)
        self._call('cuCtxSetCurrent', context)

    def _call(self, name, *arguments):
        result = self._driver[name](*arguments)
        if result:
            raise RuntimeError(f'{name}: error {result}')

    def alloc(self, size):
        address = ctypes.c_uint64()
        self._call('cuMemAlloc_v2', ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def free(self, address):
        self._call('cuMemFree_v2', address)


def main():
    try:
        device = Device()
    except (OSError, RuntimeError) as error:
        print(f'stats.py: {error}', file=sys.stderr)
        return 1
    try:
        cudamem = Cudamem()
    except AttributeError:
        print('libcudamem.so is not loaded; try: cudamemstat run -- python3 stats.py')
        return 0

    blocks = [device.alloc(48 * MIB), device.alloc(3 * MIB)]
    print(f'allocated {cudamem.memory_allocated() / MIB} MiB')
    device.free(blocks[0])
    print(f'one block freed: reserved {cudamem.memory_reserved() / MIB} MiB')
    cudamem.empty_cache()
    print(f'cache emptied: reserved {cudamem.memory_reserved() / MIB} MiB')
    for key, value in cudamem.memory_stats().items():
        if value:
            print(f'  {key:45} {value:12}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
