# SPDX-License-Identifier: MIT
"""NVIDIA's own driver libraries and runtimes, unpacked into a folder of the tree's cache.

The drivers are Debian's packages libcuda1 and libnvidia-ml1 of three releases. apt fetches them by
a private list and a private state folder, from the archive that this machine uses anyway, so
nothing of the machine's own configuration changes and nothing is installed. The runtimes are
NVIDIA's packages for Python's installer. The licence of each package stays beside its library.

Every function raises Unavailable with a reason where the archive is out of reach.
"""

import fcntl
import glob
import pathlib
import platform
import re
import subprocess
import sys

# Debian release -> the CUDA version that its driver is for; 12.5 is the first with
# cuCtxRecordEvent.
DRIVERS = {'bookworm': 12020, 'trixie': 12040, 'experimental': 12050}
PACKAGES = ('libcuda1', 'libnvidia-ml1')
# One runtime of each soname, and of CUDA 12 and 13 an early and a late one.
RUNTIMES = (
    'nvidia-cuda-runtime-cu11==11.8.89',
    'nvidia-cuda-runtime-cu12==12.1.105',
    'nvidia-cuda-runtime-cu12==12.4.127',
    'nvidia-cuda-runtime-cu12==12.9.79',
    'nvidia-cuda-runtime==13.0.96',
    'nvidia-cuda-runtime==13.3.29',
)
FETCH_SECONDS = 240


class Unavailable(Exception):
    """What was wanted cannot be had on this machine; the text says why."""


def run(command, folder=None):
    try:
        done = subprocess.run([str(word) for word in command], cwd=folder, check=False,
                              capture_output=True, text=True, timeout=FETCH_SECONDS)
    except FileNotFoundError as error:
        raise Unavailable(f'{command[0]} is not installed') from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f'{command[0]} was not done after {FETCH_SECONDS} s') from error
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ['no message']
        # A message of apt names the server; the reason is what stands behind it.
        raise Unavailable(f'{command[0]} failed: ' + re.sub(r'\w+://\S+\s*', '', lines[-1]))
    return done.stdout


def apt_options(folder):
    return ['-o', f'Dir::Etc::SourceList={folder}/sources.list', '-o', 'Dir::Etc::SourceParts=-',
            '-o', f'Dir::State={folder}/state', '-o', f'Dir::Cache={folder}/cache',
            '-o', 'APT::Sandbox::User=root']


def archive():
    """The address of the Debian archive that this machine is set up for."""
    listed = run(['apt-get', 'indextargets', '--format', '$(REPO_URI) $(CODENAME)',
                  'Created-By: Packages'])
    for line in listed.splitlines():
        address, _, codename = line.partition(' ')
        if codename in DRIVERS:
            return address
    raise Unavailable('apt is not set up for a release of Debian')


def fetch_drivers(folder):
    for name in ('state/lists/partial', 'cache/archives/partial'):
        (folder / name).mkdir(parents=True, exist_ok=True)
    keys = '/usr/share/keyrings/debian-archive-keyring.gpg'
    address = archive()
    (folder / 'sources.list').write_text(''.join(
        f'deb [signed-by={keys}] {address} {release} non-free\n' for release in DRIVERS),
        encoding='utf-8')
    run(['apt-get', *apt_options(folder), '-q', 'update'])
    for release in DRIVERS:
        unpacked = folder / release
        if (unpacked / 'done').exists():
            continue
        listed = run(['apt-cache', *apt_options(folder), 'madison', *PACKAGES])
        for package in PACKAGES:
            found = re.search(rf'^\s*{package} \| (\S+) \| \S+ {release}/', listed, re.MULTILINE)
            if not found:
                raise Unavailable(f'the archive has no {package} for {release}')
            unpacked.mkdir(exist_ok=True)
            run(['apt-get', *apt_options(folder), 'download', f'{package}={found[1]}'], unpacked)
            (file,) = unpacked.glob(f'{package}_*.deb')
            run(['dpkg-deb', '-x', file, unpacked])
            file.unlink()
        (unpacked / 'done').touch()


def drivers(cache):
    """{release: folder of libcuda.so.1 and libnvidia-ml.so.1}"""
    if platform.machine() != 'x86_64':
        raise Unavailable('the three drivers are taken for x86-64 alone')
    folder = cache / 'drivers'
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / 'lock').open('w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((folder / release / 'done').exists() for release in DRIVERS):
            fetch_drivers(folder)
    found = {}
    for release in DRIVERS:
        libraries = glob.glob(f'{folder}/{release}/usr/lib/**/libcuda.so.1', recursive=True)
        if not libraries:
            raise Unavailable(f'libcuda1 of {release} has no libcuda.so.1')
        found[release] = pathlib.Path(libraries[0]).parent
    return found


def runtimes(cache):
    """{version: path of libcudart}"""
    folder = cache / 'runtimes'
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    with (folder / 'lock').open('w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for package in RUNTIMES:
            version = package.partition('==')[2]
            to = folder / version
            if not to.exists():
                run([sys.executable, '-m', 'pip', 'install', '--quiet', '--no-input', '--no-deps',
                     '--target', f'{to}.part', package])
                pathlib.Path(f'{to}.part').rename(to)
            libraries = glob.glob(f'{to}/**/libcudart.so.*', recursive=True)
            if not libraries:
                raise Unavailable(f'{package} has no libcudart')
            found[version] = pathlib.Path(libraries[0])
    return found
