#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts that a hostile process chooses, for a terminal and for a spreadsheet."""

import csv
import io
import sys

from hostile import forged, fresh, kit, tool

FORMULAS = ('=cmd|\' /C calc\'!A0', '+1+1', '-1+cmd', '@SUM(A1)', ' =1+1', '\uff1d1+1', '=1;=2',
            '-x')
PLAIN = ('train.py', '-', '-5', '+1.5', '1-2', 'a=b', 'a,b', 'x;y', 'tab\tx')
REORDERING = '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029'


def cell(kit_, number, text):
    path = forged('says', fresh(kit_, f'says{number}'), text)
    run = tool(kit_, 'ls', '--dir', path.parent, '--csv', '-o', 'PID,COMMAND')
    assert run.returncode == 0, run
    line = run.stdout.splitlines()[1]
    return line, next(csv.reader(io.StringIO(line)))[1]


def no_cell_is_a_formula(kit_):
    for number, text in enumerate(FORMULAS):
        line, read = cell(kit_, number, text)
        assert read.lstrip()[0] not in '=+-@\uff1d', (text, line)
        assert read.lstrip('\'') == text, (text, line)
        assert line.partition(',')[2].startswith('"'), (text, line)


def other_cells_are_as_they_are(kit_):
    for number, text in enumerate(PLAIN):
        line, read = cell(kit_, number, text)
        assert read == text.replace('\t', '?'), (text, line)


def numbers_stay_numbers(kit_):
    run = tool(kit_, 'export', '--to', 'csv', kit_.saved)
    rows = list(csv.DictReader(io.StringIO(run.stdout)))
    assert rows and all(row['size_bytes'].isdigit() for row in rows), rows[:3]


def what_changes_the_direction_of_a_text_is_not_shown(kit_):
    path = forged('says', fresh(kit_, 'bidi'), f'rm{REORDERING}x')
    for form in ([], ['--csv'], ['--ndjson'], ['--raw'], ['--pairs']):
        run = tool(kit_, 'ls', '--dir', path.parent, '-o', 'COMMAND', *form)
        assert run.returncode == 0, run
        assert not set(REORDERING) & set(run.stdout), (form, ascii(run.stdout))
        assert 'rm' + '?' * len(REORDERING) + 'x' in run.stdout, (form, run)


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        no_cell_is_a_formula, other_cells_are_as_they_are, numbers_stay_numbers,
        what_changes_the_direction_of_a_text_is_not_shown]))
