# SPDX-License-Identifier: MIT
"""What the tests of this folder share: processes with made-up figures, the exporter, and what
./dev has fetched into .cache."""

import contextlib
import http.client
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / '.cache'
OPENMETRICS = 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5'

sys.path.insert(0, str(ROOT / 'tests' / 'snapshot'))
from kit import Skip, run_cases  # noqa: E402 pylint: disable=wrong-import-position,unused-import


def unpacked(program):
    """A program of a Debian package that ./dev has unpacked, or that is installed."""
    for path in CACHE.glob(f'debs/*/usr/*bin/{program}'):
        return path
    for folder in (*os.environ['PATH'].split(':'), '/usr/sbin'):
        if os.access(f'{folder}/{program}', os.X_OK):
            return pathlib.Path(folder) / program
    raise Skip(f'{program} is not there; ./dev test unpacks it where it can')


def venv_python(module):
    """The Python of the tree's own environment, if it has a module."""
    python = CACHE / 'venv' / 'bin' / 'python'
    if not python.exists() or subprocess.run([python, '-c', f'import {module}'], check=False,
                                             stderr=subprocess.DEVNULL).returncode:
        raise Skip(f'the Python package {module} is not in .cache/venv; ./dev test fetches it')
    return python


class Puppet:
    """A process with a region whose figures are set by name."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline())
        self.region, = folder.glob(f'cudamem.*.{self.pid}.*')

    def set(self, **figures):
        for name, value in figures.items():
            self.process.stdin.write(f'{name} {value}\n')
            self.process.stdin.flush()
            assert self.process.stdout.readline() == 'done\n'

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def crash(self):
        self.process.kill()
        self.end()


class Page:
    """A page as {name: {labels as sorted pairs: value}}, read without any library."""

    def __init__(self, text):
        self.text = text
        self.family = {}
        for line in text.splitlines():
            if line.startswith('#'):
                continue
            match = re.fullmatch(r'(\w+)(?:\{(.*)\})? (\S+)', line)
            assert match, line
            labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or '')))
            family = self.family.setdefault(match[1], {})
            assert labels not in family, f'twice: {line}'
            family[labels] = float(match[3])

    def get(self, name, **labels):
        """The one value of a metric with these labels among its own."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        found = [value for key, value in self.family.get('cudamem_' + name, {}).items()
                 if wanted <= set(key)]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def labels(self, name, label):
        return {dict(key).get(label) for key in self.family.get('cudamem_' + name, {})}


class Exporter:
    """A `cudamemstat exporter` that listens on a free port, or where it is told to."""

    def __init__(self, tool, folder, *words, listen='127.0.0.1:0'):
        # Meson has the C library fill what is allocated, so that a page asked for and never
        # written counts as used. Its memory is measured as it is without that.
        self.process = subprocess.Popen(
            [tool, 'exporter', '--dir', folder, '--listen', listen, *words],
            stderr=subprocess.PIPE, text=True, env={**os.environ, 'MALLOC_PERTURB_': '0'})
        said = self.process.stderr.readline()
        match = re.search(r'listening on (\S+)', said)
        assert match, said
        self.address = match[1]

    @property
    def port(self):
        return int(self.address.rpartition(':')[2])

    def ask(self, path='/metrics', method='GET', **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer, answer.read().decode()
        finally:
            connection.close()

    def page(self, **headers):
        answer, text = self.ask(**headers)
        assert answer.status == 200, (answer.status, text)
        return Page(text)

    def raw(self, request, wait=10):
        """What comes back for these bytes until the connection is closed."""
        with socket.create_connection(('127.0.0.1', self.port), timeout=wait) as client:
            client.sendall(request)
            got = b''
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(65536):
                    got += part
            return got

    def memory_bytes(self):
        status = pathlib.Path(f'/proc/{self.process.pid}/status').read_text(encoding='ascii')
        return int(re.search(r'VmHWM:\s+(\d+) kB', status)[1]) * 1024

    def processor_seconds(self):
        """Of this process, whatever else the machine does."""
        stat = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text(encoding='utf-8')
        fields = stat.rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self.process.stderr.close()
        return status


class Kit:
    """The programs under test, and a folder of regions for each case."""

    def __init__(self, tool, puppet, root):
        self.tool = os.path.abspath(tool)
        self.puppet_program = os.path.abspath(puppet)
        self.root = pathlib.Path(root)
        self.stack = None
        self.folder = None

    def begin(self, stack):
        self.stack = stack
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.root))

    def puppet(self, **figures):
        puppet = Puppet(self.puppet_program, self.folder)
        self.stack.callback(puppet.end)
        puppet.set(**figures)
        return puppet

    def crowd(self, count, devices):
        """So many processes at once, and their pids."""
        process = subprocess.Popen([self.puppet_program, self.folder, str(count), str(devices)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.stack.callback(process.stdout.close)
        self.stack.callback(process.wait)
        self.stack.callback(process.stdin.close)
        return [int(process.stdout.readline()) for _ in range(count)]

    def exporter(self, *words, **more):
        exporter = Exporter(self.tool, self.folder, *words, **more)
        self.stack.callback(exporter.end)
        return exporter

    def run(self, *words, **more):
        return subprocess.run([self.tool, 'exporter', *map(str, words)], capture_output=True,
                              text=True, timeout=60, check=False, **more)

    def once(self, *words):
        run = self.run('--dir', self.folder, '--once', *words)
        assert run.returncode == 0, run
        return Page(run.stdout)


def with_folder(case):
    """A case that has the kit's processes to itself."""
    def run(kit):
        with contextlib.ExitStack() as stack:
            kit.begin(stack)
            case(kit)
    run.__name__ = case.__name__
    return run


def main(cases):
    """Entry of a test program: TOOL PUPPET."""
    # Memory, as /dev/shm is: a region's file is larger than it has blocks.
    base = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix='exporter-test-', dir=base) as root:
        kit = Kit(sys.argv[1], sys.argv[2], root)
        return run_cases([with_folder(case) for case in cases], kit)


def wait_for(what, seconds, *, every=0.1):
    """Asks until the answer is true, or the time is over; the last answer."""
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        select.select([], [], [], every)
    return answer
