# SPDX-License-Identifier: MIT
"""Options that change while the program runs: conf.py MODULE DRIVER TOOL"""

import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
CARD = 1 << 30
STORM_SECONDS = 1.5


class Driver:
    """Calls of the program; None where memory is out."""

    def __init__(self, path):
        self.driver = ctypes.CDLL(path)
        self.context = ctypes.c_void_p()
        assert self.driver.cuInit(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0) == 0
        self.enter()

    def enter(self):
        assert self.driver.cuCtxSetCurrent(self.context) == 0

    def get(self, size, pool=False):
        address = ctypes.c_uint64()
        arguments = ctypes.byref(address), ctypes.c_size_t(size)
        result = (self.driver.cuMemAllocAsync(*arguments, None) if pool else
                  self.driver.cuMemAlloc_v2(*arguments))
        assert result in (0, 2), result
        return None if result else address

    def put(self, address, pool=False):
        result = (self.driver.cuMemFreeAsync(address, None) if pool else
                  self.driver.cuMemFree_v2(address))
        assert result == 0, result

    def info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        assert self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        return [free.value // MIB, total.value // MIB]


def storm(driver, seed, end):
    choose = random.Random(seed)
    held = []
    driver.enter()
    while time.monotonic() < end:
        if held and choose.random() < 0.5:
            driver.put(*held.pop(choose.randrange(len(held))))
            continue
        pool = choose.random() < 0.5
        address = driver.get(choose.randrange(1, 40) * MIB, pool)
        if address:
            held.append((address, pool))
    while held:
        driver.put(*held.pop())


def program(path):
    """Does what each line says, and answers with a line."""
    driver = Driver(path)
    held = {}
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == 'get':
            held[words[0]] = driver.get(int(words[1]) * MIB), False
            answer = held[words[0]][0] is not None
        elif verb == 'put':
            answer = driver.put(*held.pop(words[0]))
        elif verb == 'storm':
            end = time.monotonic() + STORM_SECONDS
            threads = [threading.Thread(target=storm, args=(driver, i, end)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            answer = driver.driver.cuCtxSynchronize()
        else:
            answer = driver.info()
        print(json.dumps(answer), flush=True)


class Play:
    def __init__(self, module, driver, tool, folder):
        environment = {**os.environ, 'LD_PRELOAD': module, 'CUDASIM': f'memory:{CARD}',
                       'CUDAMEM_CONF': f'region_dir:{folder},oom_report:off',
                       'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
        self.tool, self.folder = tool, folder
        self.process = subprocess.Popen([sys.executable, __file__, '--program', driver],
                                        env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begin(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def end(self):
        return json.loads(self.process.stdout.readline())

    def do(self, *words):
        self.begin(*words)
        return self.end()

    def conf(self, *words, target=True):
        words = [str(self.process.pid)] * target + list(words)
        return subprocess.run([self.tool, 'conf', '--dir', self.folder, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)

    def set(self, *words):
        done = self.conf(*words)
        assert done.returncode == 0, done
        return done.stdout

    def value(self, option):
        rows = json.loads(self.set('--json'))['options']
        return next((row['value'], row['from']) for row in rows if row['option'] == option)


def limits(play):
    assert play.do('info') == [1024, 1024]
    assert play.do('get', 'a', 100)
    said = play.set('memory_limit_mb:200')
    assert said == f'{play.process.pid} memory_limit_mb: unlimited -> 200\n', said
    assert play.value('memory_limit_mb') == ('200', 'tool')
    assert play.do('info') == [100, 200]
    assert not play.do('get', 'b', 101)
    assert play.do('get', 'b', 100)
    # Below what is in use: nothing is taken away, and requests fail until they fit.
    play.set('memory_limit_mb:120')
    assert play.do('info') == [0, 120]
    assert not play.do('get', 'c', 10)
    play.do('put', 'b')
    assert play.do('info') == [20, 120]
    assert play.do('get', 'c', 20)
    # What is idle beyond a lower limit goes back by itself.
    play.do('put', 'a')
    play.do('put', 'c')
    play.set('memory_limit_mb:40')
    end = time.monotonic() + 20
    while reserved(play) > 40 * MIB:
        assert time.monotonic() < end, reserved(play)
        time.sleep(0.05)
    # The lower of two limits holds.
    play.set('memory_limit_mb:500', 'per_process_memory_fraction:0.25')
    assert play.do('info') == [256, 256]
    play.set('per_process_memory_fraction:1', 'memory_limit_mb:unlimited')
    assert play.do('info') == [1024, 1024]


def reserved(play):
    rows = json.loads(subprocess.run([play.tool, 'ls', '--dir', play.folder, '--json'],
                                     stdout=subprocess.PIPE, check=True).stdout)
    return rows['processes'][0]['devices'][0]['reserved_bytes']


def others(play):
    assert play.value('decay_seconds') == ('60', 'default')
    play.set('decay_seconds:1')
    assert play.do('get', 'a', 64)
    play.do('put', 'a')
    end = time.monotonic() + 30
    while reserved(play):
        assert time.monotonic() < end, reserved(play)
        time.sleep(0.1)
    play.set('decay_seconds:off', 'oom_report:line')
    assert play.value('decay_seconds') == ('off', 'tool')
    assert not play.do('get', 'a', 2000)


def mistakes(play):
    for words, code, what in (
            (('memory_limit_mb:0',), 2, 'out of range'),
            (('memory_limit_mb:x',), 2, 'not understood'),
            (('memory_limit_mb:1,oom_report:off',), 2, 'is no value'),
            (('memory_limit_mb:500', 'colour:red'), 2, "unknown option 'colour'"),
            (('memory_limit_mb',), 2, 'one process'),
            (('memory_limit_mb=5',), 2, 'has no :value'),
            (('mode:off',), 2, 'these can: '),
            (('per_process_memory_fraction:0.1234567890123456789012345',), 2, 'not understood')):
        done = play.conf(*words)
        assert done.returncode == code and what in done.stderr, (words, done)
    done = play.conf('oom_report:line', target=False)
    assert done.returncode == 2 and 'conf PID oom_report:line' in done.stderr, done
    assert play.value('memory_limit_mb')[0] == 'unlimited'


def limits_in_a_storm(play):
    choose = random.Random(1)
    play.set('oom_report:off')
    play.begin('storm')
    end = time.monotonic() + STORM_SECONDS
    while time.monotonic() < end:
        play.set(f'memory_limit_mb:{choose.randrange(10, 200)}')
    assert play.end() == 0
    play.set('memory_limit_mb:64')
    assert play.do('info') == [64, 64]
    assert play.do('get', 'a', 60)


def main():
    if sys.argv[1] == '--program':
        program(sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as folder:
        play = Play(*sys.argv[1:], folder)
        limits(play)
        mistakes(play)
        others(play)
        limits_in_a_storm(play)
        _, said = play.process.communicate()
        assert play.process.returncode == 0, said
        assert said.count('out of memory') == 1, said


if __name__ == '__main__':
    main()
