# SPDX-License-Identifier: MIT
"""From the figures of a run to the goals, each with what was measured and whether it is met."""

import math
import statistics

from measure import Series
from workloads import BARE, CUBS, DRAIN, NEVER, PEERS, PIPELINES, PROCESSES, OURS, PAGED, UNIT

LARGE_BYTES = 1 << 30


def verdict(value, most):
    """A goal is a limit from above; what could not be measured is no success."""
    if value is None:
        return 'not measured'
    return 'met' if value <= most else 'missed'


def geomean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def divide(a, b):
    return a / b if a is not None and b else None


class Results:
    """Figures by row, column and repetition."""

    def __init__(self):
        self.figures = {}
        self.failed = []

    def add(self, job, figures):
        self.figures.setdefault((job.row, job.column), []).append(figures)

    def has(self, row, column=OURS):
        return (row, column) in self.figures

    def all(self, row, column, name):
        return [figures[name] for figures in self.figures.get((row, column), ()) if name in figures]

    def series(self, row, column, name='ns'):
        values = self.all(row, column, name)
        return Series(values) if values else None

    def median(self, row, column, name='ns'):
        series = self.series(row, column, name)
        return series.median if series else None

    def per_pair(self, row, column, name):
        values = self.figures.get((row, column), ())
        return Series(figures[name] / figures['pairs'] for figures in values).median if values else None

    def ratio(self, row, column, other, other_row=None):
        """Of one column to another, repetition by repetition: what slows one slows the other."""
        pairs = zip(self.all(row, column, 'ns'), self.all(other_row or row, other, 'ns'))
        ratios = [a / b for a, b in pairs]
        return Series(ratios) if ratios else None

    def effort(self, row):
        """Of the threads' processor time a pair to that of as many processes at the same time."""
        pairs = zip(self.all(row, OURS, 'cpu_ns'), self.all(row, PROCESSES, 'cpu_ns'))
        ratios = [a / b for a, b in pairs]
        return Series(ratios).median if ratios else None

    def units(self, row, column=OURS):
        """In glibc's 1 MiB pairs."""
        ratios = self.ratio(row, column, UNIT)
        return ratios.median if ratios else None

    def of_cub(self, row):
        """Our time, of the fastest of CUB's configurations."""
        ratios = [self.ratio(row, OURS, cub) for cub in CUBS]
        return max((ratio.median for ratio in ratios if ratio), default=None)


def goal(name, value, most, unit):
    return {'name': name, 'value': value, 'most': most, 'unit': unit,
            'verdict': verdict(value, most)}


def at_least(name, value, least, unit):
    """A limit from below, told as one from above of the inverse."""
    found = verdict(divide(1, value), 1 / least)
    return {'name': name, 'value': value, 'least': least, 'unit': unit, 'verdict': found}


def drain_goals(results):
    """The wait of a free for the helper thread. glibc's tail, which waits for nobody, is what the
    machine does to any call."""
    if results.has(DRAIN):
        pairs = zip(results.all(DRAIN, OURS, 'free_p9999_ns'),
                    results.all(DRAIN, UNIT, 'free_p9999_ns'))
        behind = [(ours - glibc) / 1000 for ours, glibc in pairs]
        yield goal('p99.99 of 1 000 000 frees, beyond glibc\'s',
                   Series(behind).median if behind else None, 20, 'us')


def two_thread_goals(results):
    """Two threads, to one, and to two processes of one thread at the same time. Those share nothing
    but the machine: what they reach is the most that it lets two threads reach."""
    row, least = 'log-uniform, 2 threads', 1.6
    mixed, processes = results.units('log-uniform, 1000 live'), results.units(row, PROCESSES)
    both = 2 * (mixed or 0)
    yield at_least('throughput of two threads, to one', divide(both, results.units(row)),
                   min(least, divide(both, processes) or least), 'x')
    beside = results.ratio(row, PROCESSES, OURS)
    yield at_least('throughput of two threads, to two processes', beside.median if beside else None,
                   least / 2, 'x')


def speed_goals(results):
    flat = divide(results.units('100 000 free blocks'), results.units('100 free blocks'))
    yield goal('100 000 free blocks, to 100', flat, 1.3, 'x')
    for call in ('alloc', 'free'):
        tail = divide(results.median('latencies', OURS, f'{call}_p999_ns'),
                      results.median('latencies', OURS, f'{call}_p50_ns'))
        yield goal(f'p99.9 of {call}, to p50', tail, 5, 'x')
    yield from two_thread_goals(results)
    yield goal('processor time of 8 threads, a device each, to 8 processes',
               results.effort('  8 threads, a device each'), 1.1, 'x')
    for row in ('busy device, log-uniform', 'busy device, ramps'):
        yield goal(f'waiting, to live bytes: {row}', results.median(row, OURS, 'pending_share'), 0.03,
                   '')


