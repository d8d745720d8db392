# SPDX-License-Identifier: MIT
"""What a snapshot takes: in the tool, in the program that stands still for it, and to write it out.

The program plays on one core and then waits; the tool works on another, where there is one. What the
tool takes is processor time of its whole process. A turn has some snapshots and gives the least of
each figure, since another process that comes between costs more than what is measured.
"""

import contextlib
import dataclasses
import json
import os
import re
import resource
import subprocess

from measure import Failed, region_folder
from workloads import OURS

# More than are recorded by default, so that none of the events is lost.
RING = 131072
TIMEOUT = 60
TRIES = 3


def count_child_time():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_tool(programs, *words):
    """Milliseconds of processor time that the tool takes, and what it prints."""
    command = [os.path.join(programs.build, 'tools', 'cudamemstat'), *map(str, words)]
    before = count_child_time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env={**os.environ, 'DEBUGINFOD_URLS': ''},
                          preexec_fn=lambda: os.sched_setaffinity(0, programs.cores[-1:]))
    took = 1e3 * (count_child_time() - before)
    if done.returncode:
        raise Failed(f'{" ".join(command)}: status {done.returncode}: {done.stderr.strip()}')
    return took, done.stdout


@contextlib.contextmanager
def playing(programs, job, folder):
    """The program that snapshots are taken of, once it has done its work; its process number."""
    command = [os.path.join(programs.build, 'tests', 'snapshot', 'snapshot_program'), 'many',
               str(job.events), str(job.blocks)]
    env = {**os.environ, 'LD_PRELOAD': programs.library, 'CUDASIM': 'memory:500G,guard:off',
           'LD_LIBRARY_PATH': os.path.join(programs.build, 'tests', 'sim'),
           'CUDAMEM_CONF': f'region_dir:{folder},events:{RING},stacks:{job.stacks}'}
    with subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.sched_setaffinity(process.pid, programs.cores[:1])
        if process.stdout.readline() != 'ready\n':
            process.kill()
            raise Failed(f'{" ".join(command)}: {process.communicate()[1].strip()}')
        yield process.pid
        process.stdin.close()


@dataclasses.dataclass(frozen=True)
class Saving:
    """One turn: a program of so many events and blocks is looked at, and the copy written out."""
    row: str
    events: int
    blocks: int
    stacks: str = 'off'
    column: str = OURS
    once: bool = False

    def run(self, programs):
        with region_folder() as folder, playing(programs, self, folder) as pid:
            saved = os.path.join(folder, 'bench.cudamem')
            snapshots = [run_tool(programs, 'snapshot', '--dir', folder, pid, '--json', '-f', '-O',
                                  saved) for _ in range(TRIES)]
            pickles = [run_tool(programs, 'export', '--to', 'pickle', '-f', '-O',
                                os.path.join(folder, 'bench.pickle'), saved) for _ in range(TRIES)]
        found = {'snapshot_ms': min(ms for ms, _ in snapshots),
                 'pickle_ms': min(ms for ms, _ in pickles)}
        # 0: it did not answer in time, and was copied without its help.
        held = [ms for ms in (json.loads(said)['held_ms'] for _, said in snapshots) if ms]
        if held:
            found['held_ms'] = min(held)
        return found


ROWS = (
    Saving('snapshot', 100000, 10000),
    Saving('snapshot, stacks', 100000, 10000, 'alloc'),
    Saving('snapshot, many blocks', 100000, 100000),
)


def jobs(programs, skipped):
    """All of them, or none where the tool cannot save."""
    tool = os.path.join(programs.build, 'tools', 'cudamemstat')
    version = subprocess.run([tool, '--version'], capture_output=True, text=True, check=False).stdout
    lacks = re.search('^built without .*zstd', version, re.MULTILINE)
    if lacks:
        skipped.append({'name': 'snapshots', 'reason': f'the tool is {lacks[0]}'})
    return () if lacks else ROWS
