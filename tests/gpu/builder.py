# SPDX-License-Identifier: MIT
"""Builds the library and the suite's programs for the card of this machine."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import card
from runner import Result, TAIL_LINES, end_group

ROOT = card.ROOT


class Failed(Exception):
    """The text says what."""


def find_meson():
    """As a program, or as a package of Python."""
    if shutil.which('meson'):
        return ['meson']
    command = [sys.executable, '-m', 'mesonbuild.mesonmain']
    if subprocess.run([*command, '--version'], capture_output=True, check=False).returncode:
        raise Failed('meson is not here: pip install --target DIR meson, and PYTHONPATH=DIR')
    return command


def find_ninja():
    for name in ('ninja', 'ninja-build'):
        if shutil.which(name):
            return shutil.which(name)
    where = [sys.executable, '-c', 'import ninja; print(ninja.BIN_DIR)']
    package = subprocess.run(where, capture_output=True, text=True, check=False)
    if package.returncode:
        raise Failed('ninja is not here: pip install --target DIR ninja, and PYTHONPATH=DIR')
    return f'{package.stdout.strip()}/ninja'


def run(command, log, deadline):
    """Its output goes to the log; False where it fails or takes too long."""
    with open(log, 'ab') as file:
        file.write(f'$ {" ".join(map(str, command))}\n'.encode())
        file.flush()
        process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file,
                                   start_new_session=True)
        try:
            return process.wait(timeout=max(1, deadline - time.monotonic())) == 0
        except subprocess.TimeoutExpired:
            end_group(process)
            file.write(b'not over in time\n')
            return False


def complaint(log):
    """The first line that tells of an error, then how the log ends."""
    lines = pathlib.Path(log).read_text(encoding='utf-8', errors='replace').splitlines()
    errors = [line for line in lines if re.search(r'^FAILED|\berror:|ERROR:|not over in time', line)]
    return '\n'.join([*errors[:1], *lines[-TAIL_LINES:]])


def configure(build, cuda, found, log, deadline):
    driver = card.find_driver(cuda)
    if not driver:
        raise Failed('no libcuda to link with')
    if not card.toolkit(cuda):
        raise Failed(f'no nvcc in {cuda}')
    include = pathlib.Path(cuda).resolve() / 'include'
    if include.is_relative_to(ROOT):
        include = include.relative_to(ROOT)  # Meson refuses absolute paths into the source tree
    options = ['--buildtype=release', '-Dtests=false', '-Dgpu_tests=true', '-Dtool=auto',
               '-Dman_pages=disabled', f'-Dtoolkit_include={include}', f'-Dgpu_driver={driver}',
               '-Dgpu_arch=sm_' + ''.join(map(str, found['capability']))]
    if (build / 'build.ninja').exists():
        options.append('--reconfigure')
    os.environ['NINJA'] = find_ninja()
    if not run([*find_meson(), 'setup', *options, build, ROOT], log, deadline):
        raise Failed(f'configuring failed: {complaint(log)}')


def build_all(build, cuda, found, deadline):
    """The result of the part. What can't be built is missed by its program, and by no other."""
    began = time.monotonic()
    result = Result('build', 'build', 'failed')
    log = build.parent / f'{build.name}.log'
    log.unlink(missing_ok=True)
    try:
        configure(build, cuda, found, log, deadline)
        whole = run([find_ninja(), '-k', '0', '-C', build], log, deadline)
        if not (build / 'interpose/libcudamem.so').exists():
            raise Failed(f'the library was not built: {complaint(log)}')
        result.verdict = 'passed' if whole else 'failed'
        result.reason = '' if whole else f'not everything was built: {complaint(log)}'
    except Failed as failure:
        result.reason = str(failure)
    return result, time.monotonic() - began
