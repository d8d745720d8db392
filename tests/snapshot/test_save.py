#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Saving and reading back, of processes that work, stand, have died, and of files that are not right.

  test_save.py TOOL MAKER PROGRAM LIBRARY SIMULATION
"""

import base64
import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import kit
import test_export


PROGRAM, LIBRARY, SIMULATION = map(os.path.abspath, sys.argv[3:6])


class Running:
    """The program of this folder under the library, on the simulated device."""

    def __init__(self, kit_, *words, conf='', program=PROGRAM):
        self.regions = kit_.folder / 'regions'
        self.regions.mkdir(exist_ok=True)
        # A sanitized library comes second into a program that is not.
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(SIMULATION).parent),
                       'LD_PRELOAD': LIBRARY, 'ASAN_OPTIONS': 'verify_asan_link_order=0',
                       'CUDAMEM_CONF': f'region_dir:{self.regions}' + (',' + conf if conf else '')}
        self.process = subprocess.Popen([str(program), *words], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def __enter__(self):
        line = self.process.stdout.readline()
        assert line == 'ready\n', line
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=300)


def save(kit_, running, name='live.cudamem', *more):
    path = kit_.folder / name
    said = json.loads(kit_.ok('snapshot', '--dir', running.regions, running.pid, '-f', '--json',
                              '-O', path, *more))
    return path, said


def check(kit_, path):
    """It holds together, by the rules of PyTorch's viewer."""
    data = test_export.unpickle(kit_.export('pickle', path))
    test_export.check_viewer_rules(data)
    return data


def a_live_process_is_saved_with_names(kit_):
    before = time.time()
    with Running(kit_, 'plain', conf='stacks:all') as running:
        path, said = save(kit_, running)
        assert said['of_one_moment'] and said['events_lost'] == 0, said
    data = check(kit_, path)
    text = kit_.ok('report', path).decode()
    assert re.search(r'28\.00 MiB\s+4 blocks\s+.*load_weights', text), text
    names = {frame['name'] for event in data['device_traces'][0] for frame in event['frames']}
    assert {'load_weights', 'inlined_buffer', 'make_activation', 'remember'} <= names, names
    times = [event['time_us'] / 1e6 for event in data['device_traces'][0]]
    assert before - 1 < times[0] <= times[-1] < time.time() + 1, (before, times[0], times[-1])
    live = sum(segment['allocated_size'] for segment in data['segments'])
    assert live == (5 + 6 + 8 + 9) * kit.MIB + 20 * 64 * 1024, live


def a_busy_process_stands_still_for_a_moment(kit_):
    # A machine that has better to do than to run the copy gets a copy that says so; a process that
    # never stands still is a time-out of the test.
    held, end = [], time.monotonic() + 15
    with Running(kit_, 'busy') as running:
        while not held or (len(held) < 5 and time.monotonic() < end):
            path, said = save(kit_, running)
            if said['of_one_moment']:
                check(kit_, path)
            if said['held_ms'] > 0:
                assert said['of_one_moment'], said
                held.append(said['held_ms'])


def a_process_with_shards_is_saved_as_one_device(kit_):
    """Each thread has a ring: merged, they can be rewound without a gap."""
    with Running(kit_, 'busy', conf='shards:always') as running:
        held, end = 0, time.monotonic() + 15
        while not held or (held < 3 and time.monotonic() < end):
            path, said = save(kit_, running)
            if said['of_one_moment']:
                assert len(check(kit_, path)['device_traces']) == 1
                held += 1
        shown = json.loads(kit_.ok('show', '--dir', running.regions, str(running.pid), '--json'))
        shards = [service['shards'] for service in shown['processes'][0]['services']]
        assert len(shards) == 1 and shards[0] > 1, shards


def a_stopped_process_is_saved(kit_):
    # Without decay, which the library's own thread may be at when it is stopped.
    with Running(kit_, 'plain', conf='decay_seconds:off') as running:
        running.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        path, said = save(kit_, running)
        assert said['of_one_moment'] and said['held_ms'] == 0, said
        begin = time.monotonic()
        run = kit_.run('trim', '--dir', running.regions, running.pid, '--timeout', 60)
        assert run.returncode == 4 and b'is stopped' in run.stderr, run
        assert time.monotonic() - begin < 30
    check(kit_, path)
    report = json.loads(kit_.ok('report', '--json', path))
    assert (report['reason'], report['state']) == ('asked', 'stopped'), report
    assert 'while it was stopped' in kit_.ok('report', path).decode()


