#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a pair costs in instructions, and what a request and a free that hit visit: hit_path.py BUILD.

valgrind counts each instruction of the library as it is released (libcudamem_measured.so), over a
driver that answers at once. A figure is the difference of two runs, one with more pairs than the
other, so that start and end do not count. It is exact: the same program of the same compiler gives
the same figure on every machine.

A function or a source file is visited if the call executes some instruction of it in at least half of
all calls; the debug lines tell those that are inlined.
"""

import collections
import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree stays as it was

from measure import Failed, Programs, parse
from workloads import OURS

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
RECORD = os.path.join(ROOT, 'tests', 'bench', 'hit_path.json')
ROW = 'hit path'
LIBRARY = 'libcudamem_measured.so'
# valgrind cannot reserve as many addresses as the bench asks for.
PLAN = 'memory:32G,guard:off'
# On a busy machine a run takes seconds, after which idle memory would return to the driver.
CONF = 'decay_seconds:off'
# Workloads, with the shares of them that are played.
PAIRS = {
    'same size, 1 KiB': ('same:1K', 4, 8),
    'log-uniform, 1000 live': ('mixed', 10, 30),
    'training-step ramps': ('ramps', 10, 30),
    'same size, 64 MiB': ('same:64M', 2, 4),
}
# The same where the library is on pages.
PAGED = ('log-uniform, 1000 live', 'training-step ramps')
PAGED_CONF = 'expandable_segments:True'
# What is counted: all inside the first function, but for what is inside the second.
CALLS = {'cuMemAlloc': ('cm_wrap_cuMemAlloc_v2', 'cm_slow_path_alloc'),
         'cuMemFree': ('cm_wrap_cuMemFree_v2',)}
VISITED = PAIRS['same size, 1 KiB']


def is_possible():
    return platform.machine() == 'x86_64' and all(map(shutil.which, ('valgrind', 'addr2line', 'readelf')))


class Counts:
    """Executed instructions of a callgrind file, by object and address."""

    def __init__(self, text):
        self.executed = collections.Counter()
        self.names = {}
        object_name, address, inclusive = None, 0, False
        for line in text.splitlines():
            key, _, value = line.partition('=')
            if key in ('ob', 'cob'):
                name = self.name_of(value)
                object_name = name if key == 'ob' else object_name
            elif key == 'calls':
                inclusive = True  # the next line is the callee's
            elif re.match(r'(0x|[+*-])', line):
                position, _, count = line.split()
                address = self.next_address(address, position)
                if not inclusive:
                    self.executed[object_name, address] += int(count)
                inclusive = False

    def name_of(self, value):
        number, _, name = value.partition(' ')
        return self.names.setdefault(number, name)

    @staticmethod
    def next_address(address, position):
        if position.startswith('0x'):
            return int(position, 16)
        return address + (0 if position == '*' else int(position))

    def total(self):
        return sum(self.executed.values())


def count(programs, workload, share, *options, conf=''):
    """Pairs that the workload had, and what was executed for it."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'callgrind')
        env = {key: value for key, value in os.environ.items() if not key.startswith('CUDAMEM')}
        env.update(LD_PRELOAD=f'{programs.path(LIBRARY)}:{programs.path("libbench_instant.so")}',
                   CUDASIM=PLAN, CUDAMEM_CONF=f'region_dir:{folder},{CONF},{conf}')
        command = ['valgrind', '--quiet', '--tool=callgrind', '--dump-instr=yes',
                   f'--callgrind-out-file={out}', *options, programs.path('bench'), '-s', str(share),
                   'driver', workload]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                              timeout=programs.limit)
        if done.returncode or not os.path.exists(out):
            raise Failed(f'{" ".join(command)}: status {done.returncode}: {done.stderr.strip()}')
        with open(out, encoding='utf-8') as file:
            return parse(done.stdout)['pairs'], Counts(file.read())


def per_pair(programs, workload, less, more, *options, conf=''):
    """Instructions of a pair, by object and address."""
    (few, base), (many, counts) = (count(programs, workload, share, *options, conf=conf) for share in (less, more))
    counts.executed.subtract(base.executed)
    return {key: n / (many - few) for key, n in counts.executed.items()}


def count_pairs(programs):
    """Instructions of a pair by workload, with those of the program and of the driver's stubs."""
    found = {name: sum(per_pair(programs, *how).values()) for name, how in PAIRS.items()}
    for name in PAGED:
        found[f'{name}, pages'] = sum(per_pair(programs, *PAIRS[name], conf=PAGED_CONF).values())
    return found


def read_lines(library, addresses):
    """The functions and files that the addresses belong to, with those they are inlined in."""
    text = subprocess.run(['addr2line', '--exe', library, '--inlines', '--functions'],
                          input=''.join(f'{address:#x}\n' for address in addresses),
                          capture_output=True, text=True, check=True).stdout.splitlines()
    return {(os.path.relpath(line.split(':')[0], ROOT), name)
            for name, line in zip(text[::2], text[1::2])}


def visit(programs, toggles):
    """A call that hits, without what the driver executes for it."""
    library = programs.path(LIBRARY)
    counts = {address: n for (path, address), n in
              per_pair(programs, *VISITED, *(f'--toggle-collect={name}' for name in toggles)).items()
              if path == library}
    found = read_lines(library, [address for address, n in counts.items() if n >= 0.5])
    return {'instructions': round(sum(counts.values())), 'functions': len(found),
            'files': sorted({file for file, _ in found})}


def measure_all(programs):
    return {'pairs': {name: round(n) for name, n in count_pairs(programs).items()},
            'calls': {name: visit(programs, toggles) for name, toggles in CALLS.items()}}


def name_compiler(programs):
    """Another one has other figures."""
    text = subprocess.run(['readelf', '--string-dump=.comment', programs.path(LIBRARY)],
                          capture_output=True, text=True, check=True).stdout
    return ', '.join(sorted(set(re.findall(r'\[.*\]  (.*)', text))))


@dataclasses.dataclass(frozen=True)
class HitPath:
    """All of it as one job of `run`."""
    row: str = ROW
    column: str = OURS
    once: bool = True

    def run(self, programs):
        found = measure_all(programs)
        return found['pairs'] | {f'{name}, files': len(call['files'])
                                 for name, call in found['calls'].items()}


def jobs(skipped):
    if not is_possible():
        skipped.append({'name': ROW, 'reason': 'no valgrind, or no binutils'})
        return
    yield HitPath()


def read_record():
    with open(RECORD, encoding='utf-8') as file:
        return json.load(file)


def record(programs, found):
    with open(RECORD, 'w', encoding='utf-8') as file:
        json.dump({'compiler': name_compiler(programs), **found}, file, indent=1)
        file.write('\n')


def main():
    programs = Programs(sys.argv[1])
    found = measure_all(programs)
    if sys.argv[2:] == ['--record']:
        record(programs, found)
    for name, instructions in found['pairs'].items():
        print(f'{name:24} {instructions:5} instructions a pair')
    for name, call in found['calls'].items():
        print(f'{name:24} {call["instructions"]:5} instructions, {call["functions"]} functions, '
              f'{len(call["files"])} files: {" ".join(call["files"])}')


if __name__ == '__main__':
    main()
