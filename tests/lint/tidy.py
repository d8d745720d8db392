#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""clang-tidy on every source, and on none a second time: tidy.py BUILD CLANG_BUILD [SOURCE...]

A source that was clean is passed over until it changes, or a header of this tree that it includes,
or the rules, or its command, or clang-tidy. The stamps of clean ones are in .cache/tidy. The build is
complete: its ninja knows who includes what. The one of clang's has the commands and the generated
headers; its objects need not be there.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import tree

TIDY = 'clang-tidy-14'
STAMPS = tree.ROOT / '.cache' / 'tidy'


def read_dependencies(build):
    """What each object file was made from, as far as it is of this tree."""
    text = subprocess.run(['ninja', '-C', str(build), '-t', 'deps'], check=True,
                          capture_output=True, text=True).stdout
    dependencies, current = {}, None
    for line in text.splitlines():
        if line and not line.startswith(' '):
            current = dependencies.setdefault(line.split(':')[0], [])
        elif line.strip() and current is not None:
            path = (build / line.strip()).resolve()
            if path.is_relative_to(tree.ROOT):
                current.append(path)
    return dependencies


def digest(entry, dependencies, common):
    sums = hashlib.sha256(common)
    sums.update(entry['command'].encode())
    for path in sorted(dependencies):
        sums.update(str(path).encode())
        sums.update(path.read_bytes())
    return sums.hexdigest()


def check(entry, stamp, build):
    if stamp.exists():
        return None
    run = subprocess.run([TIDY, '--quiet', '-p', str(build), entry['file']], cwd=build,
                         capture_output=True, text=True)
    if run.returncode:
        return run.stdout + re.sub(r'\d+ warnings generated.*\n', '', run.stderr)
    stamp.touch()
    return None


def main():
    build = pathlib.Path(sys.argv[2]).resolve()
    asked = sys.argv[3:]
    STAMPS.mkdir(parents=True, exist_ok=True)
    rules = [tree.ROOT / path for path in tree.files() if path.name == '.clang-tidy']
    version = subprocess.run([TIDY, '--version'], check=True, capture_output=True).stdout
    common = version + b''.join(path.read_bytes() for path in rules)
    dependencies = read_dependencies(pathlib.Path(sys.argv[1]).resolve())
    entries = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        path = (build / entry['file']).resolve()
        if path.suffix == '.c' and path.is_relative_to(tree.ROOT) and (
                not asked or str(path.relative_to(tree.ROOT)) in asked):
            # A source that is compiled in several ways is looked at as it first is.
            entries.setdefault(path, entry)
    stamps = {}
    for path, entry in entries.items():
        known = dependencies.get(entry['output'], [path])
        stamps[path] = STAMPS / digest(entry, set(known) | {path}, common)
    complaints = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for answer in pool.map(lambda path: check(entries[path], stamps[path], build), entries):
            if answer:
                complaints += 1
                print(answer)
    if not asked:
        # Stamps of what is no more.
        wanted = {stamp.name for stamp in stamps.values()}
        for stamp in STAMPS.iterdir():
            if stamp.name not in wanted:
                stamp.unlink()
    print(f'clang-tidy: {len(entries)} sources, {complaints} with complaints')
    return 1 if complaints else 0


if __name__ == '__main__':
    sys.exit(main())