def pieces_of(path):
    """What a region holds, by place: most of the file is a hole."""
    with path.open('rb') as file:
        end = 0
        with contextlib.suppress(OSError):
            while True:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
                end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
                yield start, os.pread(file.fileno(), end - start, start)


def find_in(path, pattern):
    """Where the matches of a pattern start, and they."""
    return [(start + match.start(), match) for start, piece in pieces_of(path)
            for match in re.finditer(pattern, piece, re.DOTALL)]


def write_at(path, place, form, *values):
    path.chmod(0o600)
    with path.open('r+b') as file:
        os.pwrite(file.fileno(), struct.pack(form, *values), place)


def a_process_that_ended_in_a_change_is_not_of_one_moment(kit_):
    """Rows are written before the counters: the sequence number alone looks consistent."""
    data = test_export.unpickle(kit_.export('pickle'))
    block = next(block for segment in data['segments'] for block in segment['blocks']
                 if block['state'] == 'active_allocated')
    row = struct.pack('<3Q', block['address'], block['size'], block['requested_size'])
    path = kit_.make()
    [(place, match)] = find_in(path, re.escape(row) + b'.{24}(.{4})')
    assert match[1] == struct.pack('<I', 1)
    write_at(path, place + 48, '<I', 2)
    run = kit_.run('snapshot', '--region', path, '--json', '-O', kit_.folder / 'change.cudamem')
    assert run.returncode == 0 and b'had stopped during a change' in run.stderr, run
    assert json.loads(run.stdout)['of_one_moment'] is False, run


def page_devices(path):
    """The names that a page offers."""
    packed = re.search('id="data" data-packing="gzip">([^<]*)<', path.read_text(encoding='utf-8'))
    data = gzip.decompress(base64.b64decode(packed[1]))
    length, = struct.unpack_from('<I', data)
    return [device['name'] for file in json.loads(data[4:4 + length])['files']
            for device in file['devices']]


def memory_that_is_not_there_is_not_drawn(kit_):
    """The copy before this one is an event of pinned memory too."""
    with Running(kit_, 'plain') as running:
        kit_.ok('history', 'start', '--dir', running.regions, running.pid)
        save(kit_, running)
        path, _ = save(kit_, running)
    assert re.search(rb'^host,1,\d+,snapshot,', kit_.export('csv', path), re.MULTILINE)
    for kind in ('timeline', 'blocks', 'flame', 'sizes'):
        page = kit_.folder / f'{kind}.html'
        kit_.ok('plot', kind, path, '-f', '-O', page)
        names = page_devices(page)
        assert len(names) == 1 and names[0].startswith('GPU 0'), (kind, names)
    assert b'pinned' not in kit_.export('perfetto', path)


def a_killed_process_is_read_from_what_it_left(kit_):
    running = Running(kit_, 'crash', conf='stacks:alloc')
    assert running.process.wait(timeout=300) == -signal.SIGKILL
    running.process.stdin.close()
    running.process.stdout.close()
    path, said = save(kit_, running)
    assert said['of_one_moment'], said
    data = check(kit_, path)
    assert any(frame['name'] == 'load_weights' for event in data['device_traces'][0]
               for frame in event['frames'])
    times = [event['time_us'] for event in data['device_traces'][0]]
    assert times[0] > 10 ** 15, times[0]  # the clock of a dead process is still told


def a_foreign_clock_tells_no_times(kit_):
    """A region that was brought here before its library had read the clocks a second time."""
    path = kit_.make()
    base = 1700000000 * 10 ** 9
    clocks = struct.pack('<4Q', 0, base, 10 ** 10, base + 10 ** 10)
    [(place, _)] = find_in(path, re.escape(clocks))
    write_at(path, place + 16, '<2Q', 0, base)
    run = kit_.run('export', '--to', 'csv', path)
    assert run.returncode == 0 and b'the times of events are unknown' in run.stderr, run.stderr
    assert {line.split(',')[2] for line in run.stdout.decode().splitlines()[1:]} == {'0'}


