#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A job in a real Slurm of one node, with our prolog and epilog: test_slurm.py TOOL LIBRARY PROGRAM SIM"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import stage
from kit import Skip, run_cases

TOOL, LIBRARY, PROGRAM, SIM = (os.path.realpath(word) for word in sys.argv[1:5])
SLURM = stage.ROOT / 'deploy' / 'slurm'
HERE = pathlib.Path(__file__).resolve().parent
# Two tasks: one that ends well, one that is killed with its memory allocated; and a step without.
JOB = '''#!/bin/sh
echo $SLURM_JOB_ID >/opt/cm/job.id
export LD_LIBRARY_PATH=/opt/cm/sim
srun -n1 sh -c 'grep -c libcudamem /proc/self/maps' </dev/null
export CUDAMEM=1
srun -n1 /opt/cm/program </dev/null
srun -n1 sh /opt/cm/crash.sh </dev/null
exit 0
'''
CRASH = '''#!/bin/sh
mkfifo /tmp/input
/opt/cm/program </tmp/input >/tmp/said &
exec 9>/tmp/input
until grep -q allocated /tmp/said; do sleep 0.1; done
cat /tmp/said
kill -KILL $!
wait
'''
HELPER = '''#!/bin/sh
export CUDAMEMSTAT=/opt/cm/cudamemstat CUDAMEMSTAT_SUMMARIES=/var/spool/cudamem
exec /opt/cm/epilog.sh
'''


def run_job(folder):
    if os.getuid() or not shutil.which('unshare'):
        raise Skip('only root can mount an overlay')
    files = folder / 'files'
    files.mkdir()
    (folder / 'root').mkdir()
    for path in (TOOL, *SLURM.glob('*')):
        shutil.copy(path, files)
    shutil.copy(PROGRAM, files / 'program')
    shutil.copy(LIBRARY, files / 'libcudamem.so')
    shutil.copytree(SIM, files / 'sim', ignore=shutil.ignore_patterns('*.p', '*.a'))
    shutil.copy(HERE / 'slurm_inside.sh', files / 'inside.sh')
    prolog = files / 'task_prolog.sh'
    prolog.write_text(prolog.read_text(encoding='utf-8').replace(
        '/usr/lib/cudamem/libcudamem.so', '/opt/cm/libcudamem.so'), encoding='utf-8')
    for name, text in (('job.sh', JOB), ('epilog_here.sh', HELPER), ('crash.sh', CRASH)):
        (files / name).write_text(text, encoding='utf-8')
        (files / name).chmod(0o755)
    run = subprocess.run(['unshare', '-m', 'sh', HERE / 'slurm_node.sh', folder], text=True,
                         capture_output=True, check=False, timeout=240)
    if 'allocated' not in run.stdout:
        raise Skip('Slurm cannot start here: ' + ' '.join((run.stdout + run.stderr).split())[-300:])
    return run.stdout


def a_job_is_summed_up_and_its_crash_is_kept(folder):
    said = run_job(folder)
    # Without CUDAMEM=1 nothing is loaded.
    assert said.startswith('0\n') and said.count('allocated\n') == 2, said
    assert re.search(r'^\d+\.\S+\.json$', said, re.MULTILINE), said
    assert re.search(r'^\d+\.\S+\.\d+\.cudamem$', said, re.MULTILINE), said
    for state in ('exited', 'crashed'):
        assert re.search(rf'^\S+ +\d+ program +0 +0\.06 .* {state}$', said, re.MULTILINE), said
    assert 'crashed with 0.06 GiB allocated' in said, said


def notes_count_as_people_do(folder):
    devices = [{'gpu': gpu, 'ooms_total': gpu, 'allocated_bytes': 0, 'peak_allocated_bytes': 1 << 30,
                'peak_reserved_bytes': 1 << 30, 'total_bytes': 4 << 30} for gpu in range(3)]
    process = {'pid': 7, 'comm': 'solver', 'state': 'exited', 'devices': devices}
    (folder / '5.node.json').write_text(json.dumps({'processes': [process]}), encoding='utf-8')
    said = subprocess.run([SLURM / 'cudamem-jobsummary', '5', folder], capture_output=True, text=True,
                          check=True).stdout
    assert said.partition('Notes:\n')[2].splitlines() == [
        '* node: solver (7) on GPU 1 ran out of memory once.',
        '* node: solver (7) on GPU 2 ran out of memory 2 times.'], said


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='cudamem-slurm-') as root:
        sys.exit(run_cases([a_job_is_summed_up_and_its_crash_is_kept, notes_count_as_people_do],
                           pathlib.Path(root)))
