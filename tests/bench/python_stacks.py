# SPDX-License-Identifier: MIT
"""Jobs that measure what recording the stacks of a Python program costs (python_frames.py).

Instructions are counted as hit_path.py does it, of the library alone: those of a capture.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile

import hit_path
from measure import Failed
from workloads import OURS, Job

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, 'python_frames.py')
LAYOUTS = os.path.join(HERE, '..', '..', 'interpose', 'stacks', 'python_layouts.def')
ROW = 'python stacks'
COUNT_ROW = 'python stacks, instructions'
BENCH = 'libbench_python_frames.so'
CALL = 'cm_record_capture'
FEW, MANY = 100, 1100


def why_not():
    """Why the running Python's frames cannot be read; None: they can."""
    with open(LAYOUTS, encoding='utf-8') as file:
        known = re.findall(r'^CM_PYTHON_(?:LAYOUT|OFFSETS)\((\d+)', file.read(), re.MULTILINE)
    version = f'{sys.implementation.name} {sys.version.split()[0]}'
    if (sys.implementation.name != 'cpython' or str(sys.version_info.minor) not in known
            or 'free-threading' in sys.version):
        return f'the library does not know {version}'
    try:
        import ctypes  # pylint: disable=unused-import,import-outside-toplevel
    except ImportError:
        return f'{version} has no ctypes'
    return None


def count(programs, pairs):
    """What the library executes in the captures of so many pairs."""
    library = programs.path(hit_path.LIBRARY)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'callgrind')
        env = {key: value for key, value in os.environ.items() if not key.startswith('CUDAMEM')}
        env.update(LD_PRELOAD=library, CUDASIM=hit_path.PLAN, CUDAMEM_CONF=f'region_dir:{folder}')
        command = ['valgrind', '--quiet', '--tool=callgrind', '--dump-instr=yes',
                   f'--toggle-collect={CALL}', f'--callgrind-out-file={out}', sys.executable, '-I', '-S',
                   PROGRAM, programs.path(BENCH), '--pairs', str(pairs)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                              timeout=programs.limit)
        if done.returncode or not os.path.exists(out):
            raise Failed(f'{" ".join(command)}: status {done.returncode}: {done.stderr.strip()}')
        with open(out, encoding='utf-8') as file:
            executed = hit_path.Counts(file.read()).executed
    return sum(n for (path, _), n in executed.items() if path == library)


def count_capture(programs):
    """Instructions of a capture of 20 Python frames that were seen before."""
    return round((count(programs, MANY) - count(programs, FEW)) / (MANY - FEW))


@dataclasses.dataclass(frozen=True)
class Count:
    """The instructions as a job of `run`."""
    row: str = COUNT_ROW
    column: str = OURS
    once: bool = True

    def run(self, programs):
        return {'instructions': count_capture(programs)}


def jobs(programs, preloads, share, skipped):
    reason = why_not()
    if reason:
        skipped.append({'name': ROW, 'reason': reason})
        return
    yield Job(ROW, OURS, sys.executable, (PROGRAM, programs.path(BENCH), max(5, share // 10)),
              preloads[OURS])
    if hit_path.is_possible():
        yield Count()
    else:
        skipped.append({'name': COUNT_ROW, 'reason': 'no valgrind, or no binutils'})