# Of a pair, with the program and the driver's stubs; and of a call that hits.
INSTRUCTIONS = {'same size, 1 KiB': 600, 'log-uniform, 1000 live': 680, 'training-step ramps': 730,
                'same size, 64 MiB': 1200}
FILES = 8


def hit_path_goals(results):
    for name, most in INSTRUCTIONS.items():
        yield goal(f'instructions a pair: {name}', results.median('hit path', OURS, name), most, '')
    for call in ('cuMemAlloc', 'cuMemFree'):
        files = results.median('hit path', OURS, f'{call}, files')
        yield goal(f'source files that {call} visits when it hits', files, FILES, '')


RECORDING = {
    'event_ns': 'an event in the ring',
    'stack_5_ns': 'a stack of 5 calls, seen before',
    'stack_20_ns': 'a stack of 20 calls, seen before',
    'stack_50_ns': 'a stack of 50 calls, seen before',
    'new_20_ns': 'a new stack of 20 calls',
    'new_50_ns': 'a new stack of 50 calls',
}
RECORDING_PYTHON = {
    'python_20_ns': '20 Python frames, seen before',
    'both_20_ns': '20 Python frames and those of C, seen before',
}


def recording_rows(results):
    """What each kind of recording adds to a request."""
    return [{'name': text, 'ns': results.median(row, OURS, name)}
            for row, texts in (('stacks', RECORDING), ('python stacks', RECORDING_PYTHON))
            if results.has(row) for name, text in texts.items()]


def recording_goals(results):
    for name, most in (('event_ns', 20), ('stack_20_ns', 1000)):
        value = results.median('stacks', OURS, name) if results.has('stacks') else None
        yield goal(f'recording: {RECORDING[name]}', value, most, 'ns')
    # Not everywhere is a Python that the library knows, or valgrind.
    for row, name, text, most, unit in (
            ('python stacks', 'python_20_ns', '20 Python frames, seen before', 400, 'ns'),
            ('python stacks, instructions', 'instructions', 'instructions of these', 4500, '')):
        if results.has(row):
            yield goal(f'recording: {text}', results.median(row, OURS, name), most, unit)


def saving_rows(results):
    """What looking at it takes, where nothing is asked of it."""
    if results.has('snapshot, stacks'):
        return [{'name': 'a snapshot with the names of its stacks',
                 'ms': results.median('snapshot, stacks', OURS, 'snapshot_ms')}]
    return []


def saving_goals(results):
    """A snapshot of 100 000 events and 10 000 blocks; PyTorch takes 727 ms for its dictionary."""
    for row, name, text, most in (
            ('snapshot', 'snapshot_ms', 'the tool', 50),
            ('snapshot', 'held_ms', 'the program stands still', 1),
            ('snapshot, many blocks', 'held_ms', 'it stands still with 100 000 blocks', 1),
            ('snapshot', 'pickle_ms', 'its pickle', 300)):
        yield goal(f'snapshot: {text}', results.median(row, OURS, name), most, 'ms')


def neighbour_goals(results):
    """Time of a request that is served with what the others give back."""
    for processes in PEERS:
        yield goal(f'given by peers: {processes} processes',
                   results.median(f'peers, {processes}', OURS, 'ms'), 100, 'ms')


def pipeline_goals(results):
    """What the waits of a free cost, where it waits for what the host can see alone."""
    loop = PIPELINES['compute']
    if not results.has(loop):
        return
    more = results.median(loop, OURS, 'calls') - results.median(loop, NEVER, 'calls')
    yield goal(f'{loop}: waits', results.median(loop, OURS, 'waits'), 0, '')
    yield goal(f'{loop}: driver calls more than sync:never', more, 0, '')
    for name in PIPELINES.values():
        if name == loop:
            continue
        ours = results.median(name, OURS)
        yield goal(f'{name}: time, to sync:never', divide(ours, results.median(name, NEVER)), 1.05,
                   'x')
        yield goal(f'{name}: time, to the driver alone',
                   divide(ours, results.median(name, 'driver')), 1, 'x')


def finding_goals(results):
    """Of cudamemstat, on a node with containers."""
    if results.has('finding'):
        yield goal('150 regions found among 500 processes in containers',
                   results.median('finding', OURS, 'find_ms'), 50, 'ms')


def startup_goals(results):
    """A process that never calls CUDA."""
    more = None
    if results.has('startup'):
        more = (results.median('startup', OURS, 'with_us') -
                results.median('startup', OURS, 'without_us')) / 1000
    yield goal('no CUDA: time more', more, 2, 'ms')
    for name, text in (('threads', 'threads'), ('open_files', 'open files'),
                       ('shared_files', 'files in /dev/shm'), ('stderr_bytes', 'bytes of messages')):
        extra = None
        if results.has('look'):
            extra = results.median('look', OURS, name) - results.median('look', 'without', name)
        yield goal(f'no CUDA: {text} more', extra, 0, '')


