#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NVIDIA's own driver libraries, on a machine without a card, bare and under the library.

The driver answers every look-up without a card, and each call with the error that there is none.
Whatever a program can see of that must be the same under the library, but for the addresses of the
functions that hooks.def lists: these must be the library's own, by dlsym and by cuGetProcAddress,
for every version and flag.

Exit status 77: the drivers cannot be had here.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import fetch
import programs
import times

SKIPPED = 77
# cudaErrorNoDevice, and cudaErrorInsufficientDriver of a runtime newer than the driver.
WITHOUT_CARD = (100, 35)
LIBRARY = 'libcudamem.so'


class Case:
    """One program with one driver, run bare and under the library."""

    def __init__(self, library, driver, folder):
        self.library = library
        self.driver = driver
        self.folder = folder

    def run(self, command, preloaded, text=''):
        regions = self.folder / 'regions'
        regions.mkdir(exist_ok=True)
        environment = {
            'PATH': os.environ['PATH'], 'LC_ALL': 'C.UTF-8', 'HOME': str(self.folder),
            'LD_LIBRARY_PATH': str(self.driver), 'REGIONS': str(regions),
            'CUDAMEM_CONF': f'region_dir:{regions}',
        }
        if preloaded:
            environment['LD_PRELOAD'] = str(self.library)
        done = subprocess.run([str(word) for word in command], env=environment, input=text,
                              capture_output=True, text=True, check=False, timeout=120)
        left = sorted(path.name for path in regions.iterdir())
        return done.returncode, done.stdout, done.stderr, left


def hooked_names(hooks):
    """The symbols that the library replaces, and the names by which cuGetProcAddress knows them."""
    rows = re.findall(r'^CM_HOOK\((\w+),\s*"(\w+)"', hooks, re.MULTILINE)
    return {symbol for symbol, _ in rows}


def exported(library):
    """{offset: names} of the functions that a library exports."""
    names = {}
    listed = subprocess.run(['nm', '-D', '--defined-only', str(library)], capture_output=True,
                            text=True, check=True)
    for line in listed.stdout.splitlines():
        offset, kind, name = line.split()
        if kind in 'Ti':
            names.setdefault(int(offset, 16), set()).add(name.partition('@')[0])
    return names


def compare_lookups(bare, under, symbols, hooked):
    """Complaints about the answers to the same questions; how many led to the library."""
    found, ours = [], 0
    if len(bare) != len(under):
        return [f'{len(bare)} answers bare, {len(under)} under the library'], 0
    for one, other in zip(bare, under):
        *question, place, offset = one.split()
        *same, place_under, offset_under = other.split()
        names = symbols.get(int(offset, 16), set()) if place.startswith('libcuda.so') else set()
        wanted = bool(names & hooked)
        if question != same:
            found.append(f'{" ".join(question)}: under the library {" ".join(same)}')
        elif wanted and place_under != LIBRARY:
            found.append(f'{" ".join(question)}: a hooked function is not reached')
        elif not wanted and (place, offset) != (place_under, offset_under):
            found.append(f'{" ".join(question)}: {place}+{offset} became '
                         f'{place_under}+{offset_under}')
        ours += place_under == LIBRARY
    return found, ours


def check_lookups(case, lookups, hooked, name):
    library = case.driver / 'libcuda.so.1'
    symbols = exported(library)
    names = sorted({name for names in symbols.values() for name in names} | hooked)
    text = '\n'.join(names) + '\n'
    bare = case.run([lookups], False, text)
    under = case.run([lookups], True, text)
    if bare[0] or under[0]:
        return [f'{name}: look-ups end with {bare[0]} bare, {under[0]} under: {under[2]}']
    found, ours = compare_lookups(bare[1].splitlines(), under[1].splitlines(), symbols, hooked)
    print(f'{name}: {len(names)} names, {len(bare[1].splitlines())} look-ups, {ours} lead to the '
          'library')
    if not ours:
        found.append('no look-up leads to the library')
    if under[3]:
        found.append(f'look-ups leave regions: {under[3]}')
    return [f'{name}: {complaint}' for complaint in found[:20]]


