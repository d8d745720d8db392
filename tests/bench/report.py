# SPDX-License-Identifier: MIT
"""What a run found, as text for a terminal or as a document in Markdown."""

import tables
from ensemble import judge

LEGEND = (
    ('ours ns', "a pair of cuMemAlloc and cuMemFree through the library's exported symbols, with "
     'statistics, region and events: processor time; with several threads time on the wall, of one '
     'thread. Over calls of the driver that answer at once; rows with a plan or a busy device are '
     'over the whole simulated driver.'),
    ('spread', "half the distance between the repetitions' quartiles."),
    ('x glibc', "in pairs of glibc's malloc and free of 1 MiB, measured just before."),
    ('of CUB', "our time, of the fastest of CUB's configurations, in the same repetition."),
    ('calls', 'driver calls a pair, without cuCtxGetCurrent.'),
    ('current', 'calls of cuCtxGetCurrent a pair: it reads a variable of the calling thread and never '
     'comes to the device.'),
    ('bare', "the library's own free blocks and page map behind a mutex and nothing else, a limit: no "
     'memory that has to become ready, no statistics, region or events, and no driver.'),
    ('cub, cub-pow2, cub-8x', "CUB's allocator as it comes, and with unbounded bins of powers of 2 "
     'and of 8, over a runtime that answers at once.'),
    ('glibc, jemalloc, tcmalloc, mimalloc', 'heaps of host memory, asked for size / 512 bytes: a limit '
     'rather than rivals.'),
    ('a device each', 'every thread has a device of its own. The goal compares their processor time with '
     'that of as many processes of one thread, run at the same time on the same cores: one thread alone '
     'has the caches and the memory of the whole machine. Two threads of one device are compared so, too: '
     'where two processes have less than 1.6 times the throughput of one, that is the limit.'),
    ('busy device', 'a card of 80 GiB with a kernel of 10 us behind every request, the next one 12 us '
     'later: what is freed is still in use.'),
)

TRACES = (
    'ns an operation, half a pair, once warm; calls: driver calls of a whole pass, once warm.',
    'reserved: the most that was taken from the driver, to the most that was live, of the first pass; '
    "torch: PyTorch's rules. smallest: the smallest device on which the trace runs, likewise.",
    'Where little is live, a segment of 2 MiB is much: means and smallest devices are judged on '
    'traces of 1 GiB and more.',
)

PAGED = (
    'The same traces with expandable_segments: pages of 2 MiB in place of segments; to ours: the time, '
    'to that above.',
    'mapping: requests of the first pass for which pages were mapped, of all its requests.',
)

ENSEMBLE = (
    'Programs made from families and seeds, on cards from 1.02 to 4 times their peak, idle and busy, four '
    'passes, over planned latencies. What is tuned is tuned on the even seeds, and told of the others.',
    'A program again: ./dev bench --program FAMILY:SEED [--card 110%] [--trace FILE].',
)
ENSEMBLE_FAMILIES = (
    'By family, held back, means: got: of what native gets; smallest, worst, reserved in the first pass and '
    "the fourth: to PyTorch's rules; calls, events: a request, warm; time: in the driver, to native; pg: with "
    "expandable_segments, to native's smallest card, to what PyTorch's expandable rules reserve.",
)
ENSEMBLE_SYSTEMS = (
    'By system, held back: programs that fail where native does not; least of blocks got and most held, '
    'requests served where native serves them; smallest card, mean and worst, and reserved, to native; driver '
    'allocations and frees, maps and unmaps a request, warm; time in the driver, first pass and all, to native.',
)

INTRODUCTION = """\
# Measured on a processor, without a card

Printed by `./dev bench --smallest --markdown`, and not edited.
Every figure comes from a process of its own on one core, in real time where the system allows that; all are run by turns, forwards and backwards, and the median counts.
The device is the simulated one, which answers at once: what is measured is the allocators' own work, and what they ask of the driver.
What a driver's call costs, only a graphics card can tell.
"""


