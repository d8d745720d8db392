#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each folder may include and call: stats <- allocator <- interpose, stats <- tools."""

import re
import sys

import tree

MAY_INCLUDE = {
    'stats': {'stats'},
    'allocator': {'allocator', 'stats'},
    'interpose': {'interpose', 'allocator', 'stats'},
    'tools': {'tools', 'stats'},
}
KNOWS_CUDA = {'interpose'}
# What belongs to the process, not to a library inside it.
NEVER_CALLED = {
    'stats': 'getenv|secure_getenv|v?f?printf|puts|fputs|perror|exit|_exit|abort',
    'allocator': 'getenv|secure_getenv|v?f?printf|puts|fputs|perror|exit|_exit|abort',
    'interpose': 'getenv|v?printf|puts|exit|_exit|abort|signal|sigaction|setenv|putenv|umask|chdir',
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def complaints_of(path, content):
    folder = path.parts[0]
    for include in INCLUDE.finditer(content):
        quote, target = include[1], include[2]
        line = tree.line_of(content, include.start())
        if quote == '"' and target.split('/')[0] not in MAY_INCLUDE[folder]:
            yield line, f'{folder} must not include "{target}"'
        if quote == '<' and re.match(r'cuda|cu[A-Z]', target) and folder not in KNOWS_CUDA:
            yield line, f'{folder} must not know CUDA: <{target}>'
    if folder in NEVER_CALLED:
        code = COMMENT_OR_STRING.sub(lambda match: re.sub(r'[^\n]', ' ', match[0]), content)
        for call in re.finditer(rf'(?<![\w.>])({NEVER_CALLED[folder]})\s*\(', code):
            yield tree.line_of(code, call.start()), f'{folder} must not call {call[1]}()'


def main():
    complaints = []
    for path in tree.files('.c', '.h', '.def', '.S'):
        if path.parts[0] in MAY_INCLUDE:
            found = complaints_of(path, tree.text(path))
            complaints += [f'{path}:{line}: {what}' for line, what in found]
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