def check_program(case, command, name):
    bare = case.run(command, False)
    under = case.run(command, True)
    calls = bare[1].count('\n')
    print(f'{name}: exit {bare[0]}, {calls} lines')
    if bare[0] != 7 or not any(f'cudaMalloc {code} ' in bare[1] for code in WITHOUT_CARD):
        return [f'{name}: not what a machine without a card answers: {bare}']
    if bare != under:
        lines = [f'{one} | {other}' for one, other
                 in zip(bare[1].splitlines(), under[1].splitlines()) if one != other]
        return [f'{name}: differs under the library: {lines[:10]} exit {under[0]}, '
                f'{under[2]!r}, regions {under[3]}']
    return []


def is_there(python, module):
    code = f'import importlib.util as u, sys; sys.exit(not u.find_spec({module!r}))'
    return not subprocess.run([python, '-c', code], capture_output=True, check=False).returncode


def settle(text):
    """What a program prints but for the times and numbers of processes in its messages."""
    times = (r'\b\d{4}-\d\d-\d\d[ T][\d:.]+', r'\b[A-Z]\d{4} [\d:.]+ +\d+', r'\b\d{10}\.\d+')
    return re.sub('|'.join(times), 'TIME', text)


def check_python(case, python, release):
    """Programs in Python; how many could be run."""
    found, run = [], 0
    for name, (module, code) in programs.PROGRAMS.items():
        if not is_there(python, module):
            continue
        run += 1
        bare, under = (case.run([python, '-c', code], preloaded) for preloaded in (False, True))
        bare, under = ([one[0], settle(one[1]), settle(one[2]), one[3]] for one in (bare, under))
        print(f'{release}, {name}: exit {bare[0]}: {bare[1].strip()[:150]!r}')
        if bare != under:
            found.append(f'{release}, {name}: {bare} became {under} under the library')
    return found, run


def check_nvml(case, tool, name):
    status, out, err, _ = case.run([tool, 'ls', '--all'], False)
    print(f'{name}: cudamemstat ls --all: exit {status}: {(out + err).strip()[:200]}')
    if status < 0 or 'Traceback' in err:
        return [f'{name}: cudamemstat ls --all ended with {status}']
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--library', type=pathlib.Path, required=True)
    parser.add_argument('--tool', type=pathlib.Path, required=True)
    parser.add_argument('--hooks', type=pathlib.Path, required=True)
    parser.add_argument('--lookups', type=pathlib.Path, required=True)
    parser.add_argument('--program', type=pathlib.Path, required=True)
    parser.add_argument('--static', type=pathlib.Path, help='the same with the static runtime')
    parser.add_argument('--cache', type=pathlib.Path, required=True)
    parser.add_argument('--venv', type=pathlib.Path, help='an environment with packages')
    parser.add_argument('part', choices=['lookups', 'runtimes', 'times', 'python'])
    options = parser.parse_args()
    try:
        drivers = fetch.drivers(options.cache)
        runtimes = (fetch.runtimes(options.cache) if options.part in ('runtimes', 'times')
                    else {})
    except fetch.Unavailable as reason:
        print(f"NVIDIA's drivers cannot be had here: {reason}")
        return SKIPPED
    if options.part == 'python' and not (options.venv / 'requirements').exists():
        print('the packages of the clients are not there: tests/clients installs them')
        return SKIPPED
    hooked = hooked_names(options.hooks.read_text(encoding='utf-8'))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for release, driver in drivers.items():
            case = Case(options.library, driver, pathlib.Path(folder))
            if options.part == 'lookups':
                found += check_lookups(case, options.lookups, hooked, release)
                found += check_nvml(case, options.tool, release)
            if options.part == 'python':
                complaints, ran = check_python(case, options.venv / 'bin' / 'python', release)
                found += complaints if ran else [f'{release}: no package is there']
                if driver == list(drivers.values())[-1]:
                    found += times.check_python_times(case, options.venv / 'bin' / 'python',
                                                      release, is_there)
            for version, path in runtimes.items():
                name, command = f'{release}, {version}', [options.program, path]
                if options.part == 'runtimes':
                    found += check_program(case, command, name)
                elif version in times.RUNTIMES:
                    found += times.check_time(case, command, name)
            if options.static and options.part == 'runtimes':
                found += check_program(case, [options.static], f'{release}, static')
    for complaint in found:
        print(complaint)
    return int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
