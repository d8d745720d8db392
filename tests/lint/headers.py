#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every header compiles alone and has the guard of its path: headers.py COMPILER ARGUMENT..."""

import re
import subprocess
import sys

import tree


def complaint_of(path, compiler):
    # What only tests include may leave out folders: the name alone tells it apart there.
    parts = [re.sub(r'[^A-Z0-9]', '_', part.upper()) for part in path.parts]
    between = r'\w*' if parts[0] == 'TESTS' else '_'.join(parts[:-1]) + '_'
    guard = rf'^#ifndef (CM_{between}{parts[-1]})\n#define \1\n'
    if not re.search(guard, tree.text(path), re.MULTILINE):
        return f'{path}: no guard named after its path'
    command = compiler + ['-fsyntax-only', '-D_GNU_SOURCE', '-Wall', '-Werror', '-I.', '-x', 'c', '-']
    run = subprocess.run(command, input=f'#include "{path}"\n', cwd=tree.ROOT, text=True,
                         capture_output=True, check=False)
    return f'{path}: does not compile alone\n{run.stderr}' if run.returncode else None


def main():
    found = (complaint_of(path, sys.argv[1:]) for path in tree.files('.h'))
    return tree.report([complaint for complaint in found if complaint])


if __name__ == '__main__':
    sys.exit(main())
