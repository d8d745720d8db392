#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/transparency.md: no row without a test that is there, no hooked function without a row.
docs/service.md: no test that is not there.

  transparency.py BUILD_FOLDER
"""

import json
import pathlib
import re
import sys

import tree

PAGE = 'docs/transparency.md'
SERVICE = 'docs/service.md'
CELLS = 5
NAMES = re.compile(r'`([\w-]+)`(?:: ([\w, ]+))?')


def rows(page):
    """Line and cells of each row, those of headings left out."""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith('|') and not re.match(r'\|(-+\||\s*API \|)', line):
            yield number, [cell.strip() for cell in line.strip('|').split('|')]


def tests_of(folder):
    """By name: the sources of the program that the test runs."""
    info = pathlib.Path(folder) / 'meson-info'
    sources = {}
    for target in json.loads((info / 'intro-targets.json').read_text(encoding='utf-8')):
        for file in target['filename']:
            sources[file] = [source for group in target['target_sources']
                             for source in group.get('sources', [])]
    return {test['name']: sources.get(test['cmd'][0], [])
            for test in json.loads((info / 'intro-tests.json').read_text(encoding='utf-8'))}


def cases_in(sources):
    """A case begins as a macro at the margin, whichever it is, or stands in a list of cmocka's. Some
    macros make several out of a word."""
    cases = set()
    for source in sources:
        content = pathlib.Path(source).read_text(encoding='utf-8')
        endings = re.findall(r'\bname##(\w+)', content)
        for case in re.findall(r'^(?:\w+ )?\w+\(\s*(\w+)[,)]', content, re.MULTILINE):
            cases.update({case, *(case + ending for ending in endings)})
        for listed in re.findall(r'struct CMUnitTest \w+\[\] = \{(.*?)\};', content, re.DOTALL):
            cases.update(re.findall(r'\w+\((\w+)', listed))
    return cases


def test_complaints(cell, tests):
    named = NAMES.findall(cell)
    if not named:
        yield 'no test'
    for name, cases in named:
        if name not in tests:
            yield f'no test is called {name}'
            continue
        known = cases_in(tests[name])
        for case in filter(None, cases.split(', ')):
            if case not in known and case != 'all':
                yield f'{name} has no case {case}'


def complaints_of(page, hooks, tests):
    covered = set()
    for number, cells in rows(page):
        if len(cells) != CELLS:
            yield f'{number}: {len(cells)} cells, not {CELLS}'
            continue
        covered.update(re.findall(r'`(\w+)`', cells[0]))
        for complaint in test_complaints(cells[-1], tests):
            yield f'{number}: {complaint}'
    for base in sorted(set(re.findall(r'^CM_HOOK\(\w+,\s+"(\w+)"', hooks, re.MULTILINE)) - covered):
        yield f'0: no row for {base}'


def service_complaints(page, tests):
    """Of the rows whose last cell names a test."""
    for number, cells in rows(page):
        if NAMES.match(cells[-1]):
            for complaint in test_complaints(cells[-1], tests):
                yield f'{number}: {complaint}'


def main():
    tests = tests_of(sys.argv[1])
    found = complaints_of(tree.text(PAGE), tree.text('interpose/symbols/hooks.def'), tests)
    complaints = [f'{PAGE}:{complaint}' for complaint in found]
    complaints += [f'{SERVICE}:{complaint}'
                   for complaint in service_complaints(tree.text(SERVICE), tests)]
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
