# SPDX-License-Identifier: MIT
"""What is measured: the workloads, who plays them, and what is asked of us."""

import dataclasses
import os
import resource
import shutil

UNIT = 'unit'
OURS = 'ours'
PAGED = 'paged'  # the same library, on pages instead of segments
# Its preload where the device has nothing to do: a driver that answers at once, as CUB's runtime does.
IDLE = 'ours on an idle device'
# Beside a row of threads: as many processes of one thread at the same time.
PROCESSES = 'processes'
# What the library's own free blocks and page map take without all the rest.
BARE = 'bare'
CUBS = ('cub', 'cub-pow2', 'cub-8x')
# glibc and the heaps that are put in front of it: they are asked for size / 512 bytes.
HEAPS = ('glibc', 'jemalloc', 'tcmalloc', 'mimalloc')

# What a call takes where the plan gives times; the order of magnitude of real drivers, no more.
LATENCIES = ('cuMemAlloc:20us,cuMemFree:20us,cuCtxRecordEvent:2us,cuEventQuery:500ns,'
             'cuCtxWaitEvent:2us,cuCtxSynchronize:10us')
PLAN = 'memory:500G,guard:off'
# On a card of 500 GiB ramps and traces would be small programs, which poll seldom.
CARD_MIB = 80 * 1024
BUSY = f'memory:{CARD_MIB}M,guard:off'


@dataclasses.dataclass(frozen=True)
class Row:
    """A workload. At most `most` of the fastest CUB's time, and `calls` driver calls a pair."""
    name: str
    what: tuple
    threads: int = 1
    rivals: tuple = ()
    most: float = None
    calls: float = None
    conf: str = None
    plan: str = None
    quick: bool = False
    count: bool = False  # only counts: the same in every repetition, so it is run once
    processes: bool = False  # is compared with as many processes

    def preload_of(self, column):
        """What column's preload is wanted: a plan and a busy device need the whole simulator."""
        return IDLE if column == OURS and not self.plan and not self.count else column


ALL = (BARE,) + CUBS + HEAPS

ROWS = (
    Row('same size, 1 KiB', ('same:1K',), rivals=ALL, most=1),
    Row('same size, 64 KiB', ('same:64K',), rivals=ALL, most=1),
    Row('same size, 1 MiB', ('same:1M',), rivals=ALL, most=1, quick=True),
    # CUB's caller names the stream of a free, so its allocator asks the driver nothing.
    Row('same size, 16 MiB', ('same:16M',), rivals=ALL, most=5 / 4),
    Row('same size, 64 MiB', ('same:64M',), rivals=ALL, most=5 / 4, calls=0.25, quick=True),
    Row('log-uniform, 1000 live', ('mixed',), rivals=ALL, most=1 / 4, calls=0.2, quick=True),
    Row('  without event ring', ('mixed',), conf='events:0', quick=True),
    Row('training-step ramps', ('ramps',), rivals=ALL, most=1 / 4, quick=True),
    Row('random 1 000, 1 MiB', ('random:1000:1M',), rivals=ALL, most=1),
    Row('random 1 000, 1 GiB', ('random:1000:1G',), rivals=ALL, most=1),
    Row('random 10 000, 1 MiB', ('random:10000:1M',), rivals=ALL, most=1),
    Row('random 10 000, 1 GiB', ('random:10000:1G',), rivals=ALL, most=1),
    Row('random 100 000, 1 MiB', ('random:100000:1M',), rivals=ALL, most=1),
    Row('random 100 000, 1 GiB', ('random:100000:1G',), rivals=ALL, most=1),
    Row('100 free blocks', ('flat:100',), rivals=(BARE,), quick=True),
    Row('1 000 free blocks', ('flat:1000',), rivals=(BARE,)),
    Row('10 000 free blocks', ('flat:10000',), rivals=(BARE,)),
    Row('100 000 free blocks', ('flat:100000',), rivals=(BARE,), quick=True),
    Row('log-uniform, 2 threads', ('mixed',), threads=2, rivals=ALL, most=1 / 12, quick=True,
        processes=True),
    Row('log-uniform, 4 threads', ('mixed',), threads=4, rivals=('cub-8x', 'glibc', 'mimalloc'),
        most=1),
    Row('log-uniform, 8 threads', ('mixed',), threads=8, rivals=('cub-8x', 'glibc', 'mimalloc'),
        most=1),
    Row('log-uniform, 16 threads', ('mixed',), threads=16, rivals=('cub-8x', 'glibc', 'mimalloc'),
        most=1),
    Row('  2 threads, remote frees', ('-r', 'mixed'), threads=2, rivals=('cub-8x', 'glibc', 'mimalloc'),
        most=1 / 4, quick=True),
    Row('  2 threads, a device each', ('-d', 'mixed'), threads=2, processes=True),
    Row('  8 threads, a device each', ('-d', 'mixed'), threads=8, quick=True, processes=True),
    Row('planned driver latencies', ('mixed',), plan=f'{PLAN},{LATENCIES}', rivals=('driver',),
        quick=True),
    Row('busy device, log-uniform', ('-b', 'mixed'), plan=BUSY, rivals=('cub-8x',), calls=0.05,
        quick=True, count=True),
    Row('busy device, ramps', ('-b', 'ramps'), plan=BUSY, rivals=('cub-8x',), calls=0.05,
        quick=True, count=True),
)


@dataclasses.dataclass(frozen=True)
class Job:
    """One process: whose figure of which row, and how to get it."""
    row: str
    column: str
    program: str
    arguments: tuple
    preload: str = None
    plan: str = None
    conf: str = None
    cores: int = 1
    once: bool = False
    processes: int = 0  # 0: one, else so many at the same time, of one core each

    def run(self, programs):
        if self.processes:
            return programs.run_together(self.processes, self.program, self.arguments, self.preload,
                                         self.plan, self.conf)
        return programs.run(self.program, self.arguments, self.preload, self.plan, self.conf,
                            self.cores)


