#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""floors.py BUILD: who calls whom, by the object files of a build, without circle or arrow upwards.

A file uses another where its object needs a symbol that the other's defines. The graph is printed
from the top floor down, and the files of a room likewise: each uses only what comes after it. A
function that is called through a table is used by the file that fills the table, not by the caller.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import layers
import tree

SKIPPED = 77
# Symbols that a complaint names.
SHOWN = 4
# What is made in the build folder has no room of its own.
MADE = {'plot_files.c': 'tools/plot/plot_files.c'}


class CannotTell(Exception):
    """The build has no objects whose symbols can be listed."""


def sources(build):
    """{object: source} of the product, relative to the root; of the tests' own builds of it, none."""
    database = json.loads((build / 'compile_commands.json').read_text(encoding='utf-8'))
    found = {}
    for entry in database:
        if entry['output'].split('/')[0] in layers.FLOORS:
            source = os.path.normpath(os.path.join(entry['directory'], entry['file']))
            name = os.path.relpath(source, tree.ROOT)
            name = MADE.get(os.path.basename(name), name)
            if name.split('/')[0] not in layers.FLOORS:
                raise CannotTell(f'{entry["output"]} is of {name}')
            found[entry['output']] = name
    # Meson leaves assembly out of compile_commands.json.
    for path in build.glob('interpose/libcudamem.so.p/*.S.o'):
        room, name = path.name.removesuffix('.o').split('_', 1)
        found[str(path.relative_to(build))] = f'interpose/{room}/{name}'
    found = {name: source for name, source in found.items() if (build / name).exists()}
    if not found:
        raise CannotTell(f'no objects in {build}')
    return found


def symbols(build, objects):
    """{object: (defined, needed)}"""
    run = subprocess.run(['nm', '--print-file-name', '--format=posix', *objects], cwd=build,
                         check=False, capture_output=True, text=True)
    if run.returncode:
        raise CannotTell(run.stderr.strip().split('\n')[0])
    found = {name: (set(), set()) for name in objects}
    for line in run.stdout.splitlines():
        name, symbol, kind = line.split()[:3]
        if symbol == '__gnu_lto_slim':
            raise CannotTell('the objects are of link-time optimisation')
        if kind in 'Uw':
            found[name.rstrip(':')][1].add(symbol)
        elif kind.isupper():
            found[name.rstrip(':')][0].add(symbol)
    return found


def definers(objects):
    """{symbol: files that define it}"""
    found = {}
    for name, (defined, _) in sorted(objects.items()):
        for symbol in defined:
            found.setdefault(symbol, []).append(name)
    return found


def meet(one, other):
    """Can files of the two folders be in one process? The tool and the library never are."""
    return not ('tools' in (one, other) and {'allocator', 'interpose'} & {one, other})


def graph_of(objects):
    """{file: {used file: symbols}} of {file: (defined, needed)}."""
    graph = {name: {} for name in objects}
    by_symbol = definers(objects)
    for user, (_, needed) in objects.items():
        folder = layers.room_of(user)[0]
        for symbol in needed - layers.TABLES:
            able = [used for used in by_symbol.get(symbol, ())
                    if meet(folder, layers.room_of(used)[0])]
            # One of the own folder comes first, then one that may be used.
            able.sort(key=lambda used: (layers.room_of(used)[0] != folder,
                                        not layers.may_use(user, used)))
            if able:
                graph[user].setdefault(able[0], set()).add(symbol)
    return graph


def groups(graph):
    """The circles, and each other file as a group of its own; users come before what they use."""
    order, number, lowest, path = [], {}, {}, []

    def visit(name):
        number[name] = lowest[name] = len(number)
        path.append(name)
        for used in sorted(graph[name]):
            if used not in number:
                visit(used)
            if used in path:
                lowest[name] = min(lowest[name], lowest[used])
        if lowest[name] == number[name]:
            start = path.index(name)
            order.append(sorted(path[start:]))
            del path[start:]

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return order[::-1]


def complaints_of(objects):
    """(folder, what) of each circle, each arrow that no floor allows, each symbol with two owners."""
    graph = graph_of(objects)
    for group in groups(graph):
        if len(group) > 1:
            folder = layers.room_of(group[0])[0]
            yield folder, f'{len(group)} files call in a circle: {" ".join(group)}'
    for user, uses in sorted(graph.items()):
        for used, common in sorted(uses.items()):
            if not layers.may_use(user, used):
                names = ' '.join(sorted(common)[:SHOWN]) + (' ...' if len(common) > SHOWN else '')
                yield layers.room_of(user)[0], f'{user} must not use {used}: {names}'
    for symbol, names in sorted(definers(objects).items()):
        folders = [layers.room_of(name)[0] for name in names]
        if any(meet(*pair) for pair in itertools.combinations(folders, 2)):
            yield folders[0], f'{" and ".join(names)} define {symbol}'


def show(graph):
    """A line for each room, from the top down; in () the files that call in a circle."""
    rooms = {}
    for group in groups(graph):
        for room in sorted({layers.room_of(name) for name in group}):
            names = ' '.join(os.path.basename(name) for name in group if layers.room_of(name) == room)
            rooms.setdefault(room, []).append(f'({names})' if len(group) > 1 else names)
    for folder in ('interpose', 'allocator', 'tools', 'stats'):
        for room in re.split(r' [>|] ', layers.FLOORS[folder]):
            if (folder, room) in rooms:
                print(f'{folder}/{room}:'.replace('/.', ''), *rooms[folder, room])


def main():
    build = pathlib.Path(sys.argv[1])
    try:
        by_object = sources(build)
        found = symbols(build, sorted(by_object))
    except (CannotTell, OSError) as reason:
        print(f'cannot tell who calls whom: {reason}')
        return SKIPPED
    objects = {by_object[name]: both for name, both in found.items()}
    show(graph_of(objects))
    return tree.report([what for _, what in complaints_of(objects)])


if __name__ == '__main__':
    sys.exit(main())
