#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is printed fits the terminal, and the commands agree about what they print.

  test_terminal.py TOOL MAKER PROGRAM LIBRARY SIMULATION
"""

import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata

import kit

PROGRAM, LIBRARY, SIMULATION = map(os.path.abspath, sys.argv[3:6])
ENVIRONMENT = {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(SIMULATION).parent), 'DEBUGINFOD_URLS': '',
               'ASAN_OPTIONS': 'verify_asan_link_order=0', 'CUDAMEM_CONF': '', 'LC_ALL': 'C.UTF-8'}
WIDTHS = (80, 60)
VERBS = ('ls', 'show', 'stat', 'memory-stats', 'trim', 'reset', 'history', 'snapshot', 'report', 'diff', 'plot',
         'export', 'conf', 'run', 'doctor', 'check', 'exporter', 'completion', 'help', 'top', 'demo')


def width(line):
    """In columns of a terminal."""
    line = re.sub(r'\033\[[0-9;?]*[A-Za-z]', '', line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in line)


def shown(columns, folder, *words):
    """What the command prints on a terminal of so many columns."""
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('4H', 24, columns, 0, 0))
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                          cwd=folder, env=ENVIRONMENT) as process:
        os.close(terminal)
        seen = b''
        try:
            while part := os.read(master, 65536):
                seen += part
        except OSError:
            pass  # its users have gone
        finally:
            os.close(master)
    return seen.decode().replace('\r', '')


class Running:
    """The program with its work done; its region is in a folder of its own."""

    def __init__(self, kit_, name, *words):
        self.kit, self.dir = kit_, kit_.folder / name
        self.dir.mkdir()
        command = [kit_.tool, 'run', '--library', LIBRARY, '--conf', f'stacks:all,region_dir:{self.dir}', *words, '--',
                   PROGRAM, 'plain']
        self.process = subprocess.Popen(command, env=ENVIRONMENT, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, cwd=kit_.folder)
        assert self.process.stdout.readline() == 'ready\n'
        self.pid = json.loads(kit_.ok('ls', '--dir', self.dir, '--json'))['processes'][0]['pid']

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=300)

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        while ') T ' not in pathlib.Path(f'/proc/{self.pid}/stat').read_text(encoding='utf-8'):
            time.sleep(0.01)


def of_a_process(kit_, folder, pid):
    """The commands that print about a process, with what they print by default."""
    tool, where = kit_.tool, ('--dir', folder)
    return [(tool, 'ls', *where), (tool, 'ls', *where, '-b'), (tool, 'stat', *where, '-p', pid), (tool, 'conf', *where, pid),
            *((tool, verb, *where, *more, pid) for verb, *more in (
                ('show',), ('show', '-b'), ('show', '--map'), ('memory-stats',), ('memory-stats', '--host'),
                ('history', 'status'), ('report',), ('report', '--graph'), ('report', '--graph', '-b'), ('report', '--by', 'stack'),
                ('report', '--last', '20', '--min-size', '1M', '--top', '2'), ('report', '-b'),
                ('snapshot', '-f', '-O', 'saved.cudamem'))),
            (tool, 'top', '-b', '-n', '1', *where), (tool, 'ls', '-o', 'help'), (tool, 'diff', kit_.saved, 'saved.cudamem'),
            (tool, 'plot', 'saved.cudamem', '-f', '-O', 'page.html'), (tool, 'doctor', '-v')]


def keep_within(kit_, commands):
    for columns in WIDTHS:
        for words in commands:
            text = shown(columns, kit_.folder, *words)
            assert text.strip(), words
            # A command to copy is not broken.
            wide = [line for line in text.split('\n')
                    if width(line) > columns and not line.startswith('  cudamemstat ')]
            assert not wide, (columns, words, wide)


def a_running_process_fits(kit_):
    with Running(kit_, 'running') as running:
        keep_within(kit_, of_a_process(kit_, running.dir, running.pid) + [
            (kit_.tool, verb, '--dir', running.dir, str(running.pid)) for verb in ('trim', 'reset')])


def a_stopped_process_fits(kit_):
    with Running(kit_, 'stopped') as running:
        running.stop()
        try:
            keep_within(kit_, of_a_process(kit_, running.dir, running.pid))
        finally:
            os.kill(running.pid, signal.SIGCONT)


def a_killed_process_fits(kit_):
    with Running(kit_, 'killed') as running:
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        keep_within(kit_, of_a_process(kit_, running.dir, running.pid))


def the_end_of_a_run_fits(kit_):
    run = (kit_.tool, 'run', '--library', LIBRARY)
    keep_within(kit_, [(*run, '--report', '--', PROGRAM, 'plain'), (*run, '--leaks', '--', PROGRAM, 'leak', '20'),
                       (*run, '--save-peak', './peak.cudamem', '--', PROGRAM, 'spike')])


def complaints_fit(kit_):
    keep_within(kit_, [(kit_.tool, 'report', 'nobody-has-this-in-a-command-line'), (kit_.tool, 'lss'),
                       (kit_.tool, 'ls', '--reserve'), (kit_.tool, 'report', '--since', 'soon', kit_.saved)])


def help_fits(kit_):
    keep_within(kit_, [(kit_.tool, '--help')] + [(kit_.tool, verb, '--help') for verb in VERBS])


def names_keep_their_beginning(kit_):
    """Of a Python line and the function that it calls, the line stays."""
    wide, narrow = (shown(columns, kit_.folder, kit_.tool, 'report', kit_.saved) for columns in (80, 60))
    assert ' train_step train.py:31 (load_weights)\n' in wide, wide
    assert ' train_step train.py:31\n' in narrow and '...' not in narrow, narrow


def columns_are_left_out_by_worth(kit_):
    with Running(kit_, 'columns') as running:
        def headings(columns, *words):
            return shown(columns, kit_.folder, kit_.tool, 'ls', '--dir', running.dir, *words).split('\n')[0].split()
        assert {'PID', 'GPU', 'ALLOC', 'RESERVED', 'COMMAND'} <= set(headings(60)), headings(60)
        # How many of them fit depends on the pid and on the user's name.
        assert set(headings(60)) < set(headings(80)) < set(headings(200)), headings(80)
        assert {'CACHED', 'FRAGMENTED', 'UNCACHED', 'PEAK', 'OOM'} <= set(headings(200)), headings(200)
        # A pipe has 80 columns, where texts are not cut; who names columns or wants no headings gets all.
        lines = kit_.ok('ls', '--dir', running.dir).decode().split('\n')
        assert lines[0].split() == headings(80) and max(map(width, lines[3:])) <= 80, lines
        assert PROGRAM + ' plain' in lines[1], lines
        for words in (('-o', '+TOTAL'), ('--noheadings',)):
            rows = kit_.ok('ls', '--dir', running.dir, *words).decode().splitlines()
            assert len(rows[-1].split()) == len(headings(200, *words[:2 * ('-o' in words)])) + 1, rows  # 'PROGRAM plain'
        # What was asked for by name stays.
        assert headings(60, '-o', 'PID,CACHED,UNCACHED,PEAK,OOM') == ['PID', 'CACHED', 'UNCACHED', 'PEAK', 'OOM']


def the_commands_agree(kit_):
    """One moment has the same figures under the same names in ls, show and report."""
    with Running(kit_, 'agreeing') as running:
        running.stop()
        try:
            where = ('--dir', running.dir)
            row = json.loads(kit_.ok('ls', *where, '--ndjson', '-o',
                                     'GPU,ALLOC,REQ,RESERVED,CACHED,FRAGMENTED,PENDING,PEAK,PEAKRSV,LARGEST,BLOCKS,SEGS'))
            found = {verb: json.loads(kit_.ok(verb, *where, '--json', str(running.pid))) for verb in ('show', 'report')}
            text = kit_.ok('report', *where, str(running.pid)).decode()
            bars = kit_.ok('show', *where, str(running.pid)).decode()
            saved = json.loads(kit_.ok('snapshot', *where, '--json', '-f', '-O', 'agreeing.cudamem', str(running.pid)))
        finally:
            os.kill(running.pid, signal.SIGCONT)
    figures = {key: value for key, value in row.items() if key not in ('held_bytes', 'waiting_bytes')}
    assert len(figures) == 12 and figures['allocated_bytes'] > 0 and figures['fragmented_bytes'] > 0, figures
    for device in (found['show']['processes'][0]['devices'][0], found['report']['devices'][0]):
        assert {key: device[key] for key in figures} == figures, (device, figures)
    assert saved['blocks'] == sum(device['blocks'] for device in found['report']['devices']), saved
    assert saved['segments'] == sum(device['segments'] for device in found['report']['devices']), saved
    for name in ('allocated', 'cached, releasable', 'cached, fragmented'):
        amounts = [re.search(rf'^  {name} +(\S+ \S+)', output, re.MULTILINE)[1] for output in (text, bars)]
        assert amounts[0] == amounts[1], (name, amounts)


def cards_are_told_apart(kit_):
    """Two instances of one card are two cards; each has the memory of its processes."""
    def cards(text):
        lines = text.split('\n\n')[1].splitlines()
        return [dict(zip(lines[0].split()[:-1], line.split())) for line in lines[1:]]
    plan = dict(ENVIRONMENT)
    with Running(kit_, 'whole') as running:
        text = kit_.ok('ls', '--dir', running.dir).decode()
        row = json.loads(kit_.ok('ls', '--dir', running.dir, '--ndjson', '-o', 'UUID,PCI,FREE,RESERVED,TOTAL'))
        assert cards(text) == [{'SMI': '-', 'PCI': row['pci'], 'TOTAL': '16.0G', 'FREE': '15.9G', 'RESERVED': '62.0M',
                                'PROCS': '1', 'UUID': row['uuid'][:12]}], text
        # What tells cards apart stays whole on a narrow terminal.
        narrow = shown(60, kit_.folder, kit_.tool, 'ls', '--dir', running.dir).split('\n\n')[1]
        assert re.search(rf'^{row["pci"]} .* {row["uuid"][:12]}', narrow, re.MULTILINE), narrow
        assert row['device_free_bytes'] == row['total_bytes'] - row['reserved_bytes'] and row['uuid'].startswith('GPU-')
        ENVIRONMENT['CUDASIM'] = 'mig:on'
        try:
            with Running(kit_, 'part') as part:
                device = json.loads(kit_.ok('show', '--dir', part.dir, '--json', str(part.pid)))['processes'][0]['devices'][0]
                assert device['mig'] and device['uuid'].startswith('MIG-') and ' MIG ' in device['model'], device
                assert device['pci'] == row['pci'] and device['smi_index'] is None, device
                assert cards(kit_.ok('ls', '--dir', part.dir).decode())[0]['UUID'] == device['uuid'][:12]
                assert f'{row["pci"]}  {device["uuid"]}' in kit_.ok('show', '--dir', part.dir, str(part.pid)).decode()
                assert json.loads(kit_.ok('ls', '--dir', part.dir, '--ndjson', '-o', 'UUID', '-d', device['uuid'][:20]))['uuid'] == \
                    device['uuid']
        finally:
            ENVIRONMENT.clear()
            ENVIRONMENT.update(plan)


def sizes_are_exact_with_b(kit_):
    with Running(kit_, 'exact') as running:
        where = ('--dir', running.dir)
        device = json.loads(kit_.ok('show', *where, '--json', str(running.pid)))['processes'][0]['devices'][0]
        for verb, *more in (('show',), ('report',), ('history', 'status'), ('trim',), ('reset',)):
            text = kit_.ok(verb, *more, '-b', *where, str(running.pid)).decode()
            assert not re.search(r'\d [KMGT]iB|\d\.\d[KMGT]\b', text), (verb, text)
            if verb in ('show', 'report'):
                assert re.search(rf'^  allocated +{device["allocated_bytes"]} B ', text, re.MULTILINE), text
    assert ' 0.00 ' not in kit_.ok('report', kit_.saved).decode()


if __name__ == '__main__':
    sys.exit(kit.with_kit([a_running_process_fits, a_stopped_process_fits, a_killed_process_fits, the_end_of_a_run_fits,
                           complaints_fit, help_fits, names_keep_their_beginning, columns_are_left_out_by_worth,
                           the_commands_agree, cards_are_told_apart, sizes_are_exact_with_b], PROGRAM))
