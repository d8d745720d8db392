# SPDX-License-Identifier: MIT
"""Memory outside the cache in events and reports, and its failures: outside.py MODULE DRIVER TOOL

A program that lives on pools, managed and pitched memory sees them, by where it requests them.
"""

import collections
import csv
import ctypes
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20


class Plane(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR"""
    _fields_ = [('width', ctypes.c_size_t), ('height', ctypes.c_size_t),
                ('format', ctypes.c_int), ('channels', ctypes.c_uint)]


class Cube(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR"""
    _fields_ = [('width', ctypes.c_size_t), ('height', ctypes.c_size_t),
                ('depth', ctypes.c_size_t), ('format', ctypes.c_int),
                ('channels', ctypes.c_uint), ('flags', ctypes.c_uint)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [('type', ctypes.c_int), ('handles', ctypes.c_int), ('location', ctypes.c_int),
                ('id', ctypes.c_int), ('rest', ctypes.c_uint64 * 4)]


# The function that requests it, what of, and how the report calls it. 1 GiB is full with 80 MiB.
FAILURES = [
    ('pool', 2000 * MIB, 'stream-ordered memory'),
    ('pitched', 1500 * MIB, 'pitched memory'),
    ('managed', 1024 * MIB, 'managed memory'),
    ('array', 1024, 'an array'),
    ('cube', 1024, 'an array'),
    ('mipmap', 1024, 'an array'),
    ('mapped', 1024 * MIB, 'memory to map'),
]
TEXELS = {1024: 1024 * MIB}
# By a plan, as managed and host memory does not end with the card. The cache of pinned memory asks
# twice.
PINNED = ['pinned', 'plain', 'register']
PLAN = (',fail:cuMemAllocManaged@2,fail:cuMemHostAlloc@1,then:cuMemHostAlloc@1,'
        'fail:cuMemAllocHost_v2@1,then:cuMemAllocHost_v2@1,fail:cuMemHostRegister_v2@1')


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

    def array(self, width):
        array, shape = ctypes.c_void_p(), Plane(width, 65536, 0x20, 4)
        return self.driver.cuArrayCreate_v2(ctypes.byref(array), ctypes.byref(shape))

    def cube(self, width):
        array, shape = ctypes.c_void_p(), Cube(width, 65536, 1, 0x20, 4, 0)
        return self.driver.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(shape))

    def mipmap(self, width):
        array, shape = ctypes.c_void_p(), Cube(width, 65536, 1, 0x20, 4, 0)
        return self.driver.cuMipmappedArrayCreate(ctypes.byref(array), ctypes.byref(shape), 1)

    def mapped(self, size):
        handle = ctypes.c_uint64()
        return self.driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size),
                                       ctypes.byref(Properties(type=1, location=1)),
                                       ctypes.c_uint64(0))

    def pinned(self, size):
        address = ctypes.c_void_p()
        return self.driver.cuMemHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), 0)

    def plain(self, size):
        address = ctypes.c_void_p()
        return self.driver.cuMemAllocHost_v2(ctypes.byref(address), ctypes.c_size_t(size))

    def register(self, size):
        self.buffer = ctypes.create_string_buffer(size)
        return self.driver.cuMemHostRegister_v2(self.buffer, ctypes.c_size_t(size), 0)

    def fail_each_kind(self):
        for function, size, _ in FAILURES:
            result = getattr(self, function)(size)
            assert (result[0] if isinstance(result, tuple) else result) == 2, function
        for function in PINNED:
            assert getattr(self, function)(3 * MIB) == 2, function
            assert getattr(self, function)(3 * MIB) == 0, function

    def run(self, more):
        address = ctypes.c_uint64()
        assert self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(MIB)) == 0
        assert self.pool(50 * MIB)[0] == 0
        result, passing = self.pool(20 * MIB)
        assert result == 0 and self.driver.cuMemFreeAsync(passing, None) == 0
        assert self.managed(30 * MIB) == 0
        if more:
            assert self.pool(more * MIB)[0] == 0
        self.fail_each_kind()


