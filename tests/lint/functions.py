#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No function has more than 60 lines, no short name means another thing in every file, and no
Python function is there that nothing names: a case that is in no list is never run.

A name that the product gives to a static function in more than 3 files needs a row in SAME: there it
means the same each time.
"""

import ast
import collections
import re
import sys

import tree

LINES = 60
FILES = 3
PRODUCT = ('allocator', 'interpose', 'stats', 'tools')
SAME = {
    'add_process': 'adds a process to a list',
    'complain': 'prints what went wrong',
    'find_device': 'the row of a device, or none',
    'open_file': 'opens the file of what is created or read',
    'put_device': 'writes what a device has',
    'take_sample': 'takes the next sample of a source',
}
STATIC = re.compile(r'^static (?:inline )?[\w ]+?[ *]+(\w+)\([^;{]*?\)\n\{$', re.MULTILINE)


def bodies(path, content):
    """(first line, lines) of each function; clang-format puts the braces of a body at the margin."""
    if path.suffix == '.py':
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.FunctionDef):
                yield node.lineno, node.end_lineno - node.lineno
        return
    begin = 0
    for number, line in enumerate(content.split('\n'), 1):
        if line == '{':
            begin = number
        elif line == '}' and begin:
            yield begin, number - begin - 1
            begin = 0


def complaints_of(path, content):
    for number, lines in bodies(path, content):
        if lines > LINES:
            yield number, f'a function of {lines} lines, more than {LINES}'


def names_of(contents):
    """{name: files that have a static function of that name}; `contents`: {path: text}"""
    found = collections.defaultdict(set)
    for path, content in contents.items():
        for match in STATIC.finditer(content):
            found[match[1]].add(str(path))
    return found


def name_complaints_of(contents):
    found = names_of(contents)
    for name, paths in sorted(found.items()):
        if len(paths) > FILES and name not in SAME:
            yield f'{name}() is a function of its own in {", ".join(sorted(paths))}'
    for name in sorted(SAME):
        if len(found[name]) <= FILES:
            yield f'functions.py: SAME need not have {name}'


def unnamed_complaints_of(contents):
    """`contents`: {path: text}, of programs without a suffix as well."""
    words = collections.Counter(word for content in contents.values()
                                for word in re.findall(r'\w+', content))
    for path, content in contents.items():
        for node in ast.parse(content).body if path.endswith('.py') else ():
            if isinstance(node, ast.FunctionDef) and not node.decorator_list \
                    and words[node.name] == 1:
                yield f'{path}:{node.lineno}: nothing names {node.name}()'


def main():
    complaints, product = [], {}
    scripts = {str(path): tree.text(path) for path in tree.files('.py', '')
               if path.suffix or path.name == 'run'}
    complaints += unnamed_complaints_of(scripts)
    for path in tree.files('.c', '.h', '.py'):
        content = tree.text(path)
        complaints += [f'{path}:{line}: {what}' for line, what in complaints_of(path, content)]
        if path.parts[0] in PRODUCT:
            product[path] = content
    return tree.report(complaints + list(name_complaints_of(product)))


if __name__ == '__main__':
    sys.exit(main())
