# SPDX-License-Identifier: MIT
"""What the tests of this folder share: running the tool, made regions, and TAP."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

MIB = 1 << 20
GIB = 1 << 30


class Skip(Exception):
    """The reason why a case cannot run here."""


class Kit:
    """The programs under test and a folder of their own."""

    def __init__(self, tool, maker, folder):
        self.tool = os.path.abspath(tool)
        self.maker = os.path.abspath(maker)
        self.folder = pathlib.Path(folder)
        self.region = self.make()
        self.saved = self.folder / 'made.cudamem'
        self.ok('snapshot', '--region', self.region, '-O', self.saved)

    def make(self, *arguments):
        folder = tempfile.mkdtemp(dir=self.folder)
        run = subprocess.run([self.maker, folder, *map(str, arguments)], text=True,
                             stdout=subprocess.PIPE, check=True)
        return pathlib.Path(run.stdout.strip())

    def run(self, *words, environment=None, **more):
        return subprocess.run([self.tool, *map(str, words)], capture_output=True, check=False,
                              timeout=300, cwd=self.folder,
                              env={**os.environ, 'DEBUGINFOD_URLS': '', **(environment or {})},
                              **more)

    def ok(self, *words):
        run = self.run(*words)
        assert run.returncode == 0, (words, run.returncode, run.stderr.decode())
        return run.stdout

    def export(self, form, source=None):
        return self.ok('export', '--to', form, source or self.saved)


def run_cases(cases, *arguments):
    """Prints TAP; the exit status of the program."""
    print(f'1..{len(cases)}')
    failed = 0
    for number, case in enumerate(cases, 1):
        name = case.__name__
        try:
            case(*arguments)
            print(f'ok {number} - {name}', flush=True)
        except Skip as reason:
            print(f'ok {number} - {name} # SKIP {reason}', flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            import traceback
            for line in traceback.format_exception(error)[-8:]:
                print('#', line.rstrip().replace('\n', '\n# '))
            print(f'not ok {number} - {name}', flush=True)
    return 1 if failed else 0


def remove_regions(tool, program):
    """Those that stay after the ends of a program, since it crashed or ran out of memory."""
    run = subprocess.run([tool, 'ls', '--json', '-p', program], capture_output=True, text=True, check=False)
    for process in json.loads(run.stdout)['processes'] if run.returncode == 0 else []:
        if process['state'] in ('exited', 'crashed'):
            pathlib.Path(process['region']).unlink(missing_ok=True)


def with_kit(cases, program=None):
    """Entry of a test program: TOOL MAKER ... What is left of `program` is removed."""
    import sys
    version = subprocess.run([sys.argv[1], '--version'], capture_output=True, text=True, check=True)
    lacks = re.search('^built without (?!ncursesw$).*', version.stdout, re.MULTILINE)
    if lacks:
        print(f'1..0 # SKIP {lacks[0]}')
        return 0
    with tempfile.TemporaryDirectory(prefix='cudamem-snapshot-') as folder:
        try:
            return run_cases(cases, Kit(sys.argv[1], sys.argv[2], folder))
        finally:
            if program:
                remove_regions(sys.argv[1], program)


def decode(proto, message, data):
    """A protocol buffer as dictionaries, by protoc and a description of its fields."""
    here = pathlib.Path(__file__).resolve().parent
    try:
        run = subprocess.run(['protoc', f'--decode={message}', f'-I{here}', str(here / proto)],
                             input=data, capture_output=True, check=False)
    except FileNotFoundError:
        raise Skip('protoc is not installed (protobuf-compiler)') from None
    assert run.returncode == 0, run.stderr.decode()
    return parse_text(run.stdout.decode())


def parse_text(text):
    """protoc's text form; every field is a list, an unknown one (a bare number) an error."""
    top = {}
    stack = [top]
    for line in text.splitlines():
        line = line.strip()
        if line == '}':
            stack.pop()
        elif line.endswith(' {'):
            name = line[:-2]
            assert not name.isdigit(), f'unknown field {name}'
            stack[-1].setdefault(name, []).append({})
            stack.append(stack[-1][name][-1])
        elif line:
            name, _, value = line.partition(': ')
            assert not name.isdigit(), f'unknown field {line}'
            if value.startswith('"'):
                value = re.sub(r'\\(.)', r'\1', value[1:-1])
            else:
                value = float(value) if '.' in value or 'e' in value else int(value)
            stack[-1].setdefault(name, []).append(value)
    return top
