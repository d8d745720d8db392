# SPDX-License-Identifier: MIT
"""The suite's report: a document with all figures, and the short table at the end of a run."""

from runner import requests

HEAD = '''# {title}, {date}

Printed by `./dev gpu`, and not edited.
Times are medians of repeated calls by the host's clock, in brackets the 99th percentile; each process was the suite's only one on the card.
`bare` is a run without the library, `cudamem` the same under it, `pages` with `expandable_segments:True`.
'''


def number(value):
    """Four figures that count, and thousands apart."""
    if value is None:
        return '-'
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return f'{int(value):,}'
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def table(head, rows):
    """A table in Markdown; the first two columns are words, the others figures."""
    rows = [[str(cell).replace('|', '\\|') for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells):
        return '| ' + ' | '.join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths))) + ' |'

    rule = '|' + '|'.join('-' * (width + 1) + ('-' if i < 2 else ':')
                          for i, width in enumerate(widths)) + '|'
    return '\n'.join([line(head), rule, *map(line, rows)])


def counts(results):
    return {verdict: sum(result.verdict == verdict for result in results)
            for verdict in ('passed', 'failed', 'skipped')}


def summary_line(results):
    return ', '.join(f'{count} {verdict}' for verdict, count in counts(results).items())


class Facts:
    """All facts of all programs, to be looked up."""

    def __init__(self, results):
        self.found = {}
        for result in results:
            for run in result.runs:
                for fact in run.facts:
                    self.found.setdefault((result.name, fact['fact'], fact['where']), {})[
                        run.run] = fact

    def value(self, program, fact, where, run=None):
        """Of the run, or of the only one."""
        runs = self.found.get((program, fact, where), {})
        chosen = runs.get(run) if run else next(iter(runs.values()), None)
        return chosen['value'] if chosen else None


def fact_tables(results):
    """A table for each program: what it found, run by run."""
    for result in results:
        names = [run.run for run in result.runs if run.facts]
        if not names:
            continue
        rows = {}
        for run in result.runs:
            for fact in run.facts:
                row = rows.setdefault((fact['fact'], fact['where']), {'unit': fact.get('unit', '')})
                row[run.run] = fact
        yield f'### {result.name}\n'
        body = []
        for (fact, where), row in rows.items():
            cells = [fact, where]
            for name in names:
                cells.append(number(row[name]['value']) if name in row else '-')
                if any('p99' in row[other] for other in names if other in row):
                    cells[-1] += f' ({number(row[name]["p99"])})' if name in row else ''
            body.append([*cells, row['unit']])
        yield table(['what', 'where', *names, 'unit'], body) + '\n'


def compatibility(results):
    rows = []
    for result in results:
        figures = next((run.figures for run in result.runs if run.run == 'cudamem'), {})
        seen, served = requests(figures)
        device = figures.get('device', {})
        times = {run.run: f'{run.seconds:.2f}' for run in result.runs}
        rows.append([result.name, result.verdict, times.get('bare', '-'), times.get('cudamem', '-'),
                     number(seen), number(served), number(device.get('num_device_alloc')),
                     number(device.get('barriers')), number(device.get('waits'))])
    yield table(['program', '', 'bare s', 'cudamem s', 'requests', 'served by the cache',
                 'driver allocations', 'barriers', 'waits'], rows) + '\n'


# PyTorch's keys that a training loop moves.
COMPARED = ('allocation.all.allocated', 'allocated_bytes.all.peak', 'requested_bytes.all.peak',
            'active_bytes.all.peak', 'reserved_bytes.all.peak', 'segment.all.peak',
            'inactive_split_bytes.all.peak', 'num_device_alloc', 'num_device_free',
            'num_alloc_retries', 'num_ooms')


def statistics(results):
    """PyTorch's statistics of its own allocator beside ours of the same program."""
    for result in results:
        figures = {run.run: run.figures.get('device', {}) for run in result.runs}
        columns = [name for name in ('PyTorch', 'cudamem', 'pages') if figures.get(name)]
        if len(columns) > 1:
            yield f'Statistics of {result.name}: `torch.cuda.memory_stats` of its own run, and ours.\n'
            yield table(['key', '', *columns], [
                [key, '', *(number(figures[name].get(key)) for name in columns)]
                for key in COMPARED]) + '\n'


def troubles(results):
    for result in results:
        if result.verdict != 'failed':
            continue
        yield f'### {result.part}: {result.name}\n\n{result.reason}\n'
        for run in result.runs[-1:]:
            yield f'```\n$ {run.command}\n{run.talk or run.results}\n```\n'
            if run.seen:
                yield f'What `cudamemstat show` saw of it:\n\n```\n{run.seen}\n```\n'