def run(module, driver, folder, more=0):
    """The program; what it said, and its region, which stays for who looks later."""
    environment = {**os.environ, 'LD_PRELOAD': module, 'CUDASIM': 'memory:1G' + PLAN,
                   'CUDAMEM_CONF': f'region_dir:{folder},stacks:alloc',
                   'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
    os.mkdir(folder)
    program = subprocess.run([sys.executable, __file__, '--program', driver, str(more)],
                             env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert program.returncode == 0, program.stderr
    region, = (os.path.join(folder, name) for name in os.listdir(folder))
    return program.stderr, region


def check_exports(ask):
    # PyTorch's viewer gets it if it is asked for.
    def traces(*words):
        return pickle.loads(ask('export', '--to', 'pickle', *words, '-O', '-'))['device_traces'][0]

    assert {event['action'] for event in traces()} <= {'alloc', 'segment_alloc'}, traces()
    both = traces('--uncached')
    assert [event['size'] for event in both if event['action'] == 'alloc'] == [
        size * MIB for size in (1, 50, 20, 30)], both
    assert sum(event['action'] == 'free_completed' for event in both) == 1, both
    assert sum(event['action'] == 'oom' for event in both) == len(FAILURES), both

    rows = list(csv.DictReader(ask('export', '--to', 'csv', '-O', '-').decode().splitlines()))
    actions = collections.Counter(row['action'] for row in rows if row['device'] == '0')
    assert actions == {'alloc': 1, 'segment_alloc': 1, 'outside_alloc': 3, 'outside_free': 1,
                       'outside_oom': len(FAILURES)}, actions
    kinds = [row['kind'] for row in rows if row['action'] != 'outside_oom' and row['kind']]
    assert kinds == ['async', 'async', 'async', 'managed'], kinds
    kinds = [row['kind'] for row in rows if row['action'] == 'outside_oom']
    assert kinds == ['async', 'pitched', 'managed', *['arrays'] * 3, 'mapped'], kinds
    trace = ask('export', '--to', 'perfetto', '-O', '-')
    assert b'GPU 0 outside the cache allocated' in trace
    assert b'GPU 0 outside the cache reserved' not in trace


def check_diff(tool, first, second):
    done = subprocess.run([tool, 'diff', first, second, '--json'], stdout=subprocess.PIPE,
                          check=False)
    assert done.returncode == 1, done
    outside, = (row for row in json.loads(done.stdout)['devices']
                if 'outside the cache' in row['name'])
    assert outside['before']['allocated_bytes'] == 80 * MIB, outside
    assert outside['after']['allocated_bytes'] == 87 * MIB, outside
    change, = outside['changes']
    assert change['bytes'] == 7 * MIB and change['blocks'] == 1, change
    assert 'outside.py' in change['stack'], change


def check(module, driver, tool, folder):
    said, region = run(module, driver, os.path.join(folder, 'first'))
    _, second = run(module, driver, os.path.join(folder, 'second'), 7)
    lines = [line for line in said.splitlines() if ']: out of memory' in line]
    kinds = [kind for _, _, kind in FAILURES] + ['pinned host memory'] * len(PINNED)
    assert len(lines) == len(kinds), said
    for line, kind in zip(lines, kinds):
        assert f'of {kind}' in line, (line, kind)
    assert re.search(r'at (Program\.)?pool outside\.py:', said), said

    def ask(*words):
        return subprocess.run([tool, *words, '--region', region], stdout=subprocess.PIPE,
                              check=True).stdout

    devices = json.loads(ask('report', '--json'))['devices']
    cached, outside, host = sorted(devices, key=lambda row: (row['gpu'] is None,
                                                             row['outside_the_cache']))
    assert not cached['outside_the_cache'] and cached['out_of_memory'] == [], cached
    assert outside['outside_the_cache'], outside
    held = {(row['caller'].rpartition('.')[2], row['bytes']) for row in outside['stacks_allocated']}
    assert held == {('pool', 50 * MIB), ('managed', 30 * MIB)}, held
    failed = [(row['requested_bytes'], row['frames']) for row in outside['out_of_memory']]
    assert len(failed) == len(FAILURES), failed
    for (size, frames), (function, want, _) in zip(failed, FAILURES):
        assert size == TEXELS.get(want, want), (function, size)
        assert any(frame['function'].endswith(function) for frame in frames), (function, frames)
    failed = [row['requested_bytes'] for row in host['out_of_memory']]
    assert failed == [3 * MIB] * len(PINNED), failed
    assert outside['peak_of_events']['requested_bytes'] == 80 * MIB, outside
    text = ask('report').decode()
    assert 'GPU 0 outside the cache' in text and 'async' in text, text

    # PyTorch's counter and its viewer know nothing of them.
    stats = json.loads(ask('memory-stats', '--json'))
    text = json.dumps(stats)
    assert f'"uncached_ooms": {len(FAILURES)}' in text and '"num_ooms": 0' in text, text
    text = ask('memory-stats', '--host').decode().split()
    assert text[text.index('num_host_ooms') + 1] == str(len(PINNED)), text
    check_exports(ask)
    check_diff(tool, region, second)


def check_pools_alone(module, driver, tool, folder):
    """What show and run say of a program that has nothing in the cache."""
    os.mkdir(folder)
    own = [sys.executable, __file__, '--pools', driver]
    environment = {**os.environ, 'CUDASIM': 'memory:1G', 'LD_PRELOAD': module,
                   'CUDAMEM_CONF': f'region_dir:{folder},region_keep:on',
                   'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
    subprocess.run(own, env=environment, check=True)
    region, = (os.path.join(folder, name) for name in os.listdir(folder))
    text = subprocess.run([tool, 'show', '--region', region], stdout=subprocess.PIPE, text=True, check=True).stdout
    # What is free was asked before; all adds up to the device all the same.
    assert re.search(r'^  uncached +50\.00 MiB', text, re.MULTILINE), text
    assert re.search(r'^  total +1\.00 GiB 100\.0%', text, re.MULTILINE), text
    del environment['LD_PRELOAD'], environment['CUDAMEM_CONF']
    said = subprocess.run([tool, 'run', '--library', module, '--report', '--', *own], env=environment,
                          stderr=subprocess.PIPE, text=True, check=True).stderr
    assert re.search('peak +50.00 MiB outside the cache, to which no request went', said), said


def main():
    if sys.argv[1] == '--pools':
        assert Program(sys.argv[2]).pool(50 * MIB)[0] == 0
        return
    if sys.argv[1] == '--program':
        Program(sys.argv[2]).run(int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        check(*sys.argv[1:], folder)
        check_pools_alone(*sys.argv[1:], os.path.join(folder, 'pools'))


if __name__ == '__main__':
    main()
