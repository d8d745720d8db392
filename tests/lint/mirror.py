#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mirror.py BUILD: each module has tests/unit/<its folder>/test_<its name>.c, or says who tests it.

Those without are rows of tests/unit/elsewhere.txt.
"""

import json
import pathlib
import sys

import layers
import tree

TABLE = 'tests/unit/elsewhere.txt'


def own_test(path):
    return pathlib.Path('tests/unit') / path.parent / f'test_{path.stem}.c'


def modules(paths):
    """The product modules among `paths`. Assembly is tested with the file that it calls."""
    return [path for path in paths if path.parts[0] in layers.FLOORS and path.suffix == '.c']


def rows_of(table):
    """(number of the line, path, [test]) of each row"""
    for number, line in enumerate(table.splitlines(), 1):
        if line and not line.startswith('#'):
            path, _, tests = line.partition(':')
            yield number, pathlib.Path(path), tests.split()


def complaints_of(table, paths, known_tests):
    """(path, what); `paths`: all files of the tree, `known_tests`: the names that meson has."""
    paths = set(paths)
    said = {}
    for number, path, tests in rows_of(table):
        if path in said:
            yield path, f'has two rows in {TABLE}'
        said[path] = number
        if path not in paths:
            yield path, f'{TABLE}:{number}: there is no such file'
        elif own_test(path) in paths:
            yield path, f'{TABLE}:{number}: has a test of its own and needs no row'
        if not tests:
            yield path, f'{TABLE}:{number}: names no test'
        for test in tests:
            if test not in known_tests:
                yield path, f'{TABLE}:{number}: there is no test {test}'
    for path in modules(sorted(paths)):
        if own_test(path) not in paths and path not in said:
            yield path, f'has no {own_test(path)}, and no row in {TABLE}'


def main():
    build = pathlib.Path(sys.argv[1])
    tests = json.loads((build / 'meson-info/intro-tests.json').read_text(encoding='utf-8'))
    known_tests = {test['name'] for test in tests}
    table, paths = tree.text(TABLE), tree.files()
    return tree.report([f'{path}: {what}'
                        for path, what in complaints_of(table, paths, known_tests)])


if __name__ == '__main__':
    sys.exit(main())
