# SPDX-License-Identifier: MIT
"""Memory outside the cache in events and reports, and its failures: outside.py MODULE DRIVER TOOL

A program that lives on pools, managed and pitched memory sees them, by where it requests them.
"""

import ctypes
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20


class Program:
    """What runs under the library."""

    def __init__(self, driver):
        self.driver = ctypes.CDLL(driver)
        context = ctypes.c_void_p()
        assert self.driver.cuInit(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.driver.cuCtxSetCurrent(context) == 0

    def pool(self, size):
        address = ctypes.c_uint64()
        result = self.driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(size), None)
        return result, address

    def managed(self, size):
        address = ctypes.c_uint64()
        return self.driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(size), 1)

    def pitched(self, size):
        address, pitch = ctypes.c_uint64(), ctypes.c_size_t()
        return self.driver.cuMemAllocPitch_v2(ctypes.byref(address), ctypes.byref(pitch),
                                              ctypes.c_size_t(size // 1024),
                                              ctypes.c_size_t(1024), 4)

    def run(self):
        address = ctypes.c_uint64()
        assert self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(MIB)) == 0
        assert self.pool(50 * MIB)[0] == 0
        result, passing = self.pool(20 * MIB)
        assert result == 0 and self.driver.cuMemFreeAsync(passing, None) == 0
        assert self.managed(30 * MIB) == 0
        assert self.pool(2000 * MIB)[0] == 2
        assert self.pitched(1500 * MIB) == 2


def check(module, driver, tool, folder):
    environment = {**os.environ, 'LD_PRELOAD': module, 'CUDASIM': 'memory:1G',
                   'CUDAMEM_CONF': f'region_dir:{folder},stacks:alloc',
                   'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
    program = subprocess.run([sys.executable, __file__, '--program', driver], env=environment,
                             stderr=subprocess.PIPE, text=True, check=True)
    lines = [line for line in program.stderr.splitlines() if ']: out of memory' in line]
    assert len(lines) == 2 and 'of stream-ordered memory' in lines[0], program.stderr
    assert 'of pitched memory' in lines[1], lines
    assert re.search(r'at (Program\.)?pool outside\.py:', program.stderr), program.stderr

    # The region stays for who looks later, and its names are those of the program.
    region, = (os.path.join(folder, name) for name in os.listdir(folder))

    def ask(*words):
        return subprocess.run([tool, *words, '--region', region], stdout=subprocess.PIPE,
                              check=True).stdout

    devices = json.loads(ask('report', '--json'))['devices']
    cached, outside = devices
    assert not cached['outside_the_cache'] and cached['out_of_memory'] == [], cached
    assert outside['outside_the_cache'], outside
    held = {(row['caller'].rpartition('.')[2], row['bytes']) for row in outside['stacks_in_use']}
    assert held == {('pool', 50 * MIB), ('managed', 30 * MIB)}, held
    failed = [(row['asked_bytes'], row['frames']) for row in outside['out_of_memory']]
    assert [size for size, _ in failed] == [2000 * MIB, 1500 * MIB], failed
    assert any(frame['function'].endswith('pitched') for frame in failed[1][1]), failed
    assert outside['peak_in_use_bytes'] == 80 * MIB, outside
    text = ask('report').decode()
    assert 'GPU 0 outside the cache' in text and 'stream-ordered' in text, text

    # PyTorch's counter and its viewer know nothing of them.
    stats = json.loads(ask('memory-stats', '--json'))
    text = json.dumps(stats)
    assert '"uncached_ooms": 2' in text and '"num_ooms": 0' in text, text
    traces = pickle.loads(ask('export', '--to', 'pickle', '-O', '-'))['device_traces']
    assert {event['action'] for event in traces[0]} <= {'alloc', 'segment_alloc'}, traces


def main():
    if sys.argv[1] == '--program':
        Program(sys.argv[2]).run()
        return
    with tempfile.TemporaryDirectory() as folder:
        check(*sys.argv[1:], folder)


if __name__ == '__main__':
    main()
