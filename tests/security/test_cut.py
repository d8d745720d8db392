#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A region that its own user would cut short by a slip: the program would die of SIGBUS.

The cases are those of an ordinary user: where the tests are root's, of one that root becomes.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from hostile import LIBRARY, LIMIT_S, NOBODY, PROGRAM, SIMULATION, environment, kit

REGIONS = '/dev/shm'
USER = os.geteuid() or NOBODY
PATIENT = ('--timeout', '30')


def as_user(words, **more):
    """What a process of the user is started with."""
    if not os.geteuid():
        more.update(user=NOBODY, group=NOBODY, extra_groups=[])
    return {'args': list(map(str, words)), 'text': True, **more}


def copies(kit_):
    """The tool, the program and what it needs, where the user may read them; made once."""
    folder = kit_.folder / 'copies'
    if not folder.exists():
        kit_.folder.chmod(0o711)
        folder.mkdir(mode=0o755)
        runtime = pathlib.Path(SIMULATION).parent
        for path in (kit_.tool, PROGRAM, LIBRARY, *runtime.glob('libcud*.so.*')):
            if pathlib.Path(path).is_file():
                shutil.copy(path, folder)
    tool, program, library = (folder / pathlib.Path(path).name
                              for path in (kit_.tool, PROGRAM, LIBRARY))
    return tool, program, {**environment(), 'LD_LIBRARY_PATH': str(folder)}, library


@contextlib.contextmanager
def running(kit_, *words):
    """A program of the user's under the library, and its region."""
    _, program, settings, library = copies(kit_)
    try:
        process = subprocess.Popen(**as_user((program, *words), stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, cwd='/',
                                             env={**settings, 'LD_PRELOAD': str(library)}))
    except PermissionError:
        raise kit.Skip('root may not become another user here') from None
    try:
        assert process.stdout.readline() == 'ready\n'
        yield process, region_of(process)
    finally:
        process.kill()
        process.communicate()
        for left in pathlib.Path(REGIONS).glob(f'cudamem.{USER}.{process.pid}.*'):
            left.unlink()


def region_of(process):
    found = list(pathlib.Path(REGIONS).glob(f'cudamem.{USER}.{process.pid}.*'))
    assert len(found) == 1, found
    assert found[0].stat().st_uid == USER and mode_of(found[0]) == 0o400, found[0].stat()
    return found[0]


def mode_of(path):
    return path.stat().st_mode & 0o7777


def tool(kit_, *words):
    path, _, settings, _ = copies(kit_)
    return subprocess.run(**as_user((path, *words), env=settings, cwd='/', capture_output=True,
                                    check=False, timeout=LIMIT_S))


def requests(kit_, process):
    run = tool(kit_, 'show', '--json', process.pid)
    assert run.returncode == 0, run
    return json.dumps(json.loads(run.stdout)['processes'][0]['devices'])


def goes_on(kit_, process):
    """Until its figures have changed once more."""
    before, end = requests(kit_, process), time.monotonic() + LIMIT_S
    while requests(kit_, process) == before:
        assert process.poll() is None, process.returncode
        assert time.monotonic() < end, before


def its_user_cannot_cut_it(kit_):
    with running(kit_, 'busy') as (process, region):
        size = region.stat().st_size
        for words in (('truncate', '-s', '0', region), ('sh', '-c', f': > {region}'),
                      ('cp', '/etc/passwd', region), ('tee', region),
                      ('dd', 'if=/dev/null', f'of={region}')):
            run = subprocess.run(**as_user(words, stdin=subprocess.DEVNULL, capture_output=True,
                                           check=False, timeout=LIMIT_S))
            assert run.returncode and 'Permission denied' in run.stderr, (words, run)
            assert region.stat().st_size == size, words
        goes_on(kit_, process)


def its_user_sends_commands(kit_):
    with running(kit_, 'busy') as (process, region):
        for words in (('trim', process.pid), ('conf', process.pid, 'decay_seconds:5'),
                      ('history', 'start', process.pid), ('history', 'stop', process.pid),
                      ('reset', process.pid, '--peak')):
            run = tool(kit_, *words, *PATIENT)
            assert run.returncode == 0, (words, run)
            assert mode_of(region) == 0o400, words
        goes_on(kit_, process)


def several_tools_send_commands_at_once(kit_):
    path, _, settings, _ = copies(kit_)
    with running(kit_, 'busy') as (process, region):
        for _ in range(5):
            tools = [subprocess.Popen(**as_user((path, 'trim', process.pid, *PATIENT), env=settings,
                                                cwd='/', stderr=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL)) for _ in range(4)]
            said = [one.communicate(timeout=LIMIT_S)[1] for one in tools]
            assert not any(one.returncode for one in tools), said
            assert mode_of(region) == 0o400
        goes_on(kit_, process)


def a_saved_copy_is_its_users_to_write(kit_):
    place = kit_.folder / 'saved'
    place.mkdir()
    place.chmod(0o777)
    with running(kit_, 'plain') as (process, _):
        run = tool(kit_, 'snapshot', process.pid, '-O', place / 'x.cudamem')
        assert run.returncode == 0, run
        assert mode_of(place / 'x.cudamem') == 0o600


def a_program_that_replaces_itself_has_a_region_again(kit_):
    """Under the same name: what is left behind there is removed, which its mode must not hinder."""
    with running(kit_, 'exec', 'plain') as (process, region):
        opened = [os.readlink(link) for link in pathlib.Path(f'/proc/{process.pid}/fd').iterdir()]
        assert str(region) in opened, opened


def its_user_removes_it(kit_):
    with running(kit_, 'busy') as (process, region):
        process.send_signal(signal.SIGKILL)
        process.wait()
        run = subprocess.run(**as_user(('rm', region), stdin=subprocess.DEVNULL,
                                       capture_output=True, check=False, timeout=LIMIT_S))
        assert run.returncode == 0 and not region.exists(), run


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        its_user_cannot_cut_it, its_user_sends_commands, several_tools_send_commands_at_once,
        a_saved_copy_is_its_users_to_write, a_program_that_replaces_itself_has_a_region_again,
        its_user_removes_it]))
