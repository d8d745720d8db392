#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where names come from: demangled, inlined, from separate debug files, from a debuginfod.

  test_symbols.py TOOL MAKER PROGRAM LIBRARY SIMULATION NAMES [NAMES_CPP]
"""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import kit
from kit import Skip
from test_save import PROGRAM, Running

NAMES = os.path.abspath(sys.argv[6])
NAMES_CPP = os.path.abspath(sys.argv[7]) if len(sys.argv) > 7 else None


def leave_region(kit_, program, *words):
    """Of a program that kills itself."""
    running = Running(kit_, *words, conf='stacks:all', program=program)
    with running.process as process:
        process.stdin.close()
        assert process.wait(timeout=300) == -signal.SIGKILL, process.returncode
    found = list(running.regions.glob(f'cudamem.*.{running.pid}.*'))
    assert len(found) == 1, found
    return found[0]


def read_stacks(kit_, region, *words, **environment):
    """Of the requests: lists of function, file and line, innermost first; and what was said."""
    run = kit_.run('export', '--to', 'json', *words, '--region', region, environment=environment)
    assert run.returncode == 0, run
    stacks = [[(frame['name'], os.path.basename(frame['filename']), frame['line'])
               for frame in event['frames']]
              for event in json.loads(run.stdout)['device_traces'][0] if event['action'] == 'alloc']
    return stacks, run.stderr.decode()


def read_names(kit_, region, *words, **environment):
    stacks, said = read_stacks(kit_, region, *words, **environment)
    return {name for stack in stacks for name, _, _ in stack}, said


def objcopy(*words):
    if not shutil.which('objcopy'):
        raise Skip('no objcopy (binutils)')
    subprocess.run(['objcopy', *map(str, words)], check=True)


class Stripped:
    """A copy of the program without names, the file that has them, and the region it left."""

    def __init__(self, kit_, name, link):
        self.folder = kit_.folder / name
        self.folder.mkdir()
        self.program = self.folder / 'program'
        self.debug = self.folder / 'names' / 'program.debug'
        self.debug.parent.mkdir()
        shutil.copy(PROGRAM, self.program)
        objcopy('--only-keep-debug', self.program, self.debug)
        objcopy('--strip-all', self.program)
        if link:
            objcopy(f'--add-gnu-debuglink={self.debug}', self.program)
        self.region = leave_region(kit_, self.program, 'crash')

    def build_id(self):
        """The number stands behind a head of 16 bytes."""
        note = self.folder / 'note'
        objcopy('--dump-section', f'.note.gnu.build-id={note}', PROGRAM, os.devnull)
        return note.read_bytes()[16:].hex()


def symbols_of_cpp_and_rust_are_as_the_source_has_them(kit_):
    names, _ = read_names(kit_, leave_region(kit_, NAMES))
    assert 'solver::Grid<float>::refine(unsigned long)' in names, names
    assert 'solver::mesh::split' in names, names
    assert '_ZN6solver' in names, names


def debug_information_of_cpp_names_templates_and_what_was_inlined(kit_):
    if not NAMES_CPP:
        raise Skip('no compiler for C++')
    stacks, _ = read_stacks(kit_, leave_region(kit_, NAMES_CPP))
    first, second = ([frame for frame in stack if frame[1] == 'names.cpp'] for stack in stacks)
    assert [name for name, _, _ in first] == [
        'solver::Grid<double>::reserve(unsigned long)',
        'solver::Grid<double>::Grid(unsigned long)', 'main'], first
    assert [name for name, _, _ in second] == [
        'solver::Grid<float>::reserve(unsigned long)', 'solver::Grid<float>::Grid(unsigned long)',
        '(anonymous namespace)::refine(solver::Grid<double> const&, unsigned long)',
        'main'], second
    # The inlined one is where memory is asked for, the next one where it is called.
    source = open(os.path.join(os.path.dirname(__file__), 'names.cpp'), encoding='utf-8').readlines()
    assert 'cudaMalloc(' in source[first[0][2] - 1], first
    assert 'reserve(cells' in source[first[1][2] - 1], first


def without_names_there_are_places(kit_):
    stripped = Stripped(kit_, 'bare', link=False)
    names, _ = read_names(kit_, stripped.region)
    assert 'load_weights' not in names, names
    assert any(name.startswith('program+0x') for name in names), names


def a_debug_file_is_found_by_the_link_to_it(kit_):
    stripped = Stripped(kit_, 'linked', link=True)
    assert 'load_weights' not in read_names(kit_, stripped.region)[0]
    for folder in (stripped.folder, stripped.folder / '.debug'):
        folder.mkdir(exist_ok=True)
        beside = shutil.copy(stripped.debug, folder)
        stacks, _ = read_stacks(kit_, stripped.region)
        names = [frame[0] for stack in stacks for frame in stack]
        assert {'load_weights', 'inlined_buffer', 'make_activation'} <= set(names), names
        os.unlink(beside)
    names, _ = read_names(kit_, stripped.region, '--debug-path', stripped.debug.parent)
    assert 'load_weights' in names, names


def a_debug_file_of_another_build_is_not_taken(kit_):
    stripped = Stripped(kit_, 'other', link=True)
    objcopy('--only-keep-debug', NAMES, stripped.folder / 'program.debug')
    names, _ = read_names(kit_, stripped.region)
    assert not names & {'load_weights', 'main', 'broken'}, names


def a_debug_file_is_found_by_build_id(kit_):
    stripped = Stripped(kit_, 'by-id', link=False)
    number = stripped.build_id()
    folder = stripped.folder / 'store' / '.build-id' / number[:2]
    folder.mkdir(parents=True)
    shutil.copy(stripped.debug, folder / f'{number[2:]}.debug')
    for path in (stripped.folder / 'store', 'by-id/store', f'no/such/folder:{stripped.folder}/store'):
        names, _ = read_names(kit_, stripped.region, '--debug-path', path)
        assert {'load_weights', 'inlined_buffer'} <= names, (path, names)
    saved = kit_.folder / 'by-id.cudamem'
    kit_.ok('snapshot', '--region', stripped.region, '--debug-path', stripped.folder / 'store', '-O',
            saved)
    assert b'load_weights' in kit_.ok('report', saved)  # the names are in the file


@contextlib.contextmanager
def debuginfod(files):
    """Serves files by their paths; yields its address and the list of what was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            asked.append(self.path)
            found = files.get(self.path)
            self.send_response(200 if found else 404)
            data = found.read_bytes() if found else b''
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}', asked
        finally:
            server.shutdown()
            thread.join()


