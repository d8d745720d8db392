#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Regions that claim to be another process's, and those that claim more than they have."""

import json
import os
import pathlib
import resource
import subprocess
import sys

from hostile import (NOBODY, environment, forge, forged, fresh, kit, need_root, tool, was_opened,
                     watch)

REGIONS = '/dev/shm'


def start_of(pid):
    return int(pathlib.Path(f'/proc/{pid}/stat').read_text('utf-8').rpartition(')')[2].split()[19])


def another_user_is_not_taken_for_the_process(kit_):
    """Whatever start time the forged file claims, and though it is locked as a live one is."""
    need_root()
    genuine, path = forge('own', REGIONS)
    real = start_of(genuine.pid)
    try:
        for start in (real, real + 1, real + 100000, real - 1):
            liar, lie = forge('as', REGIONS, genuine.pid, start, user=NOBODY)
            try:
                assert lie.exists() and lie.stat().st_uid == NOBODY, lie
                listed = tool(kit_, 'ls', '-p', str(genuine.pid), '--csv', '-o', 'PID,USER,COMMAND')
                assert 'genuine' in listed.stdout and 'forged' not in listed.stdout, (start, listed)
                run = tool(kit_, 'snapshot', str(genuine.pid), '-f', '-O', 'x.cudamem',
                           cwd=kit_.folder)
                assert run.returncode == 0, (start, run)
                data = json.loads(tool(kit_, 'show', '--json', kit_.folder / 'x.cudamem').stdout)
                assert 'genuine' in json.dumps(data), (start, data)
            finally:
                liar.communicate()
                lie.unlink(missing_ok=True)
    finally:
        genuine.communicate()
    assert not path.exists()


def who_has_no_region_gets_none_from_another(kit_):
    need_root()
    liar, lie = forge('as', REGIONS, 1, start_of(1) + 1, user=NOBODY)
    try:
        for words in (('show', '1'), ('trim', '1'), ('snapshot', '1', '-O', '-')):
            run = tool(kit_, *words)
            assert run.returncode == 3 and 'forged' not in run.stdout + run.stderr, (words, run)
            assert 'does not use libcudamem' in run.stderr, (words, run)
    finally:
        liar.communicate()
        lie.unlink(missing_ok=True)


def a_file_of_the_processes_own_user_is_taken(kit_):
    """One that the process does not hold open: of a container whose processes we do not see."""
    genuine, _ = forge('own', REGIONS)
    folder = fresh(kit_, 'seen')
    other = forged('as', folder, genuine.pid, start_of(genuine.pid) + 5)
    try:
        run = tool(kit_, 'ls', '--dir', folder, '--csv', '-o', 'PID,COMMAND')
        assert 'forged' in run.stdout, (other, run)
        run = tool(kit_, 'ls', '-p', str(genuine.pid), '--csv', '-o', 'PID,COMMAND')
        assert 'genuine' in run.stdout, run
    finally:
        genuine.communicate()


def who_may_not_read_a_region_is_told_so(kit_):
    """In a list its process has a row without figures; asked for by its number it is an error."""
    need_root()
    genuine, _ = forge('own', REGIONS)
    program = os.open(kit_.tool, os.O_RDONLY)  # the user may not be allowed into its folder
    try:
        for words, code in ((('ls',), 0), (('ls', '-p', str(genuine.pid)), 3),
                            (('ls', '--json', '-p', str(genuine.pid)), 3),
                            (('stat', '-p', str(genuine.pid)), 3)):
            run = subprocess.run([f'/proc/self/fd/{program}', *words], pass_fds=[program], text=True,
                                 user=NOBODY, extra_groups=[], capture_output=True, check=False,
                                 env=environment(), timeout=60)
            assert run.returncode == code, (words, run)
            told = f'process {genuine.pid} belongs to root; you may not read its region' in run.stderr
            assert told == bool(code), (words, run)
            assert words[0] == 'stat' or str(genuine.pid) in run.stdout, (words, run)
    finally:
        os.close(program)
        genuine.communicate()


def what_is_no_file_is_not_opened(kit_):
    """A pipe or a link under the name of a region."""
    folder = fresh(kit_, 'planted')
    place = folder / f'cudamem.{os.geteuid()}.1.{start_of(1)}'
    os.mkfifo(place)
    link = folder / 'link'
    link.symlink_to(place)
    watcher = watch(place)
    for path, why in ((place, 'not a regular file'), (link, 'a symbolic link, not followed')):
        for words in (('show', '--region', path), ('snapshot', '--region', path, '-O', '-'),
                      ('ls', '--dir', folder), ('show', path)):
            run = tool(kit_, *words)
            assert words[0] == 'ls' or why in run.stderr, (words, run)
    assert not was_opened(watcher)


def what_is_not_backed_is_not_read(kit_):
    path = forged('sparse', fresh(kit_, 'sparse'))
    assert path.stat().st_size > 1 << 31 and path.stat().st_blocks * 512 < 1 << 20, path.stat()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for words in (('show', '--region', path), ('snapshot', '--region', path, '-O', '-'),
                  ('report', '--region', path), ('ls', '--dir', path.parent),
                  ('export', '--to', 'csv', '--region', path)):
        run = tool(kit_, *words)
        assert 'damaged' in run.stdout + run.stderr, (words, run)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
    assert after.ru_maxrss < 1 << 20, after  # KiB


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        another_user_is_not_taken_for_the_process, who_has_no_region_gets_none_from_another,
        a_file_of_the_processes_own_user_is_taken, who_may_not_read_a_region_is_told_so,
        what_is_no_file_is_not_opened, what_is_not_backed_is_not_read]))
