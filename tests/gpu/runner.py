# SPDX-License-Identifier: MIT
"""Runs the programs: each in a process group of its own, which ends when its time is over."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
# What is kept of a program's talk.
TAIL_LINES = 20
# What a program writes of the cache at its end.
FIGURES = 'figures'
# In memory, as regions are by default: a disk would be measured, too.
SHARED = pathlib.Path('/dev/shm')


@dataclasses.dataclass
class Ended:
    """How one process ended, and what it left."""

    run: str
    command: str
    status: int = None  # None: its time was over
    seconds: float = 0.0
    facts: list = dataclasses.field(default_factory=list)
    results: str = ''  # its stdout without the facts
    talk: str = ''  # the end of its stderr
    figures: dict = dataclasses.field(default_factory=dict)  # the library's, or PyTorch's
    seen: str = ''  # what cudamemstat saw of one that hung

    def why(self):
        """Empty where it ended well."""
        if self.status is None:
            return f'not over after {self.seconds:.0f} s'
        if self.status < 0:
            return f'ended by {signal.Signals(-self.status).name}'
        return f'status {self.status}' if self.status else ''

    def last_words(self):
        lines = (self.results + '\n' + self.talk).strip().splitlines()
        return lines[-1].strip() if lines else 'no reason given'


@dataclasses.dataclass
class Result:
    part: str
    name: str
    verdict: str  # passed, failed, skipped
    reason: str = ''
    runs: list = dataclasses.field(default_factory=list)

    @property
    def seconds(self):
        return sum(run.seconds for run in self.runs)


class Stage:
    """Where programs run: this machine's card, or the simulated device."""

    def __init__(self, build, cuda, nvcc=True, simulation=None):
        self.build = pathlib.Path(build).resolve()
        self.programs = self.build / 'tests/gpu'
        self.library = self.build / 'interpose/libcudamem.so'
        self.tool = self.build / 'tools/cudamemstat'
        self.cuda = cuda
        self.nvcc = nvcc
        self.simulation = simulation
        # Without a card nobody waits for it to be given back, and the processor does its work.
        self.patience = 4 if simulation else 1
        self.here = pathlib.Path(__file__).resolve().parent

    def environment(self, program, run, folder):
        """That of this process, without what would change what is measured. What the library
        leaves of the process goes with the folder."""
        wanted = {name: value for name, value in os.environ.items()
                  if name != 'LD_PRELOAD' and not name.startswith(('CUDAMEM', 'CUDASIM'))}
        folders = [str(self.simulation)] if self.simulation else []
        folders += [wanted['LD_LIBRARY_PATH']] if wanted.get('LD_LIBRARY_PATH') else []
        # Not for Python's packages, which bring libraries of their own.
        folders += [] if program.is_script else [f'{self.cuda}/lib64', f'{self.cuda}/lib']
        if folders:
            wanted['LD_LIBRARY_PATH'] = ':'.join(folders)
        wanted['GPU_SUITE_STATS'] = str(folder / FIGURES)
        wanted['GPU_SUITE_BUILD'] = str(self.build)
        wanted['PYTHONDONTWRITEBYTECODE'] = '1'
        if self.simulation and program.plan:
            wanted['CUDASIM'] = program.plan
        if run.preloaded:
            wanted['LD_PRELOAD'] = str(self.library)
        wanted.update(run.environment)
        if run.preloaded:
            options = [f'region_dir:{folder}', wanted.get('CUDAMEM_CONF')]
            wanted['CUDAMEM_CONF'] = ','.join(filter(None, options))
        return wanted

    def command(self, program, run):
        if program.is_script:
            start = [sys.executable, str(self.here / program.file)]
        else:
            start = [str(self.programs / program.path)]
        return [*start, *program.arguments, *run.arguments]

    def has(self, program):
        return program.is_script or (self.programs / program.path).exists()


def read_figures(path):
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return {}


def split_output(text):
    """Facts, and the lines that are none."""
    facts, results = [], []
    for line in text.splitlines():
        try:
            fact = json.loads(line) if line.startswith('{"fact"') else None
        except ValueError:
            fact = None
        if fact is None:
            results.append(line)
        else:
            facts.append(fact)
    return facts, '\n'.join(results)