def micro(value):
    return '-' if value is None else f'{value / 1000:.2f}'


def highlights(results):
    """Rows of the short table: a name and columns of figures."""
    facts = Facts(results)
    for size in ('1 KiB', '1024 KiB', '65536 KiB'):
        yield (f'pair of {size}, us', [
            ('driver', micro(facts.value('pairs', 'pair', f'cuMemAlloc, {size}', 'bare'))),
            ('cudamem', micro(facts.value('pairs', 'pair', f'cudamem, {size}', 'cudamem'))),
            ('pages', micro(facts.value('pairs', 'pair', f'cudamem, {size}', 'pages'))),
            ('async', micro(facts.value('pairs async', 'pair', f'cuMemAllocAsync, {size}'))),
            ('CUB', micro(facts.value('cub', 'pair', f'CUB, {size}'))),
            ('PyTorch', micro(facts.value('torch pairs', 'pair', f'PyTorch, {size}')))])
    where = '1024 KiB, kernel of 20 us'
    for what in ('turn, host', 'turn, device idle'):
        yield (f'{what}, 1 MiB, us', [
            ('driver', micro(facts.value('pairs', what, f'cuMemAlloc, {where}', 'bare'))),
            ('cudamem', micro(facts.value('pairs', what, f'cudamem, {where}', 'cudamem'))),
            ('pages', micro(facts.value('pairs', what, f'cudamem, {where}', 'pages'))),
            ('async', micro(facts.value('pairs async', what, f'cuMemAllocAsync, {where}'))),
            ('CUB', micro(facts.value('cub', what, f'CUB, {where}')))])
    for call in ('cuCtxRecordEvent', 'cuEventQuery', 'cuCtxWaitEvent'):
        yield (f'{call}, us', [
            (where, micro(facts.value('events', call, where, 'bare')))
            for where in ('1 streams, idle', '1 streams, busy', '64 streams, busy')])
    for chains in ('even chains', 'one stream with long kernels'):
        yield (f'{chains}, us', [
            ('plain', micro(facts.value('barrier', 'without barriers', chains))),
            ('barrier every 10', micro(facts.value('barrier', 'with barriers',
                                                   f'{chains}, every 10 kernels'))),
            ('every kernel', micro(facts.value('barrier', 'with barriers',
                                               f'{chains}, every 1 kernels')))])
    for model in ('conv', 'transformer'):
        for what in ('samples a second', 'peak reserved'):
            yield (f'torch {model}, {what}', [
                (run, number(facts.value(f'torch {model}', what, 'training', run)))
                for run in ('PyTorch', 'no cache', 'cudamem', 'pages')])


def short_table(results, seconds):
    """What a run prints last."""
    lines = ['']
    for name, columns in highlights(results):
        if any(value != '-' for _, value in columns):
            lines.append(f'{name:34} ' + '  '.join(f'{column} {value}' for column, value in columns))
    lines.append('')
    for result in results:
        if result.verdict != 'passed':
            reason = result.reason.strip().splitlines()
            lines.append(f'{result.verdict}: {result.part}: {result.name}: '
                         f'{reason[0] if reason else "no reason given"}')
    lines += ['', f'{"part":10}{"passed":>8}{"failed":>8}{"skipped":>8}{"seconds":>9}']
    for part, took in seconds.items():
        found = counts([result for result in results if result.part == part])
        lines.append(f'{part:10}' + ''.join(f'{count:8}' for count in found.values())
                     + f'{took:9.0f}')
    return '\n'.join(lines)


def document(title, results, setup, seconds, date):
    parts = [HEAD.format(title=title, date=date), table(['', ''], setup) + '\n']
    parts.append('## Summary\n\n```' + short_table(results, seconds) + '\n\n'
                 + summary_line(results) + '\n```\n')

    def of(part):
        return [result for result in results if result.part == part]

    for heading, part, bodies in (
            ('Probes', 'probe', (fact_tables,)),
            ('Compatibility', 'compat', (compatibility,)),
            ('Allocators', 'bench', (fact_tables,)),
            ('Clients', 'torch', (fact_tables, statistics, compatibility))):
        if of(part):
            parts.append(f'## {heading}\n')
            for body in bodies:
                parts += body(of(part))
    found = list(troubles(results))
    if found:
        parts += ['## What failed\n', *found]
    return '\n'.join(parts).rstrip('\n') + '\n'
