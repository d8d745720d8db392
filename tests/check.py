#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py BUILD [PATH...]: the names of the tests that ./dev check runs, for Meson.

Of a product file, room or folder: the tests of tests/unit/ and those that tests/unit/elsewhere.txt
names. Of anything in tests/: the tests whose program or command has it as a source. Without a path:
all unit tests, and the lints and golden tests that are quick.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests/lint'))

import mirror  # noqa: E402
import tree  # noqa: E402

ALWAYS = {'layers', 'floors'}
QUICK = {'golden', 'mirror', 'planted', 'dev', 'text'}


def of_product(path, table, paths):
    """The tests of the modules at `path`; a file that is no module stands for its room."""
    modules = mirror.modules(paths)
    found = [one for one in modules if one == path.with_suffix('.c') or path in one.parents]
    found = found or [one for one in modules if one.parent == path.parent]
    elsewhere = {row: tests for _, row, tests in mirror.rows_of(table)}
    for module in found:
        own = mirror.own_test(module)
        # A large module has several: test_epoch.c, test_epoch_refused.c.
        yield from (one.stem.removeprefix('test_') for one in paths if one.parent == own.parent
                    and (one == own or one.name.startswith(own.stem + '_')))
        yield from elsewhere.get(module, ())


def of_tests(path, tests, targets):
    """The tests that have `path`, or a file in that folder, as a source or in their command."""
    def has(name):
        name = pathlib.Path(name)
        return name == ROOT / path or ROOT / path in name.parents

    ids = {target['id'] for target in targets for sources in target['target_sources']
           if any(has(name) for name in sources.get('sources', ()))}
    for test in tests:
        command = [pathlib.Path(word).resolve() for word in test['cmd'][1:2]]
        if ids & set(test['depends']) or any(has(word) for word in command):
            yield test['name']


def main():
    build = pathlib.Path(sys.argv[1])
    tests, targets = (json.loads((build / f'meson-info/intro-{what}.json').read_text(encoding='utf-8'))
                      for what in ('tests', 'targets'))
    known = {test['name'] for test in tests}
    units = {test['name'] for test in tests if any(suite.endswith(':unit') for suite in test['suite'])}
    found = ALWAYS if sys.argv[2:] else ALWAYS | QUICK | units
    table, paths = tree.text(mirror.TABLE), set(tree.files())
    for argument in sys.argv[2:]:
        path = pathlib.Path(argument)
        if not (ROOT / path).exists():
            sys.exit(f'check: there is no {argument}')
        which = set(of_tests(path, tests, targets) if path.parts[0] == 'tests' else
                    of_product(path, table, paths))
        if not which and path.parts[:2] == ('tests', 'unit'):
            which = units  # what they share
        if not which & known:
            sys.exit(f'check: no test is of {argument}')
        found |= which
    print(*sorted(found & known))


if __name__ == '__main__':
    main()
