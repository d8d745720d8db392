#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recipes of docs/cookbook.md give what it says they give.

  test_cookbook.py TOOL MAKER COOKBOOK LIBRARY SIMULATION PAGE
"""

import os
import pathlib
import re
import subprocess
import sys
import time

import kit

COOKBOOK, LIBRARY, SIMULATION, PAGE = map(os.path.abspath, sys.argv[3:7])


def start(kit_, *words):
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(SIMULATION).parent),
                   'ASAN_OPTIONS': 'verify_asan_link_order=0', 'CUDAMEM_CONF': ''}
    return subprocess.Popen([kit_.tool, 'run', '--library', LIBRARY, *map(str, words)], env=environment, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=kit_.folder)


class Running:
    """A recipe's program that waits, with its region in a folder of its own."""

    def __init__(self, kit_, mode, conf):
        self.dir = kit_.folder / mode
        self.dir.mkdir()
        self.process = start(kit_, '--conf', f'region_dir:{self.dir},{conf}', '--', COOKBOOK, mode)
        assert self.process.stdout.readline() == 'ready\n'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=300)

    def ask(self, kit_, verb, *words):
        return plain(kit_.ok(verb, '--dir', self.dir, *words, 'cookbook').decode())


def plain(text):
    """Without what differs from run to run and from build to build."""
    text = re.sub(r'(\.\./)*\S*cookbook\.c', 'cookbook.c', text)
    return re.sub(r'==\d+==', '==PID==', re.sub(r'0x[0-9a-f]+|^\d+ GPU', 'N', text, flags=re.MULTILINE))


def check(text, *lines):
    """Each line is on the page and in the output, whatever the blanks between words."""
    def squeeze(words):
        return re.sub(r'[ \t]+', ' ', words)
    page = squeeze(plain(pathlib.Path(PAGE).read_text(encoding='utf-8')))
    for line in lines:
        assert squeeze(line) in page, ('not on the page', line)
        assert squeeze(line) in squeeze(text), ('not what it prints', line, text)


def a_leak_is_found(kit_):
    with start(kit_, '--leaks', '--', COOKBOOK, 'leak') as process:
        text = plain(process.communicate(timeout=300)[1])
    check(text, '2 stacks still hold memory at exit: 316.00 MiB in 21 blocks',
          '60.00 MiB 20 blocks GPU 0 Simulated CUDA device GROWING', '#3 train_step cookbook.c:41',
          '256.00 MiB 1 block GPU 0 Simulated CUDA device since the beginning')


def holes_are_seen(kit_):
    with Running(kit_, 'holes', 'stacks:all') as running:
        text = running.ask(kit_, 'show', '--fresh', '--map', '--ascii')
        check(text, 'cached, fragmented 1.17 GiB 7.3% ##', 'cached, releasable 0 B 0.0%',
              '20.0M 0 40% ........................########................\n ........########################\n')
        check(running.ask(kit_, 'trim'), '0 B released in 0 driver frees, 1.17 GiB still cached')


def a_limit_is_told(kit_):
    with start(kit_, '--limit', '2G', '--oom', 'oom.cudamem', '--conf', 'stacks:all', '--', COOKBOOK, 'oom') as process:
        err = plain(process.communicate(timeout=300)[1])
    check(err, 'requested 512.00 MiB, limit 2048.00 MiB, of which 2048.00 MiB is taken (LIMIT)', 'cudamem: out of memory, saved oom.cudamem')
    check(plain(kit_.ok('report', './oom.cudamem').decode()),
          '1.00 GiB 2 blocks get cookbook.c:26 < next_batch cookbook.c:77', '512.00 MiB requested, 14.00 GiB free on the device')


def the_inner_loop_is_named(kit_):
    with Running(kit_, 'loop', 'stacks:all') as running:
        check(running.ask(kit_, 'report'), '64.00 KiB 4000 times get cookbook.c:26 < normalise cookbook.c:89')


def a_server_returns_memory(kit_):
    with Running(kit_, 'server', 'stacks:off') as running:
        check(running.ask(kit_, 'trim'), 'reserved 2.00 GiB -> 0 B, 2.00 GiB released in 64 driver frees, 0 B still cached')
    (kit_.folder / 'server').rename(kit_.folder / 'before')
    with Running(kit_, 'server', 'decay_seconds:1') as running:
        end = time.monotonic() + 60
        while kit_.ok('ls', '--dir', running.dir, '-o', 'RESERVED', '--raw', '--noheadings') != b'0\n':
            assert time.monotonic() < end
            time.sleep(0.1)


if __name__ == '__main__':
    sys.exit(kit.with_kit([a_leak_is_found, holes_are_seen, a_limit_is_told, the_inner_loop_is_named,
                           a_server_returns_memory], COOKBOOK))
