# SPDX-License-Identifier: MIT
"""cudamemstat history and a program that runs: switch.py MODULE DRIVER TOOL PRINT_HISTORY"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile


def program(path):
    """A request and its free for every line of input; its size is the line."""
    driver = ctypes.CDLL(path)
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    for line in sys.stdin:
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(line))) == 0
        assert driver.cuMemFree_v2(address) == 0
        print('done', flush=True)


class Running:
    """The program, and what is said to it and of it."""

    def __init__(self, folder, tool, print_history, process):
        self.folder, self.process = folder, process
        self.tool, self.print_history = tool, print_history

    def alloc(self, size):
        print(size, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == 'done\n'

    def history(self, action, *options):
        run = subprocess.run([self.tool, 'history', action, '--dir', self.folder, '--json', *options,
                              '--timeout', '100', str(self.process.pid)],
                             stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout)['processes'][0]

    def stacks(self):
        """Of the requests: size and id of the stack."""
        run = subprocess.run([self.print_history, self.folder, str(self.process.pid)],
                             stdout=subprocess.PIPE, text=True, check=True)
        rows = [line.split() for line in run.stdout.splitlines() if line.startswith('alloc')]
        return [(int(row[1]), int(row[2])) for row in rows]


def check(running):
    running.alloc(1000)
    told = running.history('status')
    assert told['events'] and told['context'] == 'none' and told['max_entries'] is None, told
    assert told['devices'][0]['events_recorded'] >= 3 and told['stack_table_bytes'] == 0, told

    told = running.history('start')
    assert told['context'] == 'all' and told['stacks'] == 'all', told
    running.alloc(2000)
    (first, none), (second, stack) = running.stacks()
    assert (first, none, second) == (1000, 0, 2000) and stack, running.stacks()
    assert running.history('status')['stack_table_bytes'] > 0

    told = running.history('start', '--clear', '--context', 'alloc', '--stacks', 'python',
                           '--max-entries', '2')
    assert told['devices'][0]['events_recorded'] == 0, told
    assert (told['context'], told['stacks'], told['max_entries']) == ('alloc', 'python', 2), told
    running.alloc(3000)
    # All requests let go of the GIL: the interpreter was asked to compare the frames with it.
    assert running.history('status')['python'] == ('checked' if sys.version_info >= (3, 9) else 'unknown-version')
    device = running.history('status')['devices'][0]
    assert device['events_kept'] == 2 and device['events_lost'] == device['events_recorded'] - 2

    told = running.history('stop')
    assert not told['events'] and told['context'] == 'none', told
    running.alloc(4000)
    # What there was is still there, and nothing new.
    assert running.history('status')['devices'][0] == {**device, 'recorded': False}
    assert running.stacks()[-1][0] == 3000
    assert running.history('clear')['devices'][0]['events_recorded'] == 0

    told = running.history('start', '--enabled', 'state')
    assert not told['events'] and told['context'] == 'all', told
    running.alloc(5000)
    assert running.history('status')['devices'][0]['events_recorded'] == 0


def main():
    if sys.argv[1] == '--program':
        return program(sys.argv[2])
    module, driver, tool, print_history = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        # Without decay, whose look at what is freed may add an event at any time.
        environment = {**os.environ, 'LD_PRELOAD': module,
                       'CUDAMEM_CONF': f'region_dir:{folder},decay_seconds:off'}
        with subprocess.Popen([sys.executable, __file__, '--program', driver], env=environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            check(Running(folder, tool, print_history, process))
            process.stdin.close()
        assert process.returncode == 0
    return 0


if __name__ == '__main__':
    sys.exit(main())
