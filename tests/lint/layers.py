#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each folder and room may include and call: stats <- allocator <- interpose, stats <- tools."""

import re
import sys

import tree

MAY_INCLUDE = {
    'stats': {'stats'},
    'allocator': {'allocator', 'stats'},
    'interpose': {'interpose', 'allocator', 'stats'},
    'tools': {'tools', 'stats'},
}
# The rooms of a folder, from the top floor down: a room may use what stands to its right. '|' is
# between rooms of one floor, which may not use each other; '.' is what lies in the folder itself: the
# public headers, which know types of the floors below them only, and main() of the tool.
FLOORS = {
    'stats': '.',
    'allocator': 'entry > check > pinned > reclaim > paged > reuse > blocks | oom > state > . > base',
    'interpose': 'wrappers > process > driver > stacks > symbols > core > .',
    'tools': '. > verbs > doctor | top > run | plot | export | exporter | demo > watch > processes > snapshot > output > cli',
}
# A table that a lower room reads before any code could hand it over, and a higher one fills: dlsym is
# called before constructors run. What is called through it is used by the room that fills it.
TABLES = {'cm_hooks', 'cm_namings'}
KNOWS_CUDA = {'interpose'}
# What belongs to the process, not to a library inside it.
NEVER_CALLED = {
    'stats': 'getenv|secure_getenv|v?f?printf|puts|fputs|perror|exit|_exit|abort',
    'allocator': 'getenv|secure_getenv|v?f?printf|puts|fputs|perror|exit|_exit|abort',
    'interpose': 'getenv|v?printf|puts|exit|_exit|abort|signal|sigaction|setenv|putenv|umask|chdir',
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def room_of(path):
    """'allocator/base/lock.c' -> ('allocator', 'base'); a folder's own file is in room '.'."""
    parts = str(path).split('/')
    return parts[0], parts[1] if len(parts) > 2 else '.'


def height(folder, room):
    """0 is the lowest floor; None for a room that FLOORS does not have."""
    floors = [floor.split(' | ') for floor in FLOORS[folder].split(' > ')]
    for number, rooms in enumerate(reversed(floors)):
        if room in rooms:
            return number
    return None


def may_use(user, used):
    """May the file `user` include or call what the file `used` has? Both are paths of the product."""
    (folder, room), (used_folder, used_room) = room_of(user), room_of(used)
    if folder != used_folder or room == used_room:
        return used_folder in MAY_INCLUDE[folder]
    own, other = height(folder, room), height(folder, used_room)
    return own is not None and other is not None and own > other


def complaints_of(path, content):
    folder, room = room_of(path)
    if height(folder, room) is None:
        yield 1, f'{folder}/{room} is not in FLOORS (tests/lint/layers.py)'
    for include in INCLUDE.finditer(content):
        quote, target = include[1], include[2]
        line = tree.line_of(content, include.start())
        if quote == '"' and target.split('/')[0] not in MAY_INCLUDE[folder]:
            yield line, f'{folder} must not include "{target}"'
        elif quote == '"' and not may_use(path, target):
            yield line, f'room {folder}/{room} must not include "{target}"'
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
            complaints += [f'{path}:{line}: {what}'
                           for line, what in complaints_of(path, tree.text(path))]
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