def machine(told):
    there, disturbance = told['machine'], told['disturbance']
    lines = [
        f'{there["processor"]}, {there["cores"]} cores, {there["memory_bytes"] / 2**30:.0f} GiB; '
        f'{there["system"]}, Linux {there["kernel"]}, {there["libc"]}; simulated device.',
        f'{told["repetitions"]} repetitions, {told["seconds"]:.0f} s; other processes took '
        f'{tables.percent(disturbance["others"])} of the machine, its host '
        f'{tables.percent(disturbance["steal"])}; load {disturbance["load"]:.1f}.']
    if disturbance['others'] + disturbance['steal'] > 0.05:
        lines.append('The machine was disturbed: mind the ratios, not the times; those of several '
                     'threads and of the slowest calls say little.')
    return lines


def legend(markdown):
    if markdown:
        return [f'* `{name}`: {text}' for name, text in LEGEND]
    return [f'{name}: {text}' for name, text in LEGEND]


def simulated(told):
    """What the plan's latencies add, where it has any."""
    return [f'{row["name"]}: simulated time a pair, beside the time above: ' + ', '.join(
        f'{column} {tables.number(ns)} ns' for column, ns in row['simulated_ns'].items()) + '.'
        for row in told['workloads'] if any(row['simulated_ns'].values())]


def verdicts(*tables_of_rows):
    found = [row['verdict'] for rows in tables_of_rows for row in rows if row['verdict']]
    return ', '.join(f'{found.count(name)} {name}' for name in ('met', 'missed', 'not measured')
                     if name in found) + '.'


def ensemble(told, markdown):
    """What stands below the title; told of the ensemble."""
    lines = [*ENSEMBLE, f'{told["programs"]} programs, {told["seconds"]:.0f} s. {verdicts(told["goals"])}']
    for mode in dict.fromkeys(row['mode'] for row in told['goals']):
        rows = [row for row in told['goals'] if row['mode'] == mode]
        lines += ['', f'{mode}:', '', tables.ensemble_goals(rows, markdown)]
    families = [(row['family'], row['values']) for row in told['families']]
    systems = [(row['system'], row['values']) for row in told['systems']]
    heads = ['family', *(name for name, *_ in judge.FAMILY_FIGURES)]
    return [*lines, '', *ENSEMBLE_FAMILIES, '', tables.ensemble_figures(heads, families, markdown),
            '', *ENSEMBLE_SYSTEMS, '', tables.ensemble_figures(judge.SYSTEM_HEADS, systems, markdown)]


def sections(told, columns, markdown):
    """Titles and what stands below each."""
    yield 'Machine', machine(told)
    yield 'Workloads', [tables.workloads(told['workloads'], columns, markdown), '',
                        *legend(markdown), *([''] + simulated(told) if simulated(told) else [])]
    yield 'Goals', ['Of these and those of the workloads: ' + verdicts(told['workloads'], told['goals']), '',
                    tables.goals(told['goals'], markdown)]
    if told['recording']:
        yield 'Recording', ['What is added to the time of a request, switched while the program '
                            'runs:', *(f'{"* " if markdown else ""}{row["name"]}: '
                                       f'{tables.number(row["ns"])} ns' for row in told['recording'])]
    if told['saving']:
        yield 'Snapshots', ['Of 100 000 events and 10 000 blocks, processor time of the whole tool:',
                            *(f'{"* " if markdown else ""}{row["name"]}: {tables.number(row["ms"])} '
                              'ms' for row in told['saving'])]
    if told['traces']:
        yield 'Traces', [*TRACES, '', tables.traces(told['traces'], markdown)]
        yield 'Traces on pages', [*PAGED, '', tables.paged_traces(told['traces'], markdown)]
    if told['ensemble']:
        yield 'Ensemble', ensemble(told['ensemble'], markdown)
    missing = [f'{entry["name"]}: {entry["reason"]}' for entry in told['skipped']]
    missing += [f'failed {entry["row"].strip()}, {entry["column"]}: {entry["reason"]}'
                for entry in told['failed']]
    if missing:
        yield 'Not measured', missing


def text(told, columns, markdown):
    parts = [INTRODUCTION] if markdown else []
    for title, lines in sections(told, columns, markdown):
        head = f'## {title}\n\n' if markdown else ''
        parts.append(head + '\n'.join(lines) + '\n')
    return '\n'.join(parts)


def ensemble_alone(told, markdown):
    lines = ensemble(told['ensemble'], markdown) if told['ensemble'] else [
        entry['reason'] for entry in told['failed']]
    return '\n'.join(lines) + '\n'
