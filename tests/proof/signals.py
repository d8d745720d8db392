#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processes that are killed or stopped at random moments, and others beside them.

signals.py PROOF LIBRARY TOOL KILLS [SEED]

A program under the library is killed, again and again: what it leaves is read, or refused with a
reason. Beside it lives a program that must not notice. A tool is stopped in the middle of its work:
the program goes on, and other tools too. In the end the next start sweeps all that is old.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 60
LENGTH = '100000'  # operations, which are played again and again
KEPT = 5  # of the regions that the killed left: a container may have room for few
YOUNGEST = 4  # crashed regions that stay at any age (interpose/process/process.c)
MACHINE = 'devices:2,cuEventQuery:100us'
# What the killed are played under; the last are on cards that are soon full.
VICTIMS = (
    ('c1e', MACHINE, ''),
    ('c3e', MACHINE, ''),
    ('c1fe', MACHINE, ''),
    ('c1e', f'{MACHINE},memory:96M', 'placement:split'),
    ('c3pe', f'{MACHINE},memory:96M', 'placement:split,expandable_segments:on'),
)


def read_said(process):
    return process.stderr.read().decode()


class Stage:
    def __init__(self, proof, library, tool, folder):
        self.proof, self.library, self.tool, self.folder = proof, library, tool, folder

    def program(self, seed, length, flags, plan=MACHINE, conf=''):
        environment = dict(os.environ, LD_PRELOAD=self.library, CUDASIM=plan, REGIONS='',
                           CUDAMEM_CONF=f'region_dir:{self.folder},log:off,{conf}'.rstrip(','),
                           ASAN_OPTIONS='verify_asan_link_order=0:detect_leaks=0')
        return subprocess.Popen([self.proof, 'run', seed, length, flags], env=environment,
                                stderr=subprocess.PIPE)

    def region_of(self, pid):
        names = [name for name in os.listdir(self.folder) if f'.{pid}.' in name]
        return pathlib.Path(self.folder) / names[0] if names else None

    def wait_for_region(self, process):
        end = time.monotonic() + SECONDS
        while not self.region_of(process.pid):
            if process.poll() is not None:
                raise SystemExit(f'the program ended: {read_said(process)}')
            # The loader goes on without a library that it cannot load.
            if time.monotonic() > end:
                process.kill()
                raise SystemExit(f'the program makes no region: {read_said(process)}')
            time.sleep(0)
        return self.region_of(process.pid)

    def tell(self, *arguments):
        """What the tool prints; it must not crash, hang, or fail and print nothing."""
        run = subprocess.run([self.tool, *arguments], capture_output=True, timeout=SECONDS)
        if run.returncode < 0 or (run.returncode and not run.stderr):
            raise SystemExit(f'{arguments}: ended with {run.returncode}: {run.stderr.decode()}')
        return run


def is_well(process):
    return process.poll() is None


def kill_often(stage, kills, dice):
    """How many of the killed left something, and of how many the tool could read it."""
    left = readable = 0
    kept = []
    bystander = stage.program('1', LENGTH, 'c1e')
    stage.wait_for_region(bystander)
    for _ in range(kills):
        victim = stage.program(str(dice.randrange(1000)), LENGTH, *dice.choice(VICTIMS))
        # From before the region is there until the program is in its stride.
        if dice.randrange(8):
            stage.wait_for_region(victim)
        end = time.monotonic() + dice.random() * dice.choice((0.0005, 0.005, 0.05))
        while time.monotonic() < end:
            pass
        victim.kill()
        victim.wait()
        victim.stderr.close()
        path = stage.region_of(victim.pid)
        if path:
            left += 1
            readable += stage.tell('show', str(path)).returncode == 0
            kept.append(path)
            if len(kept) > KEPT:
                kept.pop(0).unlink(missing_ok=True)
        if not is_well(bystander):
            raise SystemExit(f'the bystander ended: {read_said(bystander)}')
    stage.tell('ls', '--all')
    bystander.kill()
    bystander.wait()
    return left, readable


def sweep(stage):
    """What was found dead by one start, more than a day ago, goes with the next: but the youngest."""
    old = time.time() - 2 * 24 * 3600
    for _ in range(2):
        for name in os.listdir(stage.folder):
            os.utime(os.path.join(stage.folder, name), (old, old))
        process = stage.program('1', '200', 'c1')
        process.wait(SECONDS)
    left = os.listdir(stage.folder)
    if process.returncode or len(left) > YOUNGEST:
        raise SystemExit(f'the next start ended with {process.returncode} and left {left}')


def stop_readers(stage, times, dice):
    """A tool that stands still holds nobody up."""
    process = stage.program('2', LENGTH, 'c1e')
    path = stage.wait_for_region(process)
    # It has a name before it can be read.
    while stage.tell('show', str(path)).returncode:
        if not is_well(process):
            raise SystemExit(f'the program ended: {read_said(process)}')
    for _ in range(times):
        arguments = dice.choice((['show', str(path)], ['reset', str(process.pid)],
                                 ['trim', str(process.pid)]))
        # Built for coverage it would stand still with the lock of a file of counters.
        reader = subprocess.Popen([stage.tool, *arguments], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL,
                                  env=dict(os.environ, GCOV_PREFIX='/dev/null'))
        end = time.monotonic() + dice.random() * 0.004
        while time.monotonic() < end:
            pass
        reader.send_signal(signal.SIGSTOP)
        if stage.tell('show', str(path)).returncode:
            raise SystemExit('a second reader can not read')
        before = process_time(process.pid)
        end = time.monotonic() + SECONDS
        while process_time(process.pid) == before:
            if not is_well(process):
                raise SystemExit(f'the program ended with {process.returncode} beside a stopped '
                                 f'{arguments}: {read_said(process)}')
            if time.monotonic() > end:
                raise SystemExit(f'the program stands still with a stopped {arguments}: '
                                 f'{threads_of(process.pid)}')
        reader.send_signal(signal.SIGCONT)
        if reader.wait(SECONDS) < 0:
            raise SystemExit(f'{arguments}: ended with {reader.returncode}')
    process.kill()
    process.wait()


def process_time(pid):
    """Clock ticks of the processor: a program that goes on spends them."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def threads_of(pid):
    """Where each thread of a process stands: its state, what it waits in, and its system call."""
    told = []
    for task in sorted(pathlib.Path(f'/proc/{pid}/task').iterdir()):
        state = (task / 'stat').read_text().rsplit(')', 1)[1].split()[0]
        told.append(f'{task.name} {state} {(task / "wchan").read_text()} '
                    f'{(task / "syscall").read_text().strip()}')
    return '; '.join(told)


def main():
    proof, library, tool = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
    for path in (proof, library, tool):
        if not os.path.exists(path):
            raise SystemExit(f'{path}: there is no such file')
    kills = int(sys.argv[4])
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    dice = random.Random(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix='signals.', dir='/dev/shm') as folder:
        stage = Stage(proof, library, tool, folder)
        left, readable = kill_often(stage, kills, dice)
        sweep(stage)
        stop_readers(stage, max(kills // 5, 10), dice)
        sweep(stage)
    print(f'{kills} kills, {left} left a region, {readable} of them readable, the others refused '
          f'with a reason; {max(kills // 5, 10)} stopped readers; {time.monotonic() - began:.0f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main())