def allocator_of(column):
    if column == OURS:
        return 'driver'
    return 'units' if column in HEAPS else column


def shares(row, column, share):
    """Thousandths of the workload: less where many threads share a device, or if it is only counted.

    A thread with a device of its own plays as much as one thread alone: fresh rows and rings cost
    the first pairs more.
    """
    if row.count:
        return min(share, 100)
    return share if '-d' in row.what else max(1, share // row.threads)


def row_jobs(row, preloads, share):
    """The row's jobs: the unit stands beside what is compared with it, in every repetition."""
    columns = [OURS] + [column for column in row.rivals if column in preloads]
    if not row.count:
        yield Job(row.name, UNIT, 'bench', ('-s', max(10, share // 2), 'malloc', 'same:1M'))
    for column in columns:
        *options, workload = row.what
        arguments = (*options, '-t', row.threads, '-s', shares(row, column, share),
                     allocator_of(column), workload)
        yield Job(row.name, column, 'bench', arguments, preloads[row.preload_of(column)], row.plan,
                  row.conf if column == OURS else None, row.threads, row.count)
    if row.processes:
        yield Job(row.name, PROCESSES, 'bench', ('-s', share, allocator_of(OURS), row.what[-1]),
                  preloads[row.preload_of(OURS)], row.plan, row.conf, processes=row.threads)


def latency_job(preloads, share):
    return Job('latencies', OURS, 'bench', ('-l', '-s', share, 'driver', 'mixed'), preloads[OURS])


DRAIN = 'drain'
# From free to free, so that the helper thread has its turn, once a second, while blocks are left.
DRAIN_PERIOD_NS = 2500


def drain_jobs(preloads, share):
    """1 000 000 live blocks, then frees only; glibc's tail is the machine's."""
    for column, allocator in ((OURS, 'driver'), (UNIT, 'malloc')):
        yield Job(DRAIN, column, 'bench', ('-l', '-p', DRAIN_PERIOD_NS, '-s', share, allocator,
                                           'drain:1000000'), preloads.get(column), cores=2)


PAGED_CONF = 'expandable_segments:True'
TRACE_COLUMNS = (BARE, 'glibc', 'cub-pow2', 'cub-8x', 'torch')


def trace_jobs(path, preloads, passes):
    for column in (OURS, *TRACE_COLUMNS):
        if column == 'torch' or column in preloads:
            yield Job(path, column, 'replay', ('-m', CARD_MIB, '-n', passes, allocator_of(column), path),
                      preloads[IDLE] if column == OURS else preloads.get(column))
    yield Job(path, PAGED, 'replay', ('-m', CARD_MIB, '-n', passes, allocator_of(OURS), path), preloads[IDLE],
              conf=PAGED_CONF)
    yield Job(path, '2 threads', 'replay', ('-m', CARD_MIB, '-n', passes, '-t', 2, 'driver', path), preloads[IDLE],
              cores=2)


def smallest_jobs(path, preloads):
    """The smallest device on which the trace runs, in both modes."""
    for column, conf in (('smallest', None), (f'smallest {PAGED}', PAGED_CONF)):
        yield Job(path, column, 'replay', ('--smallest', allocator_of(OURS), path), preloads[OURS],
                  conf=conf, once=True)


PEERS = (2, 8)


def peer_jobs(preloads):
    """What is missing comes from the caches of the other processes."""
    for processes in PEERS:
        yield Job(f'peers, {processes}', OURS, 'peers', (processes,), preloads[OURS],
                  cores=2)


PIPELINES = {'compute': 'compute loop', 'copies': 'pipeline', 'streams': 'pipeline of three streams'}
NEVER = 'never'
PIPELINE_TURNS = 200
PIPELINE_KERNEL_NS = 50000
# Beside those above, in virtual time: what a program calls that copies and launches.
STREAM_LATENCIES = ('cuLaunchKernel:4us,cuMemcpyHtoDAsync:4us,cuMemcpyDtoHAsync:4us,'
                    'cuEventRecord:1us,cuStreamWaitEvent:1us,cuEventSynchronize:2us,cuStreamQuery:1us')


def pipeline_jobs(preloads):
    """Under the library, under it with sync:never, and under the driver alone. Only counts.

    Without the helper thread: it looks at batches by the machine's clock, so on a busy machine it
    closes one more now and then, which gave 4 more of 1958 calls in one run of six.
    """
    alone = 'control:off'
    for what, name in PIPELINES.items():
        for column, conf in ((OURS, alone), (NEVER, f'sync:never,{alone}'), ('driver', None)):
            yield Job(name, column, 'pipeline', (what, PIPELINE_TURNS, PIPELINE_KERNEL_NS),
                      None if column == 'driver' else preloads[OURS],
                      f'memory:16G,guard:off,{LATENCIES},{STREAM_LATENCIES}', conf, once=True)


def stacks_job(preloads, share):
    return Job('stacks', OURS, 'stacks', (max(5, share // 10),), preloads[OURS])


def finding_jobs(skipped):
    """A busy node: 500 processes in 50 containers, 150 regions, 4 processes with 19 000 open files."""
    if os.geteuid():
        skipped.append({'name': 'finding', 'reason': 'needs root, to make mount namespaces'})
        return ()
    files = 19_000
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < files + 64:
        skipped.append({'name': 'finding', 'reason': f'needs {files} open files, {most} allowed'})
        return ()
    return (Job('finding', OURS, 'finding', (500, 50, 150, files)),)


def startup_job(programs, turns):
    return Job('startup', OURS, 'startup', (turns, programs.library, shutil.which('true')))
