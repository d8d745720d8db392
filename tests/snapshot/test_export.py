#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every export is read by who is there to read it: test_export.py TOOL MAKER

The region is the one that maker.c plays; what it did is repeated here as plain figures.
"""

import csv
import gzip
import importlib.util
import io
import itertools
import json
import pathlib
import pickle
import pickletools
import re
import shutil
import sqlite3
import subprocess
import sys

import kit
from kit import GIB, MIB, Skip

REFERENCE = (pathlib.Path(__file__).resolve().parents[3]
             / 'shared/traces/snapshots/DeComFL.memory.pickle')
# What PyTorch's viewer can read of a pickle.
VIEWER_OPCODES = set('''PROTO FRAME EMPTY_DICT EMPTY_LIST MARK MEMOIZE BINGET LONG_BINGET
    SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE NONE TUPLE
    TUPLE1 TUPLE2 TUPLE3 EMPTY_TUPLE LIST DICT APPEND APPENDS SETITEM SETITEMS BINPUT LONG_BINPUT
    STOP'''.split())
QUERIES = pathlib.Path(__file__).resolve().parents[2] / 'docs/queries.md'
ACTIONS = {'alloc', 'free_requested', 'free_completed', 'segment_alloc', 'segment_free',
           'segment_map', 'segment_unmap', 'oom', 'snapshot'}
STATES = {'active_allocated', 'active_pending_free', 'inactive'}
WEIGHTS = [8 * MIB, 9 * MIB, 10 * MIB, 11 * MIB]
KEPT = [100000 + step for step in range(6)]


class RefusingUnpickler(pickle.Unpickler):
    """Data and nothing else."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f'the pickle wants {module}.{name}')


def unpickle(data):
    return RefusingUnpickler(io.BytesIO(data)).load()


def a_pickle_is_data_alone(kit_):
    data = unpickle(kit_.export('pickle'))
    assert list(data) == ['segments', 'device_traces', 'allocator_settings',
                          'external_annotations'], list(data)
    live = sorted(block['requested_size'] for segment in data['segments']
                  for block in segment['blocks'] if block['state'] == 'active_allocated')
    assert live == sorted(WEIGHTS + KEPT + [1000]), live
    assert [len(trace) for trace in data['device_traces']] == [47, 3]


def a_pickle_has_only_what_the_viewer_reads(kit_):
    many = kit_.make(130002, 1000)
    for source in (kit_.saved, many):
        data = kit_.export('pickle', source)
        for opcode, argument, _ in pickletools.genops(data):
            assert opcode.name in VIEWER_OPCODES, opcode.name
            assert opcode.name != 'LONG1' or argument < 2 ** 63, argument
    assert len(unpickle(data)['device_traces'][0]) == 130002
    # More at once and the viewer's stack overflows.
    assert longest_batch(data) == 1000, longest_batch(data)


def longest_batch(data):
    """The most items that one APPENDS adds."""
    sizes = []
    longest = 0
    for opcode, _, _ in pickletools.genops(data):
        name = opcode.name
        if name == 'MARK':
            sizes.append(0)
        elif name == 'APPENDS':
            longest = max(longest, sizes.pop())
            # What was appended to is one item of the batch around it.
        elif name == 'SETITEMS':
            sizes.pop()
        elif name == 'TUPLE2':
            sizes[-1] -= 1
        elif name in ('EMPTY_DICT', 'EMPTY_LIST', 'BINGET', 'LONG_BINGET', 'BININT', 'BININT1',
                      'BININT2', 'LONG1', 'BINFLOAT', 'NEWTRUE', 'NEWFALSE', 'SHORT_BINUNICODE',
                      'BINUNICODE') and sizes:
            sizes[-1] += 1
    return longest


def json_is_the_same_as_the_pickle(kit_):
    data = unpickle(kit_.export('pickle'))
    assert json.loads(kit_.export('json')) == json.loads(json.dumps(data))