def ask_debuginfod(kit_, region, files):
    with tempfile.TemporaryDirectory(dir=kit_.folder) as cache, debuginfod(files) as (address, asked):
        names, said = read_names(kit_, region, DEBUGINFOD_URLS=address, DEBUGINFOD_CACHE_PATH=cache,
                                 no_proxy='127.0.0.1')
    if not asked:
        raise Skip('elfutils asks no debuginfod here (libdebuginfod1)')
    return names, said, asked


def a_debuginfod_serves_names(kit_):
    stripped = Stripped(kit_, 'served', link=False)
    place = f'/buildid/{stripped.build_id()}'
    names, _, asked = ask_debuginfod(kit_, stripped.region, {f'{place}/debuginfo': stripped.debug})
    assert {'load_weights', 'inlined_buffer'} <= names, (names, asked)
    # One that has nothing costs nothing but names.
    names, _, asked = ask_debuginfod(kit_, stripped.region, {})
    assert f'{place}/debuginfo' in asked and 'load_weights' not in names, (names, asked)


def a_debuginfod_serves_a_binary_that_is_gone(kit_):
    stripped = Stripped(kit_, 'gone', link=False)
    os.unlink(stripped.program)
    names, said = read_names(kit_, stripped.region)
    assert any(name.startswith('program+0x') for name in names), names
    assert re.search('missing or changed: 1 of [2-9] objects on the stacks', said), said
    place = f'/buildid/{stripped.build_id()}'
    whole = {f'{place}/executable': kit.pathlib.Path(PROGRAM)}
    names, said, asked = ask_debuginfod(kit_, stripped.region, whole)
    assert {'load_weights', 'inlined_buffer'} <= names, (names, asked)
    assert not said, said


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        symbols_of_cpp_and_rust_are_as_the_source_has_them,
        debug_information_of_cpp_names_templates_and_what_was_inlined,
        without_names_there_are_places, a_debug_file_is_found_by_the_link_to_it,
        a_debug_file_of_another_build_is_not_taken, a_debug_file_is_found_by_build_id,
        a_debuginfod_serves_names, a_debuginfod_serves_a_binary_that_is_gone]))
