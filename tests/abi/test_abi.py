#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A build against the last release: test_abi.py LIBRARY SURFACE TOOL MAKER [--update]

released/ has what abidw says of the release: the functions cudamem_* of the library, and the rows of
the statistics region. abidiff finds what a program that was built then, or a tool of then, would
miss. A function may be added. The region may change only with its version: not at all within a
minor one, at the end of rows and tables with a new minor one (tests/unit/stats/test_layout.c has
each offset), in any way with a new major one. --update records this build as a release.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RELEASED = HERE / 'released'
sys.path.insert(0, str(ROOT / 'tests' / 'snapshot'))
from kit import Skip, run_cases  # noqa: E402 pylint: disable=wrong-import-position

LIBRARY, SURFACE, TOOL, MAKER = (os.path.abspath(word) for word in sys.argv[1:5])
ONLY_OURS = ''.join(f'[suppress_{kind}]\n symbol_name_not_regexp = ^cudamem_|^cm_surface\n'
                    ' drop = yes\n' for kind in ('function', 'variable'))
# The bit of abidiff's exit status that says that the two differ.
DIFFER = 4


def dump(binary, folder):
    """What abidw says of a file, without the stubs, which have no types."""
    if os.uname().machine != 'x86_64':
        raise Skip('the release was recorded on x86-64')
    if not shutil.which('abidw'):
        raise Skip('abidw is not there (abigail-tools)')
    (folder / 'only').write_text(ONLY_OURS, encoding='ascii')
    text = subprocess.run(
        ['abidw', '--suppressions', folder / 'only', '--no-corpus-path', '--no-comp-dir-path',
         '--no-show-locs', '--no-elf-needed', binary], capture_output=True, text=True,
        check=True).stdout
    text = re.sub(r" path='[./]*", " path='", text)
    return re.sub(r"    <function-decl name='(?!cudamem_).*?    </function-decl>\n", '', text,
                  flags=re.DOTALL)


def differences(old, new, folder):
    """What abidiff says of two dumps; nothing if all of the old one is in the new one."""
    paths = []
    for name, text in (('old.abi', old), ('new.abi', new)):
        (folder / name).write_text(text, encoding='utf-8')
        paths.append(folder / name)
    run = subprocess.run(['abidiff', '--no-added-syms', *paths], capture_output=True, text=True,
                         check=False)
    assert run.returncode & ~(DIFFER | 8) == 0, run
    return run.stdout if run.returncode else ''


def released(name):
    return (RELEASED / name).read_text(encoding='utf-8')


def layout():
    text = (ROOT / 'stats' / 'layout.h').read_text(encoding='utf-8')
    return tuple(int(number) for number in re.findall(r'^#define CM_LAYOUT_M\w+ (\d+)$', text,
                                                      re.MULTILINE))


def every_released_function_is_there(folder):
    found = differences(released('functions.abi'), dump(LIBRARY, folder), folder)
    assert not found, found


def the_region_changes_with_its_version_alone(folder):
    found = differences(released('region.abi'), dump(SURFACE, folder), folder)
    version = tuple(map(int, released('layout').split('.')))
    assert layout() >= version, (layout(), version)
    assert not found or layout() > version, found


def changes_are_found(folder):
    """The same comparisons with a release that had more, or other types."""
    functions, region = released('functions.abi'), released('region.abi')
    more = functions.replace('cudamem_empty_cache', 'cudamem_gone')
    assert 'cudamem_gone' in differences(more, dump(LIBRARY, folder), folder)
    end = region.index("name='file_bytes'")
    start = region.rindex('<data-member', 0, end)
    moved = re.sub(r"layout-offset-in-bits='\d+'", "layout-offset-in-bits='192'",
                   region[start:end])
    assert moved != region[start:end]
    found = differences(region[:start] + moved + region[end:], dump(SURFACE, folder), folder)
    assert 'file_bytes' in found, found


def show(kind, folder):
    regions = folder / kind
    regions.mkdir()
    made = subprocess.run([MAKER, kind, regions, '5000001'], capture_output=True, text=True,
                          check=True)
    return subprocess.run([TOOL, 'show', '--region', made.stdout.strip()], capture_output=True,
                          text=True, check=False)


def an_old_tool_says_what_it_lacks(folder):
    run = show('future-minor', folder)
    assert run.returncode == 0, run
    assert f'newer than this tool, which reads layout {layout()[0]}.{layout()[1]}' in run.stdout


def a_new_tool_says_what_the_library_lacks(folder):
    run = show('past-minor', folder)
    last = re.findall(r'^CM_SCALAR\((\w+)', (ROOT / 'stats' / 'counters.def').read_text(
        encoding='utf-8'), re.MULTILINE)[-2:]
    assert run.returncode == 0, run
    assert re.search(rf'older than this tool, and has no \w+, {", ".join(last)}:', run.stdout), run


def another_major_is_refused(folder):
    run = show('other-major', folder)
    assert run.returncode and 'this build reads' in run.stderr, run


def update(folder):
    RELEASED.mkdir(exist_ok=True)
    for name, text in (('functions.abi', dump(LIBRARY, folder)),
                       ('region.abi', dump(SURFACE, folder)),
                       ('layout', '{}.{}\n'.format(*layout()))):
        (RELEASED / name).write_text(text, encoding='utf-8')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='cudamem-abi-') as made_folder:
        work = pathlib.Path(made_folder)
        if '--update' in sys.argv[5:]:
            update(work)
        else:
            sys.exit(run_cases([every_released_function_is_there,
                                the_region_changes_with_its_version_alone,
                                changes_are_found,
                                an_old_tool_says_what_it_lacks,
                                a_new_tool_says_what_the_library_lacks,
                                another_major_is_refused], work))
