#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The section COUNTERS of cudamemstat(1) names the counters of the table, and no others; the page of
the architecture draws the rooms that layers.py holds the folders to, says what each is for, and has
the locks of lock_ranks.def in their order.

Options are held to libcudamem(7) by tests/unit/stats/test_config.c; commands, columns and options of the
tool to cudamemstat(1) by tests/golden.
"""

import re
import sys

import layers
import tree

TABLE = 'stats/counters.def'
PAGE = 'docs/cudamemstat.1.scd'
ARCHITECTURE = 'docs/architecture.md'
RANKS = 'allocator/base/lock_ranks.def'
ROWS = (r'CM_STAT\(\w+, "(\w+)", "(\w*)"', r'CM_STAT1\(\w+, "(\w+)"', r'CM_SCALAR\((\w+)')


def counters():
    content = re.sub(r'/\*.*?\*/', '', tree.text(TABLE), flags=re.DOTALL)
    content = '\n'.join(line for line in content.splitlines() if not line.startswith('#'))
    for row in ROWS:
        for match in re.finditer(row, content):
            yield from filter(None, match.groups())


def documented():
    """The names in bold at the start of a table's row."""
    page = tree.text(PAGE).replace('\\_', '_')
    section = page[page.index('\n# COUNTERS\n'):page.index('\n# EXIT STATUS\n')]
    for row in re.findall(r'^\|[\[ ] (.*)$', section, re.MULTILINE):
        yield from re.findall(r'\*(\w+)\*', row)


def drawn(folder):
    """The line of the picture: the rooms of the folder from the top floor down."""
    floors = [floor for floor in layers.FLOORS[folder].split(' > ') if floor != '.']
    return f'    {folder + "/":12} {" > ".join(floors)}\n'


def room_complaints_of(page):
    """`page`: the text of docs/architecture.md."""
    described = set()
    for cell in re.findall(r'^\| (`[^|]*`) \|', page, re.MULTILINE):
        described.update(re.findall(r'`(\w+)`', cell))
    for folder in layers.FLOORS:
        rooms = set(re.findall(r'\w+', layers.FLOORS[folder]))
        if rooms and drawn(folder) not in page:
            yield f'{ARCHITECTURE}: no line {drawn(folder).strip()!r}'
        for room in sorted(rooms - described):
            yield f'{ARCHITECTURE}: does not say what {folder}/{room} is for'


def rank_complaints_of(page, table):
    """`page`: the text of docs/architecture.md, `table`: that of lock_ranks.def."""
    ranks = re.findall(r'^CM_LOCK_RANK\((\w+)\)', table, re.MULTILINE)
    section = page[page.index('\n## Locks\n'):page.index('\n## Life of a context\n')]
    rows = re.findall(r'^\| ([A-Z_]+) \|', section, re.MULTILINE)
    if not ranks or rows != ranks:
        yield f'{ARCHITECTURE}: has the locks {", ".join(rows)}; {RANKS} has {", ".join(ranks)}'


def main():
    there, wanted = set(documented()), set(counters())
    complaints = [f'{PAGE}: {name} of {TABLE} is missing' for name in sorted(wanted - there)]
    complaints += [f'{PAGE}: {name} is not in {TABLE}' for name in sorted(there - wanted)]
    if not wanted:
        complaints.append(f'{TABLE}: no row found')
    complaints += room_complaints_of(tree.text(ARCHITECTURE))
    complaints += rank_complaints_of(tree.text(ARCHITECTURE), tree.text(RANKS))
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