def times_follow_the_order_of_events(kit_):
    """A processor may read its clock a little before it has the lock."""
    path = kit_.make()

    def set_back(number, ticks):
        # Its number, its time in steps of 10 us, and more.
        [(place, tick)] = [(place, tick) for place, match in
                           find_in(path, re.escape(struct.pack('<Q', number)) + b'(.{8})')
                           if 0 < (tick := struct.unpack('<Q', match[1])[0]) < 10 ** 7]
        write_at(path, place + 8, '<Q', tick - ticks)

    def times():
        data = test_export.unpickle(kit_.export('pickle', path))
        return [event['time_us'] for event in data['device_traces'][0]]

    before = times()
    assert before == sorted(set(before)), before
    set_back(20, 3 * 10 ** 4)
    early = times()
    assert early[19] == early[18] and early[:19] + early[20:] == before[:19] + before[20:], early
    # What no processor does is damage, and is shown.
    set_back(30, 2 * 10 ** 5)
    assert times()[29] == before[29] - 200


def who_freed_memory_did_not_ask_for_it(kit_):
    """Frees have stacks of their own, and the requests before them are lost to the ring."""
    # Without decay, whose look at what is freed would end the wait.
    with Running(kit_, 'plain', conf='stacks:all,events:16,decay_seconds:off') as running:
        path, said = save(kit_, running)
    assert said['events_lost'] > 10, said
    report = json.loads(kit_.ok('report', '--json', path))['devices'][0]
    rows = {'/'.join(frame['function'] for frame in row['frames']): row['blocks']
            for row in report['stacks_at_peak']}
    assert not any('cudaFree' in stack for stack in rows), rows
    # Two of the six weights are freed at the end, and wait: their blocks know who asked.
    assert sum(blocks for stack, blocks in rows.items() if 'load_weights' in stack) == 6, rows


def a_long_ring_that_is_all_but_empty_is_read_back(kit_):
    with Running(kit_, 'plain', conf='events:1Mi') as running:
        path, _ = save(kit_, running, 'empty-ring.cudamem')
    with path.open('rb') as file:
        image_bytes = struct.unpack_from('<Q', file.read(64), 16)[0]
    assert image_bytes > 4096 * path.stat().st_size, (image_bytes, path.stat().st_size)
    check(kit_, path)


def a_missing_binary_costs_names_alone(kit_):
    other = kit_.folder / 'copy_of_the_program'
    shutil.copy(PROGRAM, other)
    with Running(kit_, 'plain', conf='stacks:all', program=other) as running:
        other.unlink()
        path, _ = save(kit_, running)
    data = check(kit_, path)
    names = {frame['name'] for event in data['device_traces'][0] for frame in event['frames']}
    assert 'load_weights' not in names
    assert any(re.fullmatch(r'copy_of_the_program\+0x[0-9a-f]+', name) for name in names), names
    assert any(name.startswith('cudaMalloc') for name in names), names


def another_file_in_its_place_gives_no_wrong_names(kit_):
    other = kit_.folder / 'replaced'
    shutil.copy(PROGRAM, other)
    with Running(kit_, 'plain', conf='stacks:all', program=other) as running:
        other.unlink()
        shutil.copy(kit_.maker, other)  # has a build-id of its own
        path, _ = save(kit_, running)
    names = {frame['name'] for event in check(kit_, path)['device_traces'][0]
             for frame in event['frames']}
    assert any(name.startswith('replaced+0x') for name in names), names


def what_reads_regions_reads_snapshots(kit_):
    for words in (('show', '--region', kit_.saved), ('memory-stats', '--region', kit_.saved),
                  ('ls', '--region', kit_.saved)):
        assert b'Test Device' in kit_.ok(*words) or words[0] != 'show'
    # A process is not asked for what a file can't do.
    run = kit_.run('trim', '--region', kit_.saved)
    assert run.returncode == 3 and b'a snapshot can only be read' in run.stderr, run


def a_snapshot_tells_whose_the_process_was(kit_):
    path, nobody = kit_.make(), 0x7ffffffd
    region = bytearray(path.read_bytes())
    put(region, 44, '<I', nobody)  # cm_header.uid
    path.chmod(0o600)
    path.write_bytes(region)
    saved = kit_.folder / 'theirs.cudamem'
    kit_.ok('snapshot', '--region', path, '-O', saved)
    assert re.match(rf'pid \d+  {nobody}  ', kit_.ok('report', saved).decode())
    assert kit_.ok('ls', '--region', saved, '-n', '-o', 'USER').decode().split()[0] == str(nobody)