def trace_rows(results, traces):
    """What is told of each trace."""
    for path in traces:
        if not results.has(path):
            continue
        yield {
            'path': path,
            'operations': results.median(path, OURS, 'operations'),
            'ns': {column: results.median(path, column)
                   for column in (OURS, BARE, 'glibc', 'cub-pow2', 'cub-8x', '2 threads')},
            'driver_calls': results.median(path, OURS, 'driver_calls'),
            'live_bytes': results.median(path, OURS, 'live_bytes'),
            'reserved': {column: results.median(path, column, 'ratio')
                         for column in (OURS, 'torch', 'cub-pow2', 'cub-8x')},
            'smallest': results.median(path, 'smallest', 'ratio'),
            'paged': {
                'ns': results.median(path, PAGED),
                'driver_calls': results.median(path, PAGED, 'driver_calls'),
                'mapping_share': results.median(path, PAGED, 'mapping_share'),
                'reserved': results.median(path, PAGED, 'ratio'),
                'smallest': results.median(path, f'smallest {PAGED}', 'ratio'),
            },
        }


def trace_goals(rows):
    def total(column):
        times = [(row['ns'][column], row['operations']) for row in rows]
        if not times or any(ns is None for ns, _ in times):
            return None  # there is no such column, or it has no memory for one of the traces
        return sum(ns * n for ns, n in times)

    cubs = [time for time in (total('cub-pow2'), total('cub-8x')) if time]
    yield goal('time over the traces, to the fastest CUB', divide(total(OURS), min(cubs, default=0)),
               1 / 4, 'x')
    # Below that a single segment is more than all that is live.
    large = [row for row in rows if row['live_bytes'] >= LARGE_BYTES]
    yield goal('reserved to live over the traces of 1 GiB and more, geomean',
               geomean(row['reserved'][OURS] for row in large), 1.10, 'x')
    worst = [row['reserved'][OURS] / row['reserved']['torch'] for row in rows
             if row['reserved']['torch']]
    yield goal("reserved, to PyTorch's rules, the worst trace", max(worst, default=None), 1.01, 'x')
    smallest = [row['smallest'] for row in large if row['smallest']]
    if smallest:
        yield goal('smallest device, to live peak, geomean', geomean(smallest), 1.03, 'x')
        yield goal('smallest device, to live peak, the worst trace', max(smallest), 1.10, 'x')
    yield from paged_goals(large)


def paged_goals(rows):
    """Of expandable_segments, over the traces of 1 GiB and more."""
    def values(name):
        return [row['paged'][name] for row in rows if row['paged'][name] is not None]

    reserved, mapping, smallest = values('reserved'), values('mapping_share'), values('smallest')
    yield goal('paged: reserved to live, geomean', geomean(reserved), 1.015, 'x')
    yield goal('paged: reserved to live, the worst trace', max(reserved, default=None), 1.10, 'x')
    yield goal('paged: share of requests that map pages, the median trace',
               statistics.median(mapping) if mapping else None, 0.03, '')
    if smallest:
        yield goal('paged: smallest device, to live peak, geomean', geomean(smallest), 1.006, 'x')
        yield goal('paged: smallest device, to live peak, the worst trace', max(smallest), 1.03,
                   'x')


def workload_rows(results, rows):
    """What is told of each workload."""
    for row in rows:
        if not results.has(row.name):
            continue
        ours = results.series(row.name, OURS)
        units = results.units(row.name)
        calls = results.per_pair(row.name, OURS, 'driver_calls')
        of_cub = results.of_cub(row.name)
        found = ([verdict(of_cub, row.most)] if row.most else []) + (
            [verdict(calls, row.calls)] if row.calls is not None else [])
        yield {
            'name': row.name.strip(),
            'indent': row.name.startswith(' '),
            'ns': ours.median if ours else None,
            'spread': ours.spread if ours else None,
            'values_ns': ours.values if ours else [],
            'glibc_pairs': units,
            'of_cub': of_cub,
            'most_of_cub': row.most,
            'driver_calls': calls,
            'most_driver_calls': row.calls,
            'current_calls': results.per_pair(row.name, OURS, 'current_calls'),
            'simulated_ns': {column: results.median(row.name, column, 'simulated_ns')
                             for column in (OURS, *row.rivals)},
            'verdict': next((v for v in found if v != 'met'), found[0] if found else ''),
            'rivals_ns': {column: results.median(row.name, column) for column in row.rivals},
        }
