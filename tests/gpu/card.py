# SPDX-License-Identifier: MIT
"""What the measurements were made with: card, driver, toolkit, machine and tree."""

import glob
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the library is made from.
LIBRARY_FOLDERS = ('allocator', 'interpose', 'stats')

# In a process of its own, so that this one keeps nothing of the card.
ASK = r'''
import ctypes, json, sys
cuda = ctypes.CDLL('libcuda.so.1')
def number(name, *arguments):
    value = ctypes.c_int()
    result = getattr(cuda, name)(ctypes.byref(value), *arguments)
    if result:
        sys.exit(f'{name}: error {result}')
    return value.value
result = cuda.cuInit(0)
if result:
    sys.exit(f'cuInit: error {result}')
device = number('cuDeviceGet', 0)
name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
cuda.cuDeviceGetName(name, 256, device)
cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
print(json.dumps({
    'name': name.value.decode(), 'devices': number('cuDeviceGetCount'),
    'capability': [number('cuDeviceGetAttribute', 75, device),
                   number('cuDeviceGetAttribute', 76, device)],
    'multiprocessors': number('cuDeviceGetAttribute', 16, device),
    'memory_bytes': total.value, 'cuda': number('cuDriverGetVersion')}))
'''


def ask(environment=None):
    """The first device as the driver tells of it; None where there is none, and why."""
    run = subprocess.run([sys.executable, '-c', ASK], capture_output=True, text=True, check=False,
                         env=environment, timeout=60)
    if run.returncode:
        lines = run.stderr.strip().splitlines()
        return None, lines[-1] if lines else 'no driver'
    return json.loads(run.stdout), ''


def first_line(*command):
    """Of what a command prints, or None."""
    if not shutil.which(command[0]):
        return None
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    lines = run.stdout.strip().splitlines()
    return lines[0].strip() if run.returncode == 0 and lines else None


def driver_release():
    return first_line('nvidia-smi', '--query-gpu=driver_version', '--format=csv,noheader')


def find_driver(cuda):
    """What programs are linked with: the toolkit's stub, or the driver itself."""
    folders = [f'{cuda}/lib64/stubs', f'{cuda}/lib/stubs', f'{cuda}/targets/*/lib/stubs']
    folders += os.environ.get('LD_LIBRARY_PATH', '').split(':')
    folders += ['/usr/local/nvidia/lib64', '/usr/lib/*-linux-gnu', '/usr/lib64', '/usr/lib']
    for folder in filter(None, folders):
        for name in ('libcuda.so', 'libcuda.so.1'):
            found = sorted(glob.glob(f'{folder}/{name}'))
            if found:
                return found[0]
    return None


def toolkit(cuda):
    """The version of nvcc."""
    for nvcc in (f'{cuda}/bin/nvcc', shutil.which('nvcc')):
        if nvcc and os.path.exists(nvcc):
            run = subprocess.run([nvcc, '--version'], capture_output=True, text=True, check=False)
            lines = [line for line in run.stdout.splitlines() if 'release' in line]
            return lines[0].split('release', 1)[1].strip() if lines else None
    return None


def digest():
    """Of the sources of the library, for trees that came without their history."""
    found = hashlib.sha256()
    for folder in LIBRARY_FOLDERS:
        for path in sorted((ROOT / folder).rglob('*')):
            if path.is_file() and path.suffix in ('.c', '.h', '.S', '.def', '.map', '.build'):
                found.update(str(path.relative_to(ROOT)).encode() + b'\0' + path.read_bytes())
    return found.hexdigest()[:16]


def commit():
    """What git says, with a plus where the tree is not what was committed; or None."""
    if not (ROOT / '.git').exists() or not shutil.which('git'):
        return None
    git = ['git', '-C', str(ROOT)]
    head = first_line(*git, 'rev-parse', '--short=12', 'HEAD')
    changed = first_line(*git, 'status', '--porcelain', '--untracked-files=no')
    return head and head + ('+' if changed else '')


def processor():
    with open('/proc/cpuinfo', encoding='utf-8') as cpuinfo:
        models = [line.split(':', 1)[1].strip() for line in cpuinfo if line.startswith('model name')]
    return f'{models[0] if models else platform.machine()}, {os.cpu_count()} cores'


def describe(found, cuda, named_commit):
    """Pairs of a name and a text, for the report."""
    yield 'device', (f'{found["name"]}, {found["memory_bytes"] / 2**30:.0f} GiB, '
                     f'{found["multiprocessors"]} multiprocessors, capability '
                     + '.'.join(map(str, found['capability'])))
    yield 'driver', f'{driver_release() or "release unknown"}, CUDA {found["cuda"]}'
    yield 'toolkit', toolkit(cuda) or 'no nvcc'
    yield 'commit', named_commit or commit() or 'unknown'
    yield 'library sources', digest()
    yield 'machine', processor()
    yield 'system', f'Linux {platform.release()}, {" ".join(platform.libc_ver())}'
    yield 'Python', platform.python_version()
