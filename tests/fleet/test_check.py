#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cudamemstat check over processes that change meanwhile: test_check.py TOOL PUPPET"""

import pathlib
import re
import subprocess
import sys
import tempfile
import threading

from stage import Puppet, run_cases

TOOL, PUPPET = sys.argv[1:3]
GIB = 1 << 30
CODES = {'OK': 0, 'WARNING': 1, 'CRITICAL': 2, 'UNKNOWN': 3}
LINE = re.compile(r'CUDAMEM (OK|WARNING|CRITICAL|UNKNOWN) - ([^|]+)( \| allocated=(\d+)B;;;0 '
                  r'reserved=\d+B;;;0 fragmented=\d+B;;;0 ooms=\d+c processes=\d+;;;0)?')


def check(folder, *words):
    """The result, its reason and the bytes allocated."""
    run = subprocess.run([TOOL, 'check', '--dir', folder, *words], capture_output=True, text=True,
                         timeout=60, check=False)
    found = LINE.fullmatch(run.stdout.splitlines()[0])
    assert found and run.returncode == CODES[found[1]] and not run.stderr, run
    return found[1], found[2], int(found[4] or 0)


def played(act):
    """Gives a folder and a process with figures to `act`."""
    with tempfile.TemporaryDirectory(prefix='cudamem-check-') as folder:
        puppet = Puppet(PUPPET, pathlib.Path(folder))
        try:
            act(folder, puppet)
        finally:
            puppet.end()


def meanwhile(puppet, steps, pause):
    """Sets the figures of one step after another while the check looks."""
    def play():
        for step in steps:
            if end.wait(pause):
                return
            puppet.set(**step)
    end = threading.Event()
    thread = threading.Thread(target=play)
    thread.start()

    def finish():
        end.set()
        thread.join()
    return finish


def thresholds_are_compared():
    def act(folder, puppet):
        puppet.set(allocated=2 * GIB, reserved=4 * GIB, held=GIB, ooms=0)
        assert check(folder, '--warning', 'ALLOC > 2G')[0] == 'OK'
        assert check(folder, '--warning', 'ALLOC >= 2G') == ('WARNING', f'pid {puppet.pid} (puppet) '
                                                            'gpu 0: ALLOC >= 2G', 2 * GIB)
        assert check(folder, '--warning', 'ALLOC > 1G', '--critical', 'RESERVED% >= 5')[0] == 'CRITICAL'
        assert check(folder, '--critical', 'FRAGMENTED% > 25')[0] == 'OK'
        assert check(folder, '--critical', 'FRAGMENTED% >= 25')[0] == 'CRITICAL'
    played(act)


def presets_find_what_they_are_named_after():
    def act(folder, puppet):
        presets = '--fail-on', 'oom,fragmented'
        puppet.set(allocated=GIB, reserved=4 * GIB, held=GIB)
        assert check(folder, *presets)[0] == 'OK'
        puppet.set(held=2 * GIB)
        assert check(folder, *presets)[:2] == ('WARNING', f'pid {puppet.pid} (puppet) gpu 0: fragmented')
        puppet.set(ooms=1)
        assert check(folder, *presets)[:2] == ('CRITICAL', f'pid {puppet.pid} (puppet) gpu 0: oom')
    played(act)


def a_condition_must_hold_all_the_time():
    def act(folder, puppet):
        puppet.set(allocated=2 * GIB)
        words = '--critical', 'ALLOC > 1G', '--for', '2'
        assert check(folder, *words)[0] == 'CRITICAL'
        finish = meanwhile(puppet, [{'allocated': 0}], 0.7)
        assert check(folder, *words)[0] == 'OK'
        finish()
    played(act)


def memory_that_only_rises_is_a_leak():
    """One that comes back is none, however high it rises."""
    def act(folder, puppet):
        for steps, result in (([{'allocated': n * GIB} for n in range(2, 60)], 'WARNING'),
                              ([{'allocated': n % 3 * GIB} for n in range(2, 60)], 'OK'),
                              ([{'allocated': GIB}], 'OK')):
            puppet.set(allocated=GIB)
            finish = meanwhile(puppet, steps, 0.1)
            assert check(folder, '--fail-on', 'leak', '--for', '4')[0] == result, result
            finish()
    played(act)


def what_cannot_be_told_is_unknown():
    def act(folder, puppet):
        assert check(folder, '--fail-on', 'oom')[0] == 'OK'
        puppet.set(major=99)
        assert check(folder, '--fail-on', 'oom')[0] == 'UNKNOWN'
        assert check(folder, '--fail-on', 'nothing')[0] == 'UNKNOWN'
        assert check(folder, '-o', 'PID', '--fail-on', 'oom')[0] == 'UNKNOWN'
    played(act)


if __name__ == '__main__':
    sys.exit(run_cases([
        thresholds_are_compared, presets_find_what_they_are_named_after,
        a_condition_must_hold_all_the_time, memory_that_only_rises_is_a_leak,
        what_cannot_be_told_is_unknown]))