def a_file_that_may_not_be_read_is_named(kit_):
    path = kit_.folder / 'closed.cudamem'
    path.write_bytes(kit_.saved.read_bytes())
    path.chmod(0)
    more = {} if os.geteuid() else {'user': 65534}
    try:
        for words in (('report', path), ('show', '--region', path)):
            run = kit_.run(*words, **more)
            assert run.returncode == 3 and f': {path}: Permission denied\n' in run.stderr.decode(), run
    except OSError:
        raise kit.Skip('nobody may not run the tool from here') from None


def a_copy_of_a_copy_is_the_same(kit_):
    again = kit_.folder / 'again.cudamem'
    kit_.ok('snapshot', '--region', kit_.saved, '-f', '-O', again)
    assert kit_.run('diff', kit_.saved, again).returncode == 0
    assert kit_.export('csv', again) == kit_.export('csv')


def damaged(kit_, name, change):
    path = kit_.folder / name
    data = bytearray(kit_.saved.read_bytes())
    path.write_bytes(bytes(change(data) or data))
    return path


def flip(data, at, bit=0x10):
    data[at] ^= bit


def put(data, at, form, value):
    struct.pack_into(form, data, at, value)


def files_that_are_not_right_are_refused_in_one_line(kit_):
    size = kit_.saved.stat().st_size
    cases = {
        'empty.cudamem': (lambda data: b'\0', 'too short'),
        'half.cudamem': (lambda data: data[:size // 2], 'cut short: '),
        'head.cudamem': (lambda data: data[:80], 'cut short: '),
        'tail.cudamem': (lambda data: data + b'more', 'length'),
        'future.cudamem': (lambda data: put(data, 8, '<I', 2), 'format version 2; this build reads'),
        'bomb.cudamem': (lambda data: put(data, 16, '<Q', 1 << 32), 'claims to hold'),
        'short.cudamem': (lambda data: put(data, 16, '<Q', 100), 'damaged'),
        'header.cudamem': (lambda data: put(data, 12, '<I', 4096), 'header claims'),
        'text.cudamem': (lambda data: b'no snapshot at all\n' * 1000, 'not a region'),
    }
    for place in range(64, size, max(1, size // 40)):
        cases[f'bit{place}.cudamem'] = (lambda data, at=place: flip(data, at), 'damaged')
    whole = kit_.run('export', '--to', 'pickle', kit_.saved).stdout
    for name, (change, words) in cases.items():
        path = damaged(kit_, name, change)
        if name.startswith('bit') and kit_.run('export', '--to', 'pickle', path).stdout == whole:
            continue  # a bit that zstd does not use
        for verb in (('report',), ('export', '--to', 'pickle'), ('plot', 'timeline', '-fO', 'x.html')):
            run = kit_.run(*verb, path)
            said = run.stderr.decode()
            assert run.returncode == 3, (name, verb, run)
            assert words in said and said.count('\n') == 1 and str(path) in said, (name, said)
            assert not run.stdout, (name, verb)
    assert not (kit_.folder / 'x.html').exists()


def what_no_memory_holds_is_not_unpacked(kit_):
    path = kit_.folder / 'large.cudamem'
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    data = bytearray(kit_.saved.read_bytes())
    put(data, 16, '<Q', memory + 1)
    path.write_bytes(data)
    os.truncate(path, memory // 32768 + 1)
    run = kit_.run('report', path)
    said = run.stderr.decode()
    assert run.returncode == 3 and said.count('\n') == 1 and str(memory + 1) in said, run


def a_full_disk_leaves_nothing_behind(kit_):
    """Under a limit on the size of files, which fails as a full disk does."""
    target = kit_.folder / 'full'
    target.mkdir()
    many = kit_.make(20000, 5000)
    for words in (('snapshot', '--region', many, '-O', target / 'a.cudamem'),
                  ('export', '--to', 'csv', '-O', target / 'a.csv', many),
                  ('plot', 'blocks', '-O', target / 'a.html', many)):
        command = ' '.join(map(str, words))
        run = subprocess.run(['sh', '-c', f"ulimit -f 8; exec '{kit_.tool}' {command}"],
                             capture_output=True, text=True, check=False)
        assert run.returncode == 3 and run.stderr.count('\n') == 1, (words, run)
        assert 'File too large' in run.stderr, (words, run)
        assert not list(target.iterdir()), list(target.iterdir())
    for words in (('export', '--to', 'csv', many), ('snapshot', '--region', many, '-O', '-'),
                  ('plot', 'blocks', '-O', '-', many), ('plot', 'blocks', '-O', '/dev/full', many)):
        with open('/dev/full', 'w', encoding='utf-8') as full:
            run = subprocess.run([kit_.tool, *map(str, words)], stdout=full, stderr=subprocess.PIPE,
                                 text=True, check=False)
        assert run.returncode == 3 and run.stderr.count('\n') == 1, run
        assert 'No space left on device' in run.stderr, run


def what_stands_there_stays_unless_forced(kit_):
    path = kit_.folder / 'mine.cudamem'
    path.write_text('mine', encoding='utf-8')
    run = kit_.run('snapshot', '--region', kit_.region, '-O', path)
    assert run.returncode == 3 and b'--force' in run.stderr, run
    assert path.read_text(encoding='utf-8') == 'mine'
    # A failure with --force leaves it too.
    run = kit_.run('snapshot', '--region', kit_.folder / 'nothing', '-f', '-O', path)
    assert run.returncode == 3 and path.read_text(encoding='utf-8') == 'mine', run
    kit_.ok('snapshot', '--region', kit_.region, '-f', '-O', path)
    assert path.read_bytes()[:8] == b'\x93cudam\r\n'
    if os.geteuid() == 0:
        return
    closed = kit_.folder / 'closed'
    closed.mkdir(mode=0o500)
    run = kit_.run('snapshot', '--region', kit_.region, '-O', closed / 'x.cudamem')
    assert run.returncode == 3 and run.stderr.count(b'\n') == 1, run


def a_process_that_is_not_there_is_told(kit_):
    run = kit_.run('snapshot', '4194999')
    assert run.returncode == 3 and b'no process' in run.stderr, run
    run = kit_.run('report', './nothing.cudamem')
    assert run.returncode == 3 and b'No such file' in run.stderr, run


def a_pipe_takes_a_snapshot(kit_):
    data = kit_.run('snapshot', '--region', kit_.region, '-O', '-').stdout
    path = kit_.folder / 'piped.cudamem'
    path.write_bytes(data)
    assert kit_.export('csv', path) == kit_.export('csv')


def what_is_no_file_is_not_called_one(kit_):
    for words in (('snapshot', '-O', '/dev/null'), ('plot', 'sizes', '-O', '/dev/null')):
        said = kit_.ok(*words, kit_.saved).decode()
        assert 'see it' not in said and 'opens' not in said, said


def a_link_stays_one(kit_):
    link, target = kit_.folder / 'link.cudamem', kit_.folder / 'target.cudamem'
    link.symlink_to(target)
    target.write_bytes(b'')
    for force in ([], ['-f']):
        run = kit_.run('snapshot', kit_.saved, *force, '-O', link)
        assert run.returncode == 3 and b'symbolic link' in run.stderr, run
    assert link.is_symlink() and not target.read_bytes()


def what_is_told_to_be_typed_is_understood(kit_):
    """A name that says nothing of a file, and one that is two words to a shell."""
    for name in ('saved-by-hand', 'my copy.cudamem', "it's"):
        said = kit_.ok('snapshot', '--region', kit_.region, '-O', name).decode()
        command = re.search('^  cudamemstat (report .*)$', said, re.MULTILINE)[1]
        run = subprocess.run(f"'{kit_.tool}' {command}", shell=True, capture_output=True,
                             cwd=kit_.folder, check=False)
        assert run.returncode == 0 and b'load_weights' in run.stdout, (said, run)
    run = kit_.run('report', 'saved-by-hand')
    assert run.returncode == 1 and b'the file of this name is ./saved-by-hand' in run.stderr, run


def a_terminal_is_spared_what_is_no_text(kit_):
    master, terminal = os.openpty()
    for words in (('snapshot', '-O', '-'), ('export', '--to', 'pprof'),
                  ('export', '--to', 'pickle', '-O', '-')):
        run = subprocess.run([kit_.tool, *words, kit_.saved], stdout=terminal,
                             stderr=subprocess.PIPE, check=False)
        assert run.returncode == 2 and b'not for a terminal' in run.stderr, run
    os.close(terminal)
    os.close(master)


def what_is_appended_to_stays_as_it_is(kit_):
    """Standard output may have begun before us; what it has is not ours to write over."""
    path = kit_.folder / 'appended'
    for flags in (os.O_APPEND, 0):
        path.write_bytes(b'before\n')
        to = os.open(path, os.O_WRONLY | flags)
        os.lseek(to, 0, os.SEEK_END)
        run = subprocess.run([kit_.tool, 'snapshot', '--region', kit_.region, '--json', '-O', '-'],
                             stdout=to, stderr=subprocess.PIPE, check=False)
        os.close(to)
        assert run.returncode == 0, run
        data = path.read_bytes()
        assert data[:7] == b'before\n' and json.loads(run.stderr)['file_bytes'] == len(data) - 7
        (kit_.folder / 'behind.cudamem').write_bytes(data[7:])
        assert kit_.export('csv', './behind.cudamem') == kit_.export('csv')


def commands_name_what_they_change(kit_):
    """A pattern that matches several processes changes none, unless all are meant."""
    with Running(kit_, 'plain') as running, Running(kit_, 'plain'):
        for verb in (['trim'], ['reset'], ['history', 'start']):
            run = kit_.run(*verb, '--dir', running.regions, 'snapshot_program')
            assert run.returncode == 2 and b'means 2 processes' in run.stderr, run
            both = kit_.run(*verb, '--dir', running.regions, '--all', 'snapshot_program')
            assert both.returncode == 0, both
        text = kit_.ok('reset', '--dir', running.regions, running.pid).decode()
        assert f'{running.pid} pinned memory: peaks set to the current values' in text, text
        assert 'pinned' not in kit_.ok('reset', '-d', '0', '--dir', running.regions, running.pid).decode()
        run = kit_.run('history', 'start', '--max-entries', 1 << 20, '--dir', running.regions, running.pid)
        assert run.returncode == 2 and b'has room for' in run.stderr, run
        kit_.ok('history', 'start', '--max-entries', 4, '--dir', running.regions, running.pid)
        shown = kit_.ok('history', 'status', '--dir', running.regions, running.pid).decode()
        assert '4 events, 0 lost' in shown and 'not shown' in shown, shown


def a_word_means_those_that_can_be_changed(kit_):
    """Those of its name that have ended are not complained of, unless there is no other."""
    with Running(kit_, 'plain') as ended:
        ended.process.kill()
        ended.process.wait()
        where = ('--dir', ended.regions)
        with Running(kit_, 'plain') as running:
            for words in (['trim'], ['reset'], ['history', 'start'], ['history', 'stop']):
                run = kit_.run(*words, *where, 'snapshot_program')
                assert run.returncode == 0 and not run.stderr and str(running.pid) in run.stdout.decode(), run
            run = kit_.run('conf', *where, 'snapshot_program', 'decay_seconds:5')
            assert run.returncode == 0 and not run.stderr, run
            run = kit_.run('trim', *where, ended.pid)
            assert run.returncode != 0 and b'has ended' in run.stderr, run
        for words in (['trim'], ['history', 'start'], ['conf', 'decay_seconds:5']):
            run = kit_.run(*words, *where, 'snapshot_program')
            assert run.returncode != 0 and b'has ended' in run.stderr, run


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_live_process_is_saved_with_names, a_busy_process_stands_still_for_a_moment,
        a_process_with_shards_is_saved_as_one_device,
        a_stopped_process_is_saved, a_process_that_ended_in_a_change_is_not_of_one_moment,
        memory_that_is_not_there_is_not_drawn, a_killed_process_is_read_from_what_it_left,
        a_foreign_clock_tells_no_times, times_follow_the_order_of_events,
        who_freed_memory_did_not_ask_for_it,
        a_long_ring_that_is_all_but_empty_is_read_back, a_missing_binary_costs_names_alone,
        another_file_in_its_place_gives_no_wrong_names, what_reads_regions_reads_snapshots,
        a_snapshot_tells_whose_the_process_was, a_file_that_may_not_be_read_is_named,
        a_copy_of_a_copy_is_the_same,
        files_that_are_not_right_are_refused_in_one_line, what_no_memory_holds_is_not_unpacked,
        a_full_disk_leaves_nothing_behind,
        what_stands_there_stays_unless_forced, a_process_that_is_not_there_is_told,
        a_pipe_takes_a_snapshot, what_is_no_file_is_not_called_one, a_link_stays_one,
        what_is_told_to_be_typed_is_understood,
        a_terminal_is_spared_what_is_no_text, what_is_appended_to_stays_as_it_is,
        commands_name_what_they_change, a_word_means_those_that_can_be_changed]))
