# SPDX-License-Identifier: MIT
"""What the tests of this folder share: another user, forged regions, and a limit of time.

  test_X.py TOOL MAKER FORGE PROGRAM LIBRARY SIMULATION
"""

import ctypes
import os
import pathlib
import select
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'snapshot'))
import kit  # pylint: disable=wrong-import-position

FORGE, PROGRAM, LIBRARY, SIMULATION = map(os.path.abspath, sys.argv[3:7])
NOBODY = 65534
IN_OPEN = 0x20
LIMIT_S = 60  # of a machine under load; what used to hang, hung for ever


def need_root():
    if os.geteuid():
        raise kit.Skip('needs root, to be another user')


def forge(*words, user=None):
    """Starts the maker of forged regions. Its first line is the region's path."""
    # By the open file, since the user may not be allowed into the folder of the build.
    program = os.open(FORGE, os.O_RDONLY)
    process = subprocess.Popen([f'/proc/self/fd/{program}', *map(str, words)], text=True, user=user,
                               extra_groups=None if user is None else [], pass_fds=[program],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.close(program)
    return process, pathlib.Path(process.stdout.readline().strip())


def forged(*words, user=None):
    """The path of a region whose maker is gone."""
    process, path = forge(*words, user=user)
    process.communicate()
    assert process.returncode == 0, (words, process.returncode)
    return path


def environment():
    return {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(SIMULATION).parent),
            'ASAN_OPTIONS': 'verify_asan_link_order=0', 'CUDAMEM_CONF': 'oom_report:off',
            'DEBUGINFOD_URLS': ''}


def tool(kit_, *words, **more):
    """Runs the tool; one that hangs is a failure."""
    return subprocess.run([kit_.tool, *map(str, words)], env=environment(), timeout=LIMIT_S,
                          capture_output=True, text=True, errors='replace', check=False, **more)


def fresh(kit_, name):
    folder = kit_.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def watch(path):
    """A descriptor that can be read once somebody has opened the file; O_PATH does not count."""
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watcher, bytes(path), IN_OPEN) > 0, ctypes.get_errno()
    return watcher


def was_opened(watcher):
    opened = bool(select.select([watcher], [], [], 0)[0])
    os.close(watcher)
    return opened
