# SPDX-License-Identifier: MIT
"""Runs the programs of this folder: a process for each figure, on one core, all of them by turns."""

import contextlib
import glob
import os
import resource
import statistics
import subprocess
import tempfile

# The heaps of host memory that a distribution packages; glibc's needs no library.
HEAPS = {
    'jemalloc': ('libjemalloc.so.2', 'libjemalloc2'),
    'tcmalloc': ('libtcmalloc_minimal.so.4', 'libtcmalloc-minimal4'),
    'mimalloc': ('libmimalloc.so.2', 'libmimalloc2.0'),
}
FOLDERS = ('/usr/lib/*-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib')


class Failed(Exception):
    """A program ended badly; the text says which and how."""


def parse(text):
    """Lines of a name and a number, as the programs print them."""
    figures = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 2 or words[0] in figures:
            raise Failed(f'not a name and a number: {line!r}')
        try:
            figures[words[0]] = float(words[1])
        except ValueError:
            raise Failed(f'not a number: {line!r}') from None
    if not figures:
        raise Failed('printed nothing')
    return figures


def find_heap(name):
    """Path of the library, or None."""
    found = (path for folder in FOLDERS for path in sorted(glob.glob(f'{folder}/{HEAPS[name][0]}')))
    return next(found, None)


def region_folder():
    """A folder in shared memory for the regions of programs, also of those that call _exit."""
    return tempfile.TemporaryDirectory(dir='/dev/shm', prefix='cudamem-bench-')


class Programs:
    """What has been built, and how it is called."""

    def __init__(self, build, limit=120):
        self.build = os.path.abspath(build)
        self.library = os.path.join(self.build, 'interpose', 'libcudamem.so')
        self.limit = limit
        # The last core: the first one has the interrupts more often, and this script.
        self.cores = sorted(os.sched_getaffinity(0))

    def path(self, name):
        return os.path.join(self.build, 'tests', 'bench', name)

    def run(self, name, arguments, preload=None, plan=None, conf=None, cores=1):
        """The figures that one process of so many threads prints; its regions are removed with it."""
        figures, = self.run_on([self.cores[-cores:]], name, arguments, preload, plan, conf, cores)
        return figures

    def run_together(self, processes, name, arguments, preload=None, plan=None, conf=None):
        """So many processes at the same time, dealt out to all cores as the threads of one process
        are: the means of their figures."""
        cores = [[self.cores[i % len(self.cores)]] for i in range(processes)]
        figures = self.run_on(cores, name, arguments, preload, plan, conf, processes)
        return {key: statistics.fmean(each[key] for each in figures) for key in figures[0]}

    def run_on(self, cores, name, arguments, preload, plan, conf, threads):
        """A process for each entry, on the cores that it names; all at the same time. Unless they
        have more threads than there are cores, no other process comes between, where the system
        allows that."""
        command = [self.path(name), *map(str, arguments)]
        realtime = threads <= len(self.cores)
        with region_folder() as folder, contextlib.ExitStack() as stack:
            conf = f'region_dir:{folder}' + (f',{conf}' if conf else '')
            env = {key: value for key, value in os.environ.items()
                   if key not in ('LD_PRELOAD', 'CUDASIM') and not key.startswith('CUDAMEM')}
            env.update({key: value for key, value in (
                ('LD_PRELOAD', preload), ('CUDASIM', plan), ('CUDAMEM_CONF', conf)) if value})
            started = []
            for allowed in cores:
                started.append(stack.enter_context(self.start(command, env, allowed, realtime)))
                stack.callback(started[-1].kill)
            return [self.finish(process, command) for process in started]

    @staticmethod
    def start(command, env, allowed, realtime):
        def prepare():
            os.sched_setaffinity(0, allowed)
            if realtime:
                with contextlib.suppress(PermissionError):
                    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, preexec_fn=prepare)

    def finish(self, process, command):
        try:
            out, err = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            raise Failed(f'{" ".join(command)}: not over after {self.limit} s') from None
        if process.returncode:
            raise Failed(f'{" ".join(command)}: status {process.returncode}: {err.strip()}')
        return {**parse(out), 'stderr_bytes': float(len(err))}


class Series:
    """One figure's values, of all repetitions."""

    def __init__(self, values):
        self.values = list(values)

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.values) < 2 or not self.median:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method='inclusive')
        return (high - low) / 2 / self.median


def turns(jobs, repetitions):
    """A-B-B-A: all jobs, then all of them the other way round."""
    for repetition in range(repetitions):
        yield from ((repetition, job) for job in (jobs if repetition % 2 == 0 else jobs[::-1]))


class Disturbance:
    """What others took of the machine meanwhile."""

    def __init__(self):
        self.began = self.read()

    @staticmethod
    def read():
        with open('/proc/stat', encoding='ascii') as stat:
            fields = [int(field) for field in stat.readline().split()[1:]]
        user, nice, system, idle, wait, irq, softirq, steal = fields[:8]
        ours = sum(usage.ru_utime + usage.ru_stime for usage in (
            resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
        tick = os.sysconf('SC_CLK_TCK')
        busy = (user + nice + system + irq + softirq) / tick
        return busy, steal / tick, (idle + wait) / tick, ours

    def end(self):
        """Shares of the whole machine: other processes', and what its host kept for others."""
        busy, steal, idle, ours = (after - before for after, before in zip(self.read(), self.began))
        whole = busy + steal + idle
        if not whole:
            return 0.0, 0.0
        return max(0.0, busy - ours) / whole, steal / whole
