# SPDX-License-Identifier: MIT
"""Plays the ensemble: a process a core, each with its part of the programs."""

import subprocess
import tempfile
import time

import tables
from ensemble import judge
from measure import Failed

# 13 families, so many seeds each: 2002 programs.
SEEDS = '0:154'
# The smallest card is looked for under the first ones alone: the search takes most of the time.
SEARCHED = (judge.OURS, judge.WITHOUT, judge.PAGED, judge.DRIVER, judge.TORCH)
OTHERS = (judge.EXACT, judge.TORCH_PAGES)
LIMIT = 1200  # seconds


def start(programs, arguments):
    """A process, and the file that it writes to: a pipe would hold up those that are read last."""
    command = [programs.path('ensemble'), *arguments]
    out = tempfile.TemporaryFile('w+', encoding='ascii')
    return command, subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True), out


def finish(command, process, out):
    with out:
        try:
            _, complaint = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f'{" ".join(command)}: not over after {LIMIT} s') from None
        if process.returncode:
            raise Failed(f'{" ".join(command)}: status {process.returncode}: {complaint.strip()}')
        out.seek(0)
        return out.read().splitlines()


def play(programs, what, searched=SEARCHED, others=OTHERS):
    """The cases of the programs that `what` names: arguments of the ensemble's program."""
    parts = len(programs.cores)
    started = []
    for part in range(parts):
        mine = (*what, '--part', f'{part}:{parts}')
        started.append(start(programs, ('--smallest', *mine, *searched)))
        if others:
            started.append(start(programs, (*mine, *others)))
    lines = []
    failure = None
    for job in started:
        try:
            lines += finish(*job)
        except Failed as failed:
            failure = failed
    if failure:
        raise failure
    return judge.read(lines)


def tell(programs, seeds, card):
    """What a run found, for report.py."""
    began = time.monotonic()
    cases = play(programs, ('--seeds', seeds or SEEDS, *(('--card', card) if card else ())))
    return {'programs': len(cases) // 2, 'goals': list(judge.judge(cases, judge.rows())),
            'families': list(judge.by_family(cases)), 'systems': list(judge.by_system(cases)),
            'seconds': time.monotonic() - began}


MIB = 1 << 20
ONE_HEADS = ('system', 'passes', 'served', 'held', 'reserved 1', 'reserved 4', 'calls 1', 'calls 4', 'maps 1',
             'maps 4', 'events 4', 'ms 1', 'ms 4', 'smallest')


def one(programs, name, card):
    """The figures of one program, as text."""
    what = ('--program', name, *(('--card', card) if card else ()))
    parts = []
    for case in play(programs, what, searched=SEARCHED + OTHERS, others=()):
        rows = []
        for system, found in case.by.items():
            rows.append([system, found['done'], found['served1'], found['held1'] // MIB,
                         *(found[f'reserved{n}'] // MIB for n in (1, 4)),
                         *(found[f'{figure}{n}'] for figure in ('calls', 'maps') for n in (1, 4)),
                         found['events4'], *(f'{found[f"ns{n}"] / 1e6:.1f}' for n in (1, 4)),
                         found['smallest'] // MIB if 'smallest' in found else '-'])
        parts.append(f'{case}: {case.any("requests1")} requests, {case.any("live") / MIB:.1f} MiB live, '
                     f'a card of {case.any("card") / MIB:.1f} MiB; sizes in MiB\n'
                     f'{tables.table(ONE_HEADS, rows)}\n')
    return '\n'.join(parts)


def write_trace(programs, name, path):
    """The program as a file that replay reads."""
    finish(*start(programs, ('--program', name, '--trace', path)))
