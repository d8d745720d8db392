#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The made-up machine: other commands work on it as on a real one. test_demo.py TOOL"""

import base64
import gzip
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'snapshot'))
from kit import run_cases  # noqa: E402 pylint: disable=wrong-import-position

PATIENCE = 30


class Kit:
    def __init__(self, tool, folder):
        self.tool, self.folder = tool, folder
        self.demo = None

    def start(self):
        self.demo = subprocess.Popen([self.tool, 'demo', '--dir', self.folder],
                                     stdout=subprocess.PIPE, text=True)
        assert 'A made-up machine runs: 6 processes' in self.demo.stdout.readline()

    def run(self, *words, code=0):
        result = subprocess.run([self.tool, *words, '--dir', self.folder], check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert result.returncode == code, (words, result)
        return result.stdout

    def processes(self):
        return json.loads(self.run('ls', '--json'))['processes']

    def until(self, done):
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, self.run('ls')
            time.sleep(0.1)

    def stop(self, number=signal.SIGINT):
        self.demo.send_signal(number)
        assert self.demo.wait(PATIENCE) == 0
        self.demo.stdout.close()
        assert not list(self.folder.iterdir()), list(self.folder.iterdir())


def it_is_listed_like_a_real_one(kit):
    kit.start()
    processes = kit.processes()
    assert len(processes) == 6, processes
    assert len({process['pid'] for process in processes}) == 6
    text = kit.run('top', '-b', '-n', '2', '-d', '0.3', '--size', '120x30')
    assert text.count('./solver') == 2 and text.count('GPU 1 Made-up card') == 2, text
    kit.until(lambda: any(process['state'] == 'crashed' for process in kit.processes()))
    kit.stop()


def it_answers_and_can_be_saved(kit):
    kit.start()
    kit.until(lambda: 'GPU 0: reserved' in kit.run('trim', 'ipykernel'))
    assert 'peaks set' in kit.run('reset', 'train.py')
    assert 'events off' in kit.run('history', 'stop', 'render')
    assert 'stacks of allocations and frees' in kit.run('history', 'start', 'render')
    assert '# allocated' in kit.run('show', '--map', 'solver')
    version = subprocess.run([kit.tool, '--version'], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    if not re.search('built without.*(zstd|zlib)', version):
        with tempfile.TemporaryDirectory() as folder:
            kit.run('snapshot', 'train.py', '-O', f'{folder}/train.cudamem')
            kit.run('plot', 'timeline', 'train.py', '-O', f'{folder}/train.html')
            report = kit.run('report', f'{folder}/train.cudamem')
        assert re.search(r'Adam\.step optim\.py:140\s+< make_optimizer', report), report
    kit.stop(signal.SIGTERM)


def data_of(page):
    """The data of a page."""
    found = re.search(r'data-packing="(\w+)">([^<]+)<', page.read_text(encoding='utf-8'))
    data = base64.b64decode(found[2])
    if found[1] == 'gzip':
        data = gzip.decompress(data)
    return json.loads(data[4:4 + struct.unpack('<I', data[:4])[0]])


def it_is_recorded_and_drawn(kit):
    kit.start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = kit.run('stat', '0.1', '1').splitlines()
        assert len(lines) > 6 and max(map(len, lines)) <= 80, lines
        kit.run('stat', '--record', folder / 'day.rec', '0.1', '5')
        rows = [json.loads(line) for line in subprocess.run(
            [kit.tool, 'ls', '--from', folder / 'day.rec', '--ndjson'], check=True,
            stdout=subprocess.PIPE, text=True).stdout.splitlines()]
        said = subprocess.run([kit.tool, 'plot', 'day.rec'], check=True, cwd=folder,
                              stdout=subprocess.PIPE, text=True).stdout
        assert re.fullmatch(r'day\.html: .*, opens offline; 5 samples, 6 curves, 2 cards\n', said), said
        data = data_of(folder / 'day.html')
        refused = subprocess.run([kit.tool, 'report', folder / 'day.rec'], check=False,
                                 stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 3 and 'a recording; ls, stat and top' in refused.stderr
        refused = subprocess.run([kit.tool, 'plot', 'timeline', folder / 'day.rec'], check=False,
                                 stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 2 and 'drawn alone, as one page' in refused.stderr
    assert len(data['time']) == data['samples'] == 5, data
    for card in data['cards']:
        last = {process['pid']: process['allocated'][-1] for process in card['processes']}
        assert card['allocated'][-1] == sum(last.values()), card
        for row in rows:
            assert last.get(row['pid'], row['allocated_bytes']) == row['allocated_bytes'], row
    assert sum(len(card['processes']) for card in data['cards']) == len(rows) == 6
    kit.stop()


def a_process_can_be_ended(kit):
    kit.start()
    for process in kit.processes():
        if process['state'] == 'running':
            os.kill(process['pid'], signal.SIGTERM)
    assert kit.demo.wait(PATIENCE) == 0  # nothing is left to wait for
    kit.demo.stdout.close()


def its_end_ends_all(kit):
    kit.start()
    pids = [process['pid'] for process in kit.processes() if process['state'] == 'running']
    kit.demo.kill()
    kit.demo.wait()
    kit.demo.stdout.close()
    kit.until(lambda: not any(pathlib.Path(f'/proc/{pid}').exists() for pid in pids))


def a_folder_that_is_missing_is_told(kit):
    result = subprocess.run([kit.tool, 'demo', '--dir', '/no/such/folder'], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 3 and '/no/such/folder' in result.stderr, result


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()

    def in_kit(case):
        def run():
            with tempfile.TemporaryDirectory() as folder:
                kit = Kit(tool, pathlib.Path(folder))
                try:
                    case(kit)
                finally:
                    if kit.demo and kit.demo.poll() is None:
                        kit.demo.kill()
                        kit.demo.wait()
        run.__name__ = case.__name__
        return run
    return run_cases([in_kit(case) for case in (
        it_is_listed_like_a_real_one, it_answers_and_can_be_saved, it_is_recorded_and_drawn, a_process_can_be_ended,
        its_end_ends_all, a_folder_that_is_missing_is_told)])


if __name__ == '__main__':
    sys.exit(main())