def stacks_are_shared_as_pytorch_shares_them(kit_):
    data = unpickle(kit_.export('pickle'))
    by_address = {event['addr']: event for event in data['device_traces'][0]
                  if event['action'] == 'alloc'}
    blocks = [block for segment in data['segments'] for block in segment['blocks']
              if block['state'] == 'active_allocated' and block['address'] in by_address]
    assert len(blocks) == 10, len(blocks)
    for block in blocks:
        assert block['frames'] is by_address[block['address']]['frames']
        assert len(block['frames']) > 3
    frames = {}
    for event in data['device_traces'][0]:
        for frame in event['frames']:
            key = tuple(frame.values())
            assert frames.setdefault(key, frame) is frame, key


def shape(value):
    """Types and keys, in their order."""
    if isinstance(value, dict):
        return tuple((key, shape(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(shape(item) for item in value)
    return type(value).__name__


def shapes(data):
    """Of each kind of thing in a snapshot: the different shapes that occur."""
    found = {'segment': set(), 'block': set(), 'frame': set(), 'settings': set()}
    for segment in data['segments']:
        found['segment'].add(shape(segment))
        found['block'] |= {shape(block) for block in segment['blocks']}
    for event in itertools.chain(*data['device_traces']):
        plain = {key: value for key, value in event.items() if key != 'user_metadata'}
        found.setdefault('event ' + event['action'], set()).add(shape(plain))
        found['frame'] |= {shape(frame) for frame in event['frames']}
    found['settings'].add(shape(data['allocator_settings']))
    found['annotation'] = {shape(item) for item in data['external_annotations']}
    return found


def the_structure_is_that_of_pytorch(kit_):
    if not REFERENCE.exists():
        raise Skip('no snapshot that PyTorch wrote is here')
    theirs = shapes(unpickle(REFERENCE.read_bytes()))
    ours = shapes(unpickle(kit_.export('pickle')))
    for kind, found in theirs.items():
        # Segments of the file have their last two keys in either order.
        assert ours[kind] and ours[kind] <= found, (kind, ours[kind] - found)
    assert set(ours) - set(theirs) == {'event oom'}, set(ours) - set(theirs)


def check_viewer_rules(data):
    """What MemoryViz.js does with a snapshot: it must not throw, and must draw what is there."""
    assert all(0 <= segment['device'] < len(data['device_traces']) for segment in data['segments'])
    live = {}
    for segment in data['segments']:
        address = segment['address']
        sums = dict.fromkeys(('allocated_size', 'active_size', 'requested_size'), 0)
        for block in segment['blocks']:
            assert block['address'] == address and block['state'] in STATES, block
            address += block['size']
            if block['state'] == 'active_allocated':
                sums['allocated_size'] += block['size']
            if block['state'] != 'inactive':
                sums['active_size'] += block['size']
                sums['requested_size'] += block['requested_size']
                live[segment['device'], block['address']] = block
        assert address == segment['address'] + segment['total_size'], segment['address']
        for key, value in sums.items():
            assert segment[key] == value, (key, segment[key], value)
    for device, trace in enumerate(data['device_traces']):
        check_trace(trace, device, live, data['segments'])


def check_trace(trace, device, live, segments):
    """Rewinds the events from what is there at the end, as the viewer's state history does."""
    times = [event['time_us'] for event in trace]
    assert times == sorted(times)
    there = {(segment['address'], segment['total_size']) for segment in segments
             if segment['device'] == device}
    blocks = {address for of, address in live if of == device}
    for event in reversed(trace):
        action = event['action']
        assert action in ACTIONS and isinstance(event['size'], int), event
        assert 'category' not in event
        assert ('device_free' in event) == (action == 'oom') != ('addr' in event), event
        for frame in event['frames']:
            assert isinstance(frame['name'], str) and isinstance(frame['filename'], str)
        if action == 'alloc':
            assert event['addr'] in blocks, event
            assert any(start <= event['addr'] < start + size for start, size in there), event
            blocks.remove(event['addr'])
        elif action == 'free_completed':
            assert event['addr'] not in blocks, event
            blocks.add(event['addr'])
        elif action == 'free_requested':
            assert event['addr'] in blocks, event
        elif action == 'segment_alloc':
            there.remove((event['addr'], event['size']))
        elif action == 'segment_free':
            there.add((event['addr'], event['size']))


def the_viewer_can_draw_it(kit_):
    data = unpickle(kit_.export('pickle'))
    check_viewer_rules(data)
    ooms = [event for trace in data['device_traces'] for event in trace
            if event['action'] == 'oom']
    assert [(event['size'], event['device_free']) for event in ooms] == \
        [(90 * GIB, 3 * GIB), (91 * GIB, 0)]


def pytorchs_own_tool_reads_it(kit_):
    """_memory_viz.py runs without the rest of PyTorch."""
    found = importlib.util.find_spec('torch')
    tools = [path for folder in (found.submodule_search_locations if found else ())
             for path in pathlib.Path(folder).glob('cuda/_memory_viz.py')]
    if not tools:
        raise Skip('PyTorch is not installed')
    path = kit_.folder / 'made.pickle'
    path.write_bytes(kit_.export('pickle'))
    for verb, words in (('stats', 'total_reserved: 130.0MiB'), ('trace', 'b = a[0:8.0MiB]')):
        run = subprocess.run([sys.executable, tools[0], verb, path], capture_output=True, text=True,
                             check=False)
        assert run.returncode == 0 and words in run.stdout, run


def annotations_come_along(kit_):
    trace = unpickle(kit_.export('pickle'))['device_traces'][0]
    named = {event.get('user_metadata') for event in trace}
    assert named == {None, 'even step', 'odd step'}, named


def ranges_begin_and_end_with_their_events(kit_):
    data = unpickle(kit_.export('pickle'))
    edges = [(item['name'], item['stage'], item['device'], item['time_us'])
             for item in data['external_annotations']]
    expected = []
    for name, run in itertools.groupby(data['device_traces'][0],
                                       key=lambda event: event.get('user_metadata')):
        times = [event['time_us'] for event in run]
        if name:
            expected += [(name, 'START', 0, times[0]), (name, 'END', 0, times[-1])]
    assert edges == expected and len(edges) == 12, edges


def a_context_stands_as_a_stream(kit_):
    data = unpickle(kit_.export('pickle'))
    first, second = data['device_traces']
    assert {event['stream'] for event in first} == {0, 1}
    assert all((event['stream'] == 1) == (event['action'] == 'oom') for event in first)
    assert {event['stream'] for event in second} == {0}  # the first context of its device
    assert {segment['stream'] for segment in data['segments']} == {0}


def perfetto_decodes_with_counters_and_stacks(kit_):
    trace = kit.decode('perfetto.proto', 'cudamem.perfetto.Trace', kit_.export('perfetto'))
    tracks, values, weights, stacks = {}, {}, {}, []
    last = 0
    for packet in trace['packet']:
        assert packet['trusted_packet_sequence_id'] == [1]
        for track in packet.get('track_descriptor', []):
            tracks[track['uuid'][0]] = track
        for event in packet.get('track_event', []):
            name = tracks[event['track_uuid'][0]]['name'][0]
            assert packet['timestamp'][0] >= 1700000000 * 10 ** 9
            if event['type'] == [4]:
                values.setdefault(name, []).append(event['counter_value'][0])
            else:
                assert event['type'] == [3] and packet['timestamp'][0] >= last or 'GPU 0' not in name
                weights.setdefault(name, []).append(event['callstack_weight'][0])
                stacks.append([frame['function_name'][0]
                               for frame in event['callstack'][0]['frames']])
    names = {track['name'][0] for track in tracks.values() if 'name' in track}
    assert 'GPU 0 allocated' in names and 'pinned memory reserved' in names, names
    assert values['GPU 0 allocated'][-1] == sum(WEIGHTS + KEPT), values['GPU 0 allocated']
    assert max(values['GPU 0 allocated']) == sum(WEIGHTS + KEPT[:5]) + 6 * MIB + 300 * 1024
    assert values['GPU 0 active'][-1] - values['GPU 0 allocated'][-1] == 6 * MIB
    assert values['GPU 0 reserved'] == [128 * MIB]
    assert len(weights['GPU 0 requests']) == 4 + 3 * 6 + 1
    inlined = [stack for stack in stacks if 'inlined_get' in stack]
    assert inlined and inlined[0][-2:] == ['inlined_get', 'cuda_get'], inlined[:1]
    assert inlined[0][-3] == 'solver_step'


def unknown_fields_of(message, path=''):
    from google.protobuf import unknown_fields
    found = [f'{path}/{field.field_number}' for field in unknown_fields.UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type:
            items = [value] if hasattr(value, 'ListFields') else value
            for item in items:
                found += unknown_fields_of(item, f'{path}/{field.name}')
    return found


def perfettos_own_description_knows_every_field(kit_):
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        raise Skip("Perfetto's Python package is not installed (pip install perfetto)") from None
    trace = perfetto_trace_pb2.Trace.FromString(kit_.export('perfetto'))
    assert len(trace.packet) > 100 and trace.IsInitialized()
    assert not unknown_fields_of(trace), unknown_fields_of(trace)


def read_pprof(data):
    profile = kit.decode('pprof.proto', 'cudamem.pprof.Profile', gzip.decompress(data))
    strings = profile['string_table']
    assert strings[0] == '' and len(set(strings)) == len(strings)
    functions = {function['id'][0]: strings[function['name'][0]]
                 for function in profile['function']}
    locations = {location['id'][0]: functions[location['line'][0]['function_id'][0]]
                 for location in profile['location']}
    return profile, strings, locations


def pprof_decodes_with_gos_four_names(kit_):
    profile, strings, locations = read_pprof(kit_.export('pprof'))
    types = [strings[item['type'][0]] for item in profile['sample_type']]
    assert types == ['alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space'], types
    assert strings[profile['default_sample_type'][0]] == 'inuse_space'
    inuse = {}
    for sample in profile['sample']:
        stack = [locations[number] for number in sample['location_id']]
        label = sample['label'][0]
        assert strings[label['key'][0]] == 'device'
        device = strings[label['str'][0]]
        assert len(sample['value']) == 4
        inuse.setdefault(device, [0, 0])
        inuse[device][0] += sample['value'][2]
        inuse[device][1] += sample['value'][3]
        assert stack[0] in ('cuda_get', 'open_place'), stack
    assert inuse == {'0': [10, sum(WEIGHTS + KEPT)], '1': [1, 1000], 'host': [1, 4 * MIB]}, inuse


def pprofs_own_tool_reads_it(kit_):
    command = next(([*words] for words in (('pprof',), ('go', 'tool', 'pprof'))
                    if shutil.which(words[0])), None)
    if not command:
        raise Skip('neither pprof nor go is installed')
    path = kit_.folder / 'profile.pb.gz'
    path.write_bytes(kit_.export('pprof'))
    run = subprocess.run([*command, '-top', '-sample_index=inuse_space', str(path)],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0 and 'cuda_get' in run.stdout, run


def speedscope_obeys_its_schema(kit_):
    data = json.loads(kit_.export('speedscope'))
    assert data['$schema'] == 'https://www.speedscope.app/file-format-schema.json'
    frames = data['shared']['frames']
    units = {'none', 'nanoseconds', 'microseconds', 'milliseconds', 'seconds', 'bytes'}
    for frame in frames:
        assert isinstance(frame['name'], str) and set(frame) <= {'name', 'file', 'line', 'col'}
    for profile in data['profiles']:
        assert profile['type'] == 'sampled' and profile['unit'] in units
        assert len(profile['samples']) == len(profile['weights'])
        assert profile['endValue'] - profile['startValue'] == sum(profile['weights'])
        assert all(0 <= number < len(frames) for sample in profile['samples'] for number in sample)
    live = next(profile for profile in data['profiles']
                if profile['name'] == 'GPU 0, live, bytes')
    assert sum(live['weights']) == sum(WEIGHTS + KEPT)
    # The root comes first.
    assert frames[live['samples'][0][-1]]['name'] == 'cuda_get'
    peak = next(profile for profile in data['profiles']
                if profile['name'] == 'GPU 0, peak, bytes')
    assert sum(peak['weights']) == sum(WEIGHTS + KEPT[:5]) + 6 * MIB + 300 * 1024


def folded_stacks_add_up(kit_):
    total = 0
    for line in kit_.export('folded').decode().splitlines():
        match = re.fullmatch(r'(.*) (\d+)', line)
        assert match and int(match[2]) > 0, line
        if match[1].startswith('GPU 0;'):
            total += int(match[2])
            assert match[1].endswith(';cuda_get'), line
    assert total == sum(WEIGHTS + KEPT), total


def csv_has_every_event(kit_):
    rows = list(csv.DictReader(io.StringIO(kit_.export('csv').decode(), newline='')))
    assert len(rows) == 47 + 3 + 2, len(rows)
    assert {row['device'] for row in rows} == {'0', '1', 'host'}
    oom, other = (row for row in rows if row['action'] == 'oom')
    assert (int(other['size_bytes']), other['device_free_bytes']) == (91 * GIB, '')
    assert (int(oom['size_bytes']), int(oom['device_free_bytes'])) == (90 * GIB, 3 * GIB)
    assert oom['stack'].startswith('fail_for_memory;') and oom['stack'].endswith('train.py;31')
    assert [int(row['number']) for row in rows[:47]] == list(range(1, 48))
    assert {row['kind'] for row in rows} == {''}


def events_outside_the_cache_have_their_kind(kit_):
    region = kit_.make('outside')
    text = kit_.ok('export', '--to', 'csv', '--region', region).decode()
    found = [(row['action'], row['kind'], int(row['size_bytes']))
             for row in csv.DictReader(io.StringIO(text, newline=''))
             if row['action'].startswith('outside')]
    assert found == [('outside_alloc', 'async', 16 * MIB), ('outside_alloc', 'async', 4 * MIB),
                     ('outside_free', 'async', 16 * MIB)], found
    path = kit_.folder / 'outside.db'
    path.write_bytes(kit_.ok('export', '--to', 'sqlite', '--region', region))
    by_kind, = [sql for sql in queries()[0] if 'outside_alloc' in sql]
    with sqlite3.connect(path) as base:
        assert base.execute(by_kind).fetchall() == [(0, 'async', 2, 20 * MIB)]
        kinds = base.execute('SELECT DISTINCT action, kind FROM device_traces '
                             'WHERE kind IS NULL').fetchall()
        assert set(kinds) == {('alloc', None), ('segment_alloc', None)}, kinds


def a_format_that_is_not_there_is_named(kit_):
    run = kit_.run('export', '--to', 'pickel', kit_.saved)
    assert run.returncode == 2 and b'did you mean pickle?' in run.stderr, run
    without = kit_.run('export', kit_.saved).stderr.decode()
    listed = re.findall(r'^  (\w+) ', without, re.MULTILINE)
    words = set(re.findall(r'\w+', kit_.ok('export', '--help').decode()))
    assert len(listed) > 6 and set(listed) <= words, (listed, words)


def write_database(kit_):
    path = kit_.folder / 'memory.db'
    path.write_bytes(kit_.export('sqlite'))
    return path


def sqlite_says_what_json_says(kit_):
    data = json.loads(kit_.export('json'))
    with sqlite3.connect(write_database(kit_)) as base:
        assert base.execute('PRAGMA integrity_check').fetchone() == ('ok',)
        assert base.execute('PRAGMA foreign_key_check').fetchall() == []
        blocks = base.execute('SELECT device, address, size, COALESCE(requested_size, 0), state '
                              'FROM blocks WHERE device IS NOT NULL ORDER BY rowid').fetchall()
        assert blocks == [(segment['device'], block['address'], block['size'],
                           block['requested_size'], block['state'])
                          for segment in data['segments'] for block in segment['blocks']]
        traces = base.execute('SELECT device, action, size, time_ns / 1000 FROM device_traces '
                              'WHERE device IS NOT NULL ORDER BY rowid').fetchall()
        assert traces == [(device, event['action'], event['size'], event['time_us'])
                          for device, trace in enumerate(data['device_traces'])
                          for event in trace]
        sums = base.execute('SELECT total_size, allocated_size FROM segments '
                            'WHERE device IS NOT NULL ORDER BY id').fetchall()
        assert sums == [(segment['total_size'], segment['allocated_size'])
                        for segment in data['segments']]
        frames = [[block['frames'] for block in segment['blocks']]
                  for segment in data['segments']]
        for (stack,), wanted in zip(
                base.execute('SELECT stack FROM blocks WHERE device IS NOT NULL ORDER BY rowid'),
                itertools.chain(*frames)):
            found = base.execute('SELECT name, filename, COALESCE(line, 0) FROM stacks JOIN frames '
                                 'ON frames.id = frame WHERE stack = ? ORDER BY depth',
                                 (stack,)).fetchall()
            assert found == [(one['name'], one['filename'], one['line']) for one in wanted]
        meta = dict(base.execute('SELECT key, value FROM meta'))
        assert meta['schema'] == 'cudamem-sqlite-1' and meta['pid'] > 0, meta


def queries():
    """Those of the docs: over one snapshot, the script that joins many, and those over many."""
    pieces = re.findall(r'^```sql(| merge| fleet)\n(.*?)^```', QUERIES.read_text(), re.S | re.M)
    single = [sql for kind, sql in pieces if not kind]
    merge, = [sql for kind, sql in pieces if kind == ' merge']
    fleet = [sql for kind, sql in pieces if kind == ' fleet']
    assert len(single) + len(fleet) == 11
    return single, merge, fleet


def merged(merge, path):
    """A database in memory of two hundred copies of one."""
    base = sqlite3.connect(':memory:', isolation_level=None)
    for number in range(200):
        base.executescript(merge.replace('SNAPSHOT', str(path)).replace('NUMBER', str(number)))
    return base


def the_queries_of_the_docs_run(kit_):
    single, merge, fleet = queries()
    path = write_database(kit_)
    with sqlite3.connect(path) as base:
        for sql in single:
            rows = base.execute(sql).fetchall()
            assert rows or "'oom'" in sql or "'outside_alloc'" in sql, sql
    base = merged(merge, path)
    (live,), = base.execute("SELECT SUM(requested_size) FROM all_blocks "
                            "WHERE state = 'active_allocated' AND device = 0").fetchall()
    assert live == 200 * sum(WEIGHTS + KEPT), live
    for sql in fleet:
        base.execute(sql).fetchall()
    assert base.execute(fleet[0]).fetchone()[1] == 200
    base.execute("UPDATE all_blocks SET size = 6 << 20 WHERE state = 'inactive' AND file % 2")
    sizes = base.execute(fleet[3]).fetchall()
    assert sum(mib == 4 for mib, _, _ in sizes) == 1, sizes
    assert all(mib <= size >> 20 < max(1, 2 * mib) for mib, count, total in sizes for size in [total // count]), sizes
    base.close()


def duckdb_answers_as_sqlite_does(kit_):
    python = pathlib.Path(__file__).resolve().parents[2] / '.cache/venv/bin/python'
    if not python.exists():
        raise Skip('.cache/venv is not there; ./dev test makes it')
    single, merge, fleet = queries()
    path = write_database(kit_)
    asked = json.dumps({'single': single, 'merge': merge, 'fleet': fleet})
    run = subprocess.run([python, QUERIES.parents[1] / 'tests/snapshot/duckdb_queries.py', path,
                          '200'], input=asked, capture_output=True, text=True, check=False)
    if run.returncode == 77:
        raise Skip(run.stdout.strip())
    assert run.returncode == 0, run.stderr
    with sqlite3.connect(path) as base:
        rows = [base.execute(sql).fetchall() for sql in single]
    many = merged(merge, path)
    rows += [many.execute(sql).fetchall() for sql in fleet]
    many.close()
    for sql, mine, others in zip((*single, *fleet), rows, json.loads(run.stdout), strict=True):
        assert sorted(map(repr, map(list, mine))) == sorted(map(repr, others)), (sql, mine, others)


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_pickle_is_data_alone, a_pickle_has_only_what_the_viewer_reads,
        json_is_the_same_as_the_pickle, stacks_are_shared_as_pytorch_shares_them,
        the_structure_is_that_of_pytorch, the_viewer_can_draw_it,
        pytorchs_own_tool_reads_it, annotations_come_along,
        ranges_begin_and_end_with_their_events, a_context_stands_as_a_stream,
        perfetto_decodes_with_counters_and_stacks, perfettos_own_description_knows_every_field,
        pprof_decodes_with_gos_four_names,
        pprofs_own_tool_reads_it, speedscope_obeys_its_schema, folded_stacks_add_up,
        csv_has_every_event, events_outside_the_cache_have_their_kind,
        sqlite_says_what_json_says,
        the_queries_of_the_docs_run, duckdb_answers_as_sqlite_does,
        a_format_that_is_not_there_is_named]))