def look_at(stage, process, folder):
    """What the tool shows of a process that does not end."""
    if not stage.tool.exists():
        return ''
    try:
        return subprocess.run([str(stage.tool), 'show', '--dir', str(folder),
                               str(process.pid)], capture_output=True,
                              text=True, timeout=10, check=False).stdout
    except subprocess.TimeoutExpired:
        return 'cudamemstat does not answer either'


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass  # in the kernel, for as long as the driver likes


def run_once(stage, program, run, seconds):
    """One process. Its output goes to files: pipes would be held open by what it leaves behind."""
    command = stage.command(program, run)
    ended = Ended(run.name, ' '.join(command))
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as place:
        folder = pathlib.Path(place)
        out, talk = folder / 'out', folder / 'talk'
        began = time.monotonic()
        with out.open('wb') as out_file, talk.open('wb') as talk_file:
            process = subprocess.Popen(
                command, env=stage.environment(program, run, folder), stdin=subprocess.DEVNULL,
                stdout=out_file, stderr=talk_file, start_new_session=True)
            try:
                ended.status = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                ended.seen = look_at(stage, process, folder) if run.preloaded else ''
            end_group(process)
        ended.seconds = time.monotonic() - began
        ended.facts, ended.results = split_output(out.read_text(encoding='utf-8', errors='replace'))
        lines = talk.read_text(encoding='utf-8', errors='replace').splitlines()
        ended.talk = '\n'.join(lines[-TAIL_LINES:])
        ended.figures = read_figures(folder / FIGURES)
    return ended


def first_difference(one, other):
    """Where two outputs part, in words."""
    lines, others = one.splitlines(), other.splitlines()
    for number, (line, wanted) in enumerate(zip(lines, others), 1):
        if line != wanted:
            return f'line {number}: {wanted!r}, but {line!r}'
    return f'{len(others)} lines, but {len(lines)}'


def requests(figures):
    """Requests that the library saw, and those that its cache served, of both kinds of memory."""
    device, host = figures.get('device', {}), figures.get('host', {})
    seen = device.get('allocation.all.allocated', 0) + host.get('active_requests.allocated', 0)
    return seen, device.get('cache_hits', 0) + host.get('cache_hits', 0)


def judge(program, runs):
    """Verdict and reason."""
    reference = runs[0]
    if reference.status == SKIPPED:
        return 'skipped', reference.last_words()
    for ended in runs:
        if ended.why():
            return 'failed', f'{ended.run}: {ended.why()}: {ended.last_words()}'
    for ended in runs[1:] if program.same else ():
        if ended.results != reference.results:
            return 'failed', (f'{ended.run} differs from {reference.run}: '
                              + first_difference(ended.results, reference.results))
    preloaded = {run.name for run in program.runs if run.preloaded}
    for ended in runs if program.served else ():
        if ended.run in preloaded and not requests(ended.figures)[1]:
            return 'failed', f'{ended.run}: the cache served nothing'
    return 'passed', ''


def run_program(stage, program, deadline):
    """Runs it in all its ways; where one ends badly the next is not tried."""
    if stage.simulation and program.rehearsal:
        program = program.rehearsed()
    result = Result(program.part, program.name, 'skipped')
    if stage.simulation and program.card_only:
        result.reason = program.card_only
    elif program.nvcc and not stage.nvcc:
        result.reason = 'nvcc is not installed'
    elif not stage.has(program):
        result.verdict, result.reason = 'failed', f'{program.path} was not built'
    else:
        run_all(stage, program, deadline, result)
    return result


def run_all(stage, program, deadline, result):
    seconds = stage.patience * program.seconds
    for run in program.runs:
        left = deadline - time.monotonic()
        ended = run_once(stage, program, run, min(seconds, left)) if left > 1 else None
        if not ended or ended.status is None and left < seconds:
            result.verdict, result.reason = 'skipped', 'the time of its part is used up'
            return
        result.runs.append(ended)
        result.verdict, result.reason = judge(program, result.runs)
        if result.verdict != 'passed':
            return
