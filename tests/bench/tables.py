# SPDX-License-Identifier: MIT
"""Text tables, as for a terminal and for Markdown."""


def number(value, digits=1):
    """Three digits or so; '-' where there is none."""
    if value is None:
        return '-'
    if abs(value) >= 100:
        return f'{value:.0f}'
    return f'{value:.{digits}f}'


def percent(value):
    return '-' if value is None else f'{100 * value:.0f} %'


def table(heads, rows, markdown=False):
    """The first column stands left, the others right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows)]

    def line(cells):
        first, *others = cells
        padded = [first.ljust(widths[0]), *(cell.rjust(width)
                                            for cell, width in zip(others, widths[1:]))]
        return f'| {" | ".join(padded)} |' if markdown else '  '.join(padded).rstrip()

    rule = ['-' * width for width in widths]
    if markdown:
        rule[1:] = [mark[:-1] + ':' for mark in rule[1:]]
    return '\n'.join(line(cells) for cells in (heads, rule, *rows))


def limit(row):
    parts = []
    if row['most_of_cub']:
        parts.append(f'{row["most_of_cub"]:.4g} of CUB')
    if row['most_driver_calls'] is not None:
        parts.append(f'{row["most_driver_calls"]:g} calls')
    return ', '.join(parts)


def workloads(rows, columns, markdown=False):
    heads = ['workload', 'ours ns', 'spread', 'x glibc', 'of CUB', 'calls', 'current', 'goal', '',
             *columns]
    return table(heads, [[
        ('  ' if row['indent'] and not markdown else '') + row['name'],
        number(row['ns']), percent(row['spread']), number(row['glibc_pairs'], 2),
        number(row['of_cub'], 3), number(row['driver_calls'], 4),
        number(row['current_calls'], 2), limit(row), row['verdict'],
        *(number(row['rivals_ns'].get(column)) for column in columns),
    ] for row in rows], markdown)


def goals(rows, markdown=False):
    def bound(row):
        return f'>= {row["least"]:.4g}' if 'least' in row else f'<= {row["most"]:.4g}'

    return table(['goal', 'limit', 'measured', 'unit', ''],
                 [[row['name'], bound(row), number(row['value'], 3), row['unit'], row['verdict']]
                  for row in rows], markdown)


def traces(rows, markdown=False):
    others = ('2 threads', 'bare', 'glibc', 'cub-pow2', 'cub-8x')
    heads = ['trace', 'operations', 'ours ns', *others, 'calls', 'live MiB', 'reserved', 'by torch',
             'by cub-pow2', 'by cub-8x']
    with_smallest = any(row['smallest'] for row in rows)
    body = []
    for row in rows:
        ns, reserved = row['ns'], row['reserved']
        body.append([
            row['name'], number(row['operations'], 0),
            *(number(ns[column]) for column in ('ours', *others)),
            number(row['driver_calls'], 0), number(row['live_bytes'] / 2**20),
            *(number(reserved[column], 3) for column in ('ours', 'torch', 'cub-pow2', 'cub-8x')),
            *([number(row['smallest'], 3)] if with_smallest else []),
        ])
    return table(heads + (['smallest'] if with_smallest else []), body, markdown)


def paged_traces(rows, markdown=False):
    heads = ['trace', 'ns', 'to ours', 'calls', 'mapping', 'reserved', 'smallest']
    body = []
    for row in rows:
        paged, ours = row['paged'], row['ns']['ours']
        slower = paged['ns'] / ours if paged['ns'] and ours else None
        mapping = paged['mapping_share']
        body.append([
            row['name'], number(paged['ns']), number(slower, 2), number(paged['driver_calls'], 0),
            '-' if mapping is None else f'{100 * mapping:.1f} %', number(paged['reserved'], 3),
            number(paged['smallest'], 3),
        ])
    return table(heads, body, markdown)


def ensemble_goals(rows, markdown=False):
    return table(['goal', 'limit', 'tuned on', 'held back', 'cases', '', 'worst'],
                 [[row['name'], row['bound'], number(row['tuned'], 4), number(row['held_back'], 4),
                   row['cases'], row['verdict'], ', '.join(row['worst'])] for row in rows], markdown)


def ensemble_figures(heads, rows, markdown=False):
    """A name, then its figures."""
    return table(heads, [[name, *(number(value, 3) for value in values)] for name, values in rows],
                 markdown)
