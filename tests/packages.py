# SPDX-License-Identifier: MIT
"""Python packages for tests that run others' programs: in environments of their own, made once.

Several tests share an environment, and may run at the same time: the first makes it, the others
wait for it.
"""

import fcntl
import re
import subprocess
import sys

# For what pip must compile; a machine that takes longer goes without.
INSTALL_SECONDS = 600


class Unavailable(Exception):
    """Why the packages cannot be had here."""


def install(venv, requirements):
    """The Python of an environment that holds what a file of requirements names."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    with open(f'{venv}.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python, done = venv / 'bin/python', venv / 'requirements'
        wanted = requirements.read_text(encoding='utf-8')
        if not done.exists() or done.read_text(encoding='utf-8') != wanted:
            for step in ([sys.executable, '-m', 'venv', venv],
                         [python, '-m', 'pip', 'install', '--quiet', '--no-input', '-r',
                          requirements]):
                run_step([str(word) for word in step], requirements.name)
            done.write_text(wanted, encoding='utf-8')
    return python


def run_step(step, name):
    try:
        run = subprocess.run(step, capture_output=True, text=True, check=False,
                             timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f'{name}: not over after {INSTALL_SECONDS} s') from None
    if run.returncode:
        lines = (run.stdout + run.stderr).strip().splitlines() or [f'{step[0]} failed']
        raise Unavailable(f'{name}: ' + re.sub(r'\w+://\S+', '', lines[-1]))
