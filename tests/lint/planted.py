#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules see what they are there to see: each planted fault is found, and its
fair counterpart is not.

So does the count of the tests: it is what tells a good run from a bad one.
"""

import pathlib
import sys

import check_docs
import dev
import floors
import functions
import layers
import mirror
import text
import transparency
import tree

sys.path.insert(0, str(tree.ROOT / 'tests'))

import summary  # noqa: E402

SPDX = '/* SPDX-License-Identifier: MIT */\n'

# rule, path, fault, fair counterpart
CASES = (
    (text, 'stats/a.c', 'int a; \n', 'int a;\n'),
    (text, 'stats/a.c', 'int a;\r\n', 'int a;\n'),
    (text, 'stats/a.c', 'int a;', 'int a;\n'),
    (text, 'stats/a.c', 'int a;\n\n', 'int a;\n'),
    (text, 'stats/a.c', 'int a; // no\n', 'char *a = "// yes"; /* // yes */\n'),
    (text, 'stats/a.c', 'char a = \'"\'; // "\n', 'char a = \'"\'; char *b = "//";\n'),
    (text, 'stats/a.c', 'int a; /* \u200b */\n', 'int a; /* \u00e9 */\n'),
    (text, 'stats/a.c', 'int\u00a0a;\n', 'int a;\n'),
    (text, 'stats/a.c', '/* ' + 95 * 'a' + ' */\n', '/* ' + 94 * 'a' + ' */\n'),
    (text, 'stats/a.c', '\t/* ' + 87 * 'a' + ' */\n', '\t/* ' + 86 * 'a' + ' */\n'),
    (text, 'tests/a.c', '#include <cuda_profiler_api.h>\n', '#include <cuda_runtime_api.h>\n'),
    (text, 'docs/a.md', 'see /ho' + 'me/me/notes\n', 'see /usr/local/cuda\n'),
    (text, 'docs/a.md', 'from py' + 'pi.org\n', 'from a package index\n'),
    (text, 'docs/a.md', 'a Py' + 'PI package\n', 'a Python package\n'),
    (text, 'docs/a.md', 'dev' + ': installing\n', 'see `dev: installing`\n'),
    (text, 'docs/a.md', 'TO' + 'DO\n', 'done\n'),
    (text, 'tests/a.c', 'ski' + 'p();\n', 'cm_skip("no card");\n'),
    (layers, 'stats/a.c', '#include "allocator/state/state.h"\n', '#include "stats/layout.h"\n'),
    (layers, 'allocator/a.c', '#include "interpose/core/log.h"\n', '#include "stats/layout.h"\n'),
    (layers, 'tools/a.c', '#include "allocator/state/state.h"\n', '#include "stats/layout.h"\n'),
    (layers, 'interpose/a.c', '#include "tests/unit/x.h"\n', '#include "allocator/state/state.h"\n'),
    (layers, 'stats/a.c', '#include "layout.h"\n', '#include <stdint.h>\n'),
    (layers, 'allocator/a.c', '#include <cuda.h>\n', '#include <stdio.h>\n'),
    (layers, 'allocator/a.c', 'x = getenv("A");\n', '/* getenv(x) */ x = ops->exit(1);\n'),
    (layers, 'allocator/base/a.c', '#include "allocator/state/b.h"\n', '#include "stats/b.h"\n'),
    (layers, 'allocator/oom/a.c', '#include "allocator/blocks/b.h"\n', '#include "allocator/state/b.h"\n'),
    (layers, 'allocator/base/a.c', '#include "allocator/cache.h"\n', '#include "allocator/base/b.h"\n'),
    (layers, 'allocator/entry/a.c', '#include "allocator/new/b.h"\n', '#include "allocator/cache.h"\n'),
    (layers, 'tools/cli/a.c', '#include "tools/verbs/verbs.h"\n', '#include "tools/cli/b.h"\n'),
    (layers, 'tools/plot/a.c', '#include "tools/export/b.h"\n', '#include "tools/output/b.h"\n'),
    (functions, 'stats/a.c', 'int f(void)\n{\n' + 61 * '\tg();\n' + '}\n',
     'int f(void)\n{\n' + 60 * '\tg();\n' + '}\n'),
    (functions, 'tests/a.py', 'def f():\n' + 61 * '    g()\n', 'def f():\n' + 60 * '    g()\n'),
    (layers, 'stats/a.c', 'fprintf(f, "a");\n', 'snprintf(b, n, "printf(%d)", 1);\n'),
)

# what files define and need: the arrows and circles that floors must find, and fair counterparts of them
FAULTY_OBJECTS = (
    # a circle of two in one room, of three over folders' floors, and of two in one folder
    {'allocator/base/a.c': ('a', 'b'), 'allocator/base/b.c': ('b', 'a')},
    {'tools/verbs/a.c': ('a', 'b'), 'tools/run/b.c': ('b', 'c'), 'tools/cli/c.c': ('c', 'a')},
    {'stats/a.c': ('a', 'b'), 'stats/b.c': ('b', 'a')},
    # an arrow upwards, to a room of the same floor, to a folder above, to one beside
    {'allocator/base/a.c': ('a', 'b'), 'allocator/state/b.c': ('b', '')},
    {'allocator/oom/a.c': ('a', 'b'), 'allocator/blocks/b.c': ('b', '')},
    {'interpose/core/a.c': ('a', 'b'), 'interpose/symbols/b.S': ('b', '')},
    {'stats/a.c': ('a', 'b'), 'allocator/base/b.c': ('b', '')},
    {'allocator/entry/a.c': ('a', 'b'), 'interpose/core/b.c': ('b', '')},
    {'stats/a.c': ('a', 'b'), 'tools/cli/b.c': ('b', '')},
    {'tools/cli/a.c': ('a', 'b'), 'tools/cudamemstat.c': ('b', '')},
    # a room that no floor has
    {'tools/new/a.c': ('a', 'b'), 'tools/cli/b.c': ('b', '')},
    # one symbol of two files that may be in one process
    {'stats/a.c': ('a', ''), 'tools/cli/b.c': ('a', '')},
)
FAIR_OBJECTS = (
    {'allocator/base/a.c': ('a', 'b malloc'), 'allocator/base/b.c': ('b', 'free')},
    {'tools/verbs/a.c': ('a', 'b c'), 'tools/run/b.c': ('b', 'c'), 'tools/cli/c.c': ('c', '')},
    {'interpose/wrappers/a.c': ('a', 'b'), 'allocator/entry/b.c': ('b', 'c'), 'stats/c.c': ('c', '')},
    # a caller through a table needs the table; who fills it needs what is called
    {'interpose/process/a.c': ('table', 'called caller'), 'interpose/driver/b.c': ('called', ''),
     'allocator/entry/c.c': ('caller', '')},
    # the tool and the library are never in one process
    {'allocator/base/a.c': ('a', ''), 'tools/cli/b.c': ('a', ''), 'tools/verbs/c.c': ('c', 'a')},
)

# a tree with one module that has a test and one that has none: tables of who tests the latter
MIRRORED = [pathlib.Path(name) for name in (
    'stats/a.c', 'stats/b.c', 'stats/b.h', 'interpose/symbols/c.S', 'tests/unit/stats/test_a.c')]
FAIR_TABLE = '# who\nstats/b.c: b_whole\n'
FAULTY_TABLES = (
    '',
    'stats/b.c:\n',
    'stats/b.c: b_hole\n',
    FAIR_TABLE + 'stats/b.c: a\n',
    FAIR_TABLE + 'stats/a.c: a\n',
    FAIR_TABLE + 'stats/c.c: a\n',
)

# what ./dev says and does
FAIR_DEV = '''usage()
{
  check  a
  clean-root  b
}
verb_check()
verb_clean_root()
check | clean-root)
'''
FAULTY_DEVS = (
    FAIR_DEV.replace('  check  a\n', ''),
    FAIR_DEV.replace('  check  a\n  clean-root  b\n', '  clean-root  b\n  check  a\n'),
    FAIR_DEV.replace('verb_clean_root()\n', ''),
    FAIR_DEV.replace('verb_clean_root()\n', 'verb_clean_root()\nverb_new()\n'),
    FAIR_DEV.replace(' | clean-root)', ' | clean)'),
)

# rows of the table of docs/transparency.md, with one hooked function, cuA, and one test, signs, in
# which this is a case
A_CASE = 'nccl_alone_does_not_count'
FAIR_ROW = f'| `cuA` | a | b | | `signs`: {A_CASE} |\n'
FAULTY_ROWS = (
    '| `cuA` | a | b | | |\n',
    '| `cuA` | a | b | | `sings` |\n',
    f'| `cuA` | a | b | | `signs`: {A_CASE}, {A_CASE}_of_all |\n',
    f'| `cuA` | a | b | `signs`: {A_CASE} |\n',
    f'| `cuB` | a | b | | `signs`: {A_CASE} |\n',
    '',
)

# what meson says of a program, what it printed; passed, failed, skipped
RUNS = (
    ('OK', '', (1, 0, 0)),
    ('FAIL', '', (0, 1, 0)),
    ('TIMEOUT', '', (0, 1, 0)),
    ('SKIP', 'no card here\n', (0, 0, 1)),
    ('OK', '1..2\nok 1 - a\nok 2 - b\n', (2, 0, 0)),
    ('FAIL', '1..2\nok 1 - a\nnot ok 2 - b\n', (1, 1, 0)),
    ('OK', '1..2\nok 1 - a\nok 2 - b # SKIP no card\n', (1, 0, 1)),
    ('OK', '1..2\nok 1 - a\n# SKIP no card\nok 2 - b\n', (1, 0, 1)),
    ('FAIL', '1..2\n# SKIP no card\nnot ok 1 - a\nok 2 - b\n', (1, 1, 0)),
    ('OK', '1..2\n# SKIP no card\nok 1 - a\nok 2 - b\n', (1, 0, 1)),
    ('ERROR', '1..1\nok 1 - a\n', (1, 1, 0)),
    ('TIMEOUT', '1..2\nok 1 - a\n', (1, 1, 0)),
    ('SKIP', '1..0 # SKIP no card\n', (0, 0, 1)),
    ('UNEXPECTEDPASS', '', (0, 1, 0)),
)


def miscounted():
    for result, output, wanted in RUNS:
        run = {'name': 'cudamem:unit / a', 'result': result, 'stdout': output, 'returncode': 0}
        passed, failed, skipped = summary.count(run)
        if (passed, failed, len(skipped)) != wanted:
            yield f'summary: counts {result} {output!r} as {passed}, {failed}, {skipped}'


def misnamed():
    content = 'static int put(int n,\n\t       int m)\n{\n}\n'
    same = {f'tools/{name}_{number}.c': content.replace('put', name)
            for name in functions.SAME for number in range(functions.FILES + 1)}
    fair = {f'stats/{number}.c': content for number in range(functions.FILES)}
    for complaint in functions.name_complaints_of(same | fair):
        yield f'functions: takes fair names for {complaint}'
    for faulty in (same | fair | {'tools/a.c': content}, fair):
        if not list(functions.name_complaints_of(faulty)):
            yield f'functions: overlooks a name in {sorted(faulty)[:4]}'
    case = 'def f():\n    pass\n'
    for listed in ('cases = [f]\n', '@case\n'):
        if list(functions.unnamed_complaints_of({'a.py': listed + case})):
            yield f'functions: takes a case for one that nobody runs, with {listed}'
    if not list(functions.unnamed_complaints_of({'a.py': case, 'run': 'g\n'})):
        yield 'functions: overlooks a case that nobody runs'


def misdrawn():
    page = tree.text(check_docs.ARCHITECTURE)
    for faulty in (page.replace('> state > base', '> base > state'),
                   page.replace('| `oom` |', '| `room` |')):
        if not list(check_docs.room_complaints_of(faulty)):
            yield 'check_docs: overlooks a room of the architecture'
    if not list(check_docs.rank_complaints_of(page.replace('| HOST_WORK |', '| HOST |'),
                                              tree.text(check_docs.RANKS))):
        yield 'check_docs: overlooks a lock of the architecture'


def mistabled():
    known = ('CM_HOOK(cuA_v2, "cuA", 3020, 0)\n',
             {'signs': [tree.ROOT / 'tests/unit/interpose/process/test_sharing_probe.c']})
    for row in FAULTY_ROWS:
        if not list(transparency.complaints_of(row, *known)):
            yield f'transparency: overlooks {row!r}'
    for complaint in transparency.complaints_of(FAIR_ROW, *known):
        yield f'transparency: takes {FAIR_ROW!r} for {complaint}'


def misjudged():
    for faulty, all_objects in ((True, FAULTY_OBJECTS), (False, FAIR_OBJECTS)):
        for named in all_objects:
            objects = {name: (set(defined.split()), set(needed.split()))
                       for name, (defined, needed) in named.items()}
            found = [what for _, what in floors.complaints_of(objects)]
            if bool(found) != faulty:
                yield f'floors: {"overlooks" if faulty else f"takes for {found}"} {named}'


def mismirrored():
    for table in FAULTY_TABLES:
        if not list(mirror.complaints_of(table, MIRRORED, {'a', 'b_whole'})):
            yield f'mirror: overlooks {table!r}'
    for complaint in mirror.complaints_of(FAIR_TABLE, MIRRORED, {'a', 'b_whole'}):
        yield f'mirror: takes {FAIR_TABLE!r} for {complaint}'
    for script in FAULTY_DEVS:
        if not list(dev.verb_complaints_of(script)):
            yield f'dev: overlooks {script!r}'
    for complaint in dev.verb_complaints_of(FAIR_DEV):
        yield f'dev: takes {FAIR_DEV!r} for {complaint}'


def main():
    complaints = [*miscounted(), *mistabled(), *misjudged(), *mismirrored(), *misnamed(),
                  *misdrawn()]
    for rule, path, fault, fair in CASES:
        path = pathlib.Path(path)
        top = SPDX if rule is text and path.suffix == '.c' else ''
        if not list(rule.complaints_of(path, top + fault)):
            complaints.append(f'{rule.__name__}: overlooks {fault!r} in {path}')
        for line, what in rule.complaints_of(path, top + fair):
            complaints.append(f'{rule.__name__}: takes {fair!r} in {path}:{line} for {what}')
    for clean, wanted in (('build', 1), ('build build-b', 0)):
        script = f'configure build-b -Dx\nverb_clean()\n{{\n\trm -rf {clean}\n}}\n'
        if len(list(dev.complaints_of(script))) != wanted:
            complaints.append(f'dev: takes {clean!r} for what is to be removed')
    if not list(text.complaints_of(pathlib.Path('stats/a.c'), 'int a;\n')):
        complaints.append('text: overlooks a missing SPDX line')
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
