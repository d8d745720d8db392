#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rules for the text of every file, whatever its language."""

import re
import sys
import unicodedata

import tree

C_LIKE = {'.c', '.h', '.def', '.S', '.cu'}
LICENSED = C_LIKE | {'.py', '.sh'}
# In C: a table of a .def file has rows as long as they are.
COLUMNS = 100
FOLDED = {'.c', '.h', '.cu', '.cpp'}
# Recorded or crafted input is what it is, and pictures are no text.
DATA = re.compile(r'^(tests/fuzz/corpus|tests/golden|docs/pictures)/')

LINES = (
    (re.compile(r'[ \t\r]+$'), 'blanks at the end of the line'),
    (re.compile(r'(?<![\w.>])/(?:home|root|work|Users|mnt)/'), 'a path of one machine'),
    (re.compile(r'(?i)py[p]i(?!\w)|python[h]osted|deb\.debian\.org'), 'the name of a package host'),
    (re.compile(r'(?<!\w)skip\(\);'), 'skip(), where cm_skip(reason) is meant'),
    (re.compile(r'^(?:dev|clean root): '), 'what a command said of its work'),
    (re.compile(r'\bTO[D]O\b|\bFI[X]ME\b(?!: #\d)'), 'work left undone'),
)
# In C: nvcc comes with all of the toolkit, the headers that ./dev fetches do not.
UNFETCHED = re.compile(r'^#include <cu(?!da(?:_runtime_api|mem)?\.h>)')
# Strings, characters and block comments come first, so that what they hold is no comment.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.DOTALL)


def is_invisible(char):
    category = unicodedata.category(char)
    return (category in ('Cf', 'Cc', 'Co', 'Cn', 'Zl', 'Zp') and char not in '\n\t'
            or category == 'Zs' and char != ' ')


def complaints_of(path, content):
    if content and not content.endswith('\n'):
        yield 0, 'no newline at the end'
    if content.endswith('\n\n'):
        yield 0, 'empty lines at the end'
    if path.suffix in LICENSED and 'SPDX-License-Identifier: MIT' not in content[:120]:
        yield 1, 'no SPDX line at the top'
    for number, line in enumerate(content.split('\n'), 1):
        for pattern, what in LINES:
            if pattern.search(line):
                yield number, what
        # Most lines need no look at each character.
        if not line.replace('\t', '').isprintable():
            for char in filter(is_invisible, line):
                yield number, f'invisible character U+{ord(char):04X}'
        if path.suffix in FOLDED and len(line.expandtabs(8)) > COLUMNS:
            yield number, f'more than {COLUMNS} columns'
        if path.suffix in ('.c', '.h') and UNFETCHED.match(line):
            yield number, 'a header of CUDA that ./dev does not fetch'
    if path.suffix in C_LIKE:
        for token in C_TOKEN.finditer(content):
            if token[0].startswith('//'):
                yield tree.line_of(content, token.start()), 'a // comment'


def main():
    complaints = []
    for path in tree.files():
        if DATA.match(str(path)):
            continue
        try:
            content = tree.text(path)
        except UnicodeDecodeError:
            complaints.append(f'{path}: not UTF-8')
            continue
        complaints += [f'{path}:{line}: {what}' for line, what in complaints_of(path, content)]
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
