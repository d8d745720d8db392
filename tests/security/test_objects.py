#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects and debug files that a hostile process names, and a program that loads one often."""

import os
import resource
import shutil
import stat
import subprocess
import sys

from hostile import (LIBRARY, NOBODY, PROGRAM, forged, fresh, kit, need_root, tool, was_opened,
                     watch)

GENERATIONS = 6000


def readers(path):
    return (('report', '--region', path), ('snapshot', '--region', path, '-O', '-'),
            ('plot', 'flame', '--region', path, '-O', '-'),
            ('export', '--to', 'folded', '--region', path))


def linked_object(folder):
    """An object without names of its own that says where they are."""
    path, debug = folder / 'object', folder / 'object-names'
    debug.write_bytes(b'')
    try:
        subprocess.run(['objcopy', '--strip-all', f'--add-gnu-debuglink={debug}', PROGRAM, path],
                       check=True)
    except FileNotFoundError:
        raise kit.Skip('objcopy is not installed (binutils)') from None
    debug.unlink()
    return path, debug


def a_debug_file_that_is_a_pipe_keeps_nobody_waiting(kit_):
    folder = fresh(kit_, 'debuglink')
    path, debug = linked_object(folder)
    (folder / '.debug').mkdir()
    region = forged('names', folder, path)
    for pipe in (debug, folder / '.debug' / debug.name, folder / 'object.debug',
                 folder / '.debug' / 'object'):
        os.mkfifo(pipe)
        watcher = watch(pipe)
        for words in readers(region):
            run = tool(kit_, *words)
            assert run.returncode == 0, (pipe, words, run)
        assert not was_opened(watcher), pipe
        pipe.unlink()


def pipes_and_devices_are_not_opened(kit_):
    folder = fresh(kit_, 'devices')
    places = [folder / 'pipe']
    os.mkfifo(places[0])
    if os.geteuid() == 0:
        places.append(folder / 'zero')
        os.mknod(places[1], 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    for place in places:
        region = forged('names', fresh(kit_, 'named'), place)
        watcher = watch(place)
        for words in readers(region):
            run = tool(kit_, *words)
            assert run.returncode == 0, (place, words, run)
        assert not was_opened(watcher), place


def what_the_owner_may_not_read_root_does_not_read_for_him(kit_):
    need_root()
    kit_.folder.chmod(0o755)
    place, regions = fresh(kit_, 'secret'), fresh(kit_, 'nobodys')
    regions.chmod(0o777)
    secret = place / 'object'
    shutil.copy(PROGRAM, secret)
    region = forged('names', regions, secret, user=NOBODY)
    for mode, lines in ((0o755, False), (0o700, True)):
        place.chmod(mode)
        run = tool(kit_, 'report', '--region', region)
        assert run.returncode == 0, run
        assert ('missing or changed: 1 of 1 objects' in run.stderr) == lines, (mode, run)
    place.chmod(0o755)
    secret.chmod(0o600)
    run = tool(kit_, 'report', '--region', region)
    assert 'missing or changed: 1 of 1 objects' in run.stderr, run


def an_object_that_is_loaded_often_is_read_once(kit_):
    region = forged('reloads', fresh(kit_, 'reloads'), GENERATIONS, PROGRAM, LIBRARY)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = tool(kit_, 'snapshot', '--region', region, '-O', kit_.folder / 'often.cudamem')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert run.returncode == 0 and 'missing' not in run.stderr, run
    assert seconds < 5, seconds


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_debug_file_that_is_a_pipe_keeps_nobody_waiting, pipes_and_devices_are_not_opened,
        what_the_owner_may_not_read_root_does_not_read_for_him,
        an_object_that_is_loaded_often_is_read_once]))
