#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that the tool writes, in folders where others can put something under their names."""

import os
import signal
import subprocess
import sys
import time

from hostile import LIBRARY, NOBODY, PROGRAM, environment, fresh, kit, need_root, tool


def writers(kit_, path):
    """Every way to write a file, with --force where it has one."""
    return (('snapshot', kit_.saved, '-f', '-O', path),
            ('export', '--to', 'csv', kit_.saved, '-f', '-O', path),
            ('plot', 'sizes', kit_.saved, '-f', '-O', path),
            ('run', '--library', LIBRARY, '--oom', path, '--', PROGRAM, 'oom'),
            ('run', '--library', LIBRARY, '--save-peak', path, '--', PROGRAM, 'leak', '3'))


def openers(kit_, path):
    """And the one that appends to a file of its own."""
    return (*writers(kit_, path), ('stat', '--record', path, '0.1', '1'))


def a_planted_link_is_not_followed(kit_):
    folder = fresh(kit_, 'links')
    target, link = folder / 'target', folder / 'link.cudamem'
    for words in openers(kit_, link):
        target.write_text('mine', encoding='utf-8')
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        run = tool(kit_, *words)
        assert 'a symbolic link, not followed' in run.stderr, (words, run)
        assert target.read_text(encoding='utf-8') == 'mine' and link.is_symlink(), words
    link.unlink()
    link.symlink_to(folder / 'nothing')
    for words in openers(kit_, link):
        tool(kit_, *words)
        assert not (folder / 'nothing').exists(), words


def a_planted_pipe_keeps_nobody_waiting(kit_):
    pipe = fresh(kit_, 'pipes') / 'pipe.cudamem'
    os.mkfifo(pipe)
    for words in openers(kit_, pipe):
        run = tool(kit_, *words)
        assert 'not a regular file' in run.stderr and pipe.is_fifo(), (words, run)


def what_belongs_to_another_user_stays(kit_):
    need_root()
    path = fresh(kit_, 'foreign') / 'foreign.cudamem'
    path.write_text('foreign', encoding='utf-8')
    os.chown(path, NOBODY, NOBODY)
    for words in openers(kit_, path):
        run = tool(kit_, *words)
        assert 'belongs to another user' in run.stderr, (words, run)
        assert path.read_text(encoding='utf-8') == 'foreign', words


def files_are_for_their_user_alone(kit_):
    folder = fresh(kit_, 'modes')
    path = folder / 'file.cudamem'
    for words in writers(kit_, path):
        for before in (None, 0o666):
            path.unlink(missing_ok=True)
            if before:
                path.touch()
                path.chmod(before)
            run = tool(kit_, *words)
            assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size, (words, run)
            assert os.listdir(folder) == [path.name], words


def open_descriptors_and_devices_are_written_to(kit_):
    csv = kit_.export('csv')
    for path in ('-', '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1'):
        assert kit_.ok('export', '--to', 'csv', kit_.saved, '-O', path) == csv, path
    kit_.ok('export', '--to', 'csv', kit_.saved, '-O', '/dev/null')
    assert os.path.exists('/dev/null')


def a_signal_ends_the_reports(kit_):
    """The child is gone, and standard error, on which the leaks are told, is a full pipe."""
    program = ('sh', '-c', f'"{PROGRAM}" leak 200 >/dev/null 2>&1; echo gone; exec 1>&-')
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b'x' * 65536)
    except BlockingIOError:
        os.set_blocking(write, True)
    with subprocess.Popen([kit_.tool, 'run', '--library', LIBRARY, '--leaks', '--', *program],
                          env=environment(), stdout=subprocess.PIPE, stderr=write,
                          stdin=subprocess.DEVNULL) as process:
        os.close(write)
        assert process.stdout.readline() == b'gone\n'
        end = time.monotonic() + 50
        status = None
        while status is None and time.monotonic() < end:
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                pass
        process.kill()
    os.close(read)
    assert status == -signal.SIGTERM, status
    # It had no time to remove its folder; the next run does.
    kit_.ok('run', '--library', LIBRARY, '--leaks', '--', 'true')


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_planted_link_is_not_followed, a_planted_pipe_keeps_nobody_waiting,
        what_belongs_to_another_user_stays, files_are_for_their_user_alone,
        open_descriptors_and_devices_are_written_to, a_signal_ends_the_reports]))
