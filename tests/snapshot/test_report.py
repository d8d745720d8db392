#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What report and diff say of a region that is known: test_report.py TOOL MAKER"""

import json
import re
import sys

import kit
from kit import GIB, MIB

LIVE = 38 * MIB + 600015
PEAK = 44 * MIB + 300 * 1024 + 500010


def device(kit_, index, *words):
    data = json.loads(kit_.ok('report', '--json', *(words or (kit_.saved,))))
    assert data['schema'] == 'cudamemstat/report/1'
    return data['devices'][index]


def the_parts_add_up_to_what_is_reserved(kit_):
    for index, reserved in ((0, 128 * MIB), (1, 2 * MIB), (2, 4 * MIB)):
        found = device(kit_, index)
        parts = sum(found[key] for key in ('allocated_bytes', 'pending_free_bytes', 'fragmented_bytes',
                                           'releasable_bytes'))
        assert parts == found['reserved_bytes'] == reserved, found
    found = device(kit_, 0)
    assert found['pending_free_bytes'] == 6 * MIB
    assert found['requested_bytes'] == LIVE + 6 * MIB
    assert found['allocated_bytes'] == found['requested_bytes'] + found['rounding_bytes'] - 6 * MIB
    assert found['releasable_bytes'] == 0  # live blocks share the only segment
    assert found['peak_of_events']['requested_bytes'] == PEAK


def nothing_is_cached_outside_the_cache(kit_):
    devices = json.loads(kit_.ok('report', '--json', kit_.make('shards', 1)))['devices']
    outside = [found for found in devices if found['outside_the_cache']]
    assert len(outside) == 1 and outside[0]['allocated_bytes'] == 28 * MIB, outside
    for found in devices:
        assert found['cached_bytes'] == max(0, found['reserved_bytes'] - found['allocated_bytes']), found


def stacks_add_up_to_what_is_in_use(kit_):
    found = device(kit_, 0)
    assert sum(row['bytes'] for row in found['stacks_allocated']) == LIVE
    assert sum(row['bytes'] for row in found['stacks_at_peak']) == PEAK
    for kind in ('stacks_allocated', 'stacks_at_peak'):
        sizes = [row['bytes'] for row in found[kind]]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) > 1, (kind, sizes)
    names = [[frame['function'] for frame in row['frames']] for row in found['stacks_allocated']]
    assert ['cuda_get', 'load_weights', 'play', 'main'] == names[0][:4], names[0]
    # Four calls on one line are one place.
    assert found['stacks_allocated'][0]['blocks'] == 4


def the_text_says_who_and_why(kit_):
    text = kit_.ok('report', kit_.saved).decode()
    # More is requested than allocated: pending blocks are active, too.
    for name, mib in (('allocated', LIVE / MIB), ('requested, of active blocks', LIVE / MIB + 6)):
        assert re.search(rf'^  {name} +{mib:.2f} MiB', text, re.MULTILINE), (name, mib, text)
    for pattern in (r'allocated\s+38\.57 MiB\s+30\.1%', r'38\.00 MiB\s+4 blocks\s+train_step train\.py:31 \(load_weights\)',
                    r'6\.00 MiB\s+1 block\s+train_step train\.py:31 \(inlined_get\)',
                    r'90\.00 GiB\s+requested, 3\.00 GiB free.*\n.* at train_step train\.py:31 \(fail_for_memory\)',
                    r'91\.00 GiB\s+requested, unknown amount free.*\n.* at train_step train\.py:31 \(fail_for_memory\)',
                    r'pinned host memory', r'44\.77 MiB requested, 128\.00 MiB reserved'):
        assert re.search(pattern, text), (pattern, text)


def rows_of(kit_, *words):
    """The names of what is allocated on the first device."""
    text = kit_.ok('report', *words, kit_.saved).decode()
    part = text.split('allocated now, by ')[1].split('\n\n')[0]
    return re.findall(r'block[s ]  (.*)', part)


def rows_stand_for_what_is_asked_for(kit_):
    for by, names in (('function', ['train_step']), ('library', ['snapshot_maker']),
                      ('range', ['(outside all ranges)']), ('thread', ['(thread unknown)']),
                      ('size', ['11.00 MiB (11534336 B)'])):
        rows = rows_of(kit_, '--by', by)
        assert rows[0] == names[0] or by in ('range', 'thread'), (by, rows)
        found = json.loads(kit_.ok('report', '--json', '--by', by, kit_.saved))['devices'][0]
        assert sum(row['bytes'] for row in found['stacks_allocated']) == LIVE, (by, found)
        if by == 'size':
            rows = [int(re.search(r'(\d+) B\)?$', row)[1]) for row in rows]
        assert [row['size_bytes' if by == 'size' else by] for row in found['stacks_allocated']] == rows, (by, rows)
    assert rows_of(kit_, '--by', 'file')[0].endswith('train.py')
    # Python hidden, native code is named, with its callers.
    rows = rows_of(kit_, '--hide', 'train_step')
    assert re.match(r'load_weights maker\.c:\d+ < play maker\.c:\d+$', rows[0]), rows
    rows = rows_of(kit_, '--hide', 'train_step', '--depth', 1)
    assert re.match(r'load_weights maker\.c:\d+$', rows[0]), rows
    assert 'cuda_get' in kit_.ok('report', '--full', kit_.saved).decode()
    assert kit_.run('report', '--by', 'colour', kit_.saved).returncode == 2


def a_report_has_80_columns(kit_):
    for words in ((), ('--by', 'stack'), ('--hide', 'train_step', '--depth', 9)):
        for line in kit_.ok('report', *words, kit_.saved).decode().splitlines():
            assert len(line) <= 80 or line.startswith('  peak'), line


def what_was_not_recorded_is_said(kit_):
    """And how to have it, where there is a process and where there is none."""
    plain = kit_.make(64, 10)
    hint = 'No stacks were recorded. Next time: cudamemstat run --stacks\n'
    text = kit_.ok('report', '--region', plain).decode()
    assert text.endswith(hint) and '(no stack recorded)' in text, text
    assert 'No stacks' not in kit_.ok('report', kit_.saved).decode()
    none = 'There are no events, so --graph has nothing to draw.\n'
    for words, said in ((('--graph',), False), (('--graph', '--since', '2033-01-01 00:00'), True), ((), False)):
        assert (none in kit_.ok('report', *words, kit_.saved).decode()) == said, words


def temporaries_are_named(kit_):
    many = kit_.make(1000, 10)
    text = kit_.ok('report', '--region', many).decode()
    assert re.search(r'temporary: .*\n\s+1\.00 MiB\s+329 times', text), text
    found, = device(kit_, 0, '--region', many)['stacks_temporary']
    assert (found['bytes'], found['blocks'], found['frames']) == (329 * MIB, 329, []), found


def requests_that_failed_are_named(kit_):
    failed, = device(kit_, 0)['out_of_memory']
    assert (failed['requested_bytes'], failed['device_free_bytes']) == (90 * GIB, 3 * GIB), failed
    assert failed['frames'][0]['function'] == 'fail_for_memory', failed
    # In nanoseconds, when the other events of the region were.
    assert 0 <= failed['time_ns'] - 1700000000 * 10 ** 9 < 10 ** 9, failed
    unknown, = device(kit_, 1)['out_of_memory']
    assert (unknown['requested_bytes'], unknown['device_free_bytes']) == (91 * GIB, None), unknown
    assert device(kit_, 2)['out_of_memory'] == [] == device(kit_, 1)['stacks_temporary']


def a_region_says_what_its_snapshot_says(kit_):
    assert device(kit_, 0, '--region', kit_.region) == device(kit_, 0)


def a_snapshot_equals_itself(kit_):
    run = kit_.run('diff', kit_.saved, kit_.saved)
    assert run.returncode == 0 and b'CHANGE' not in run.stdout, run


def a_difference_is_told_by_stack(kit_):
    other = kit_.make(100, 10)
    run = kit_.run('diff', kit_.saved, other)
    text = run.stdout.decode()
    assert run.returncode == 1, run
    for pattern in (r'-38\.00 MiB\s+-4\s+train_step train\.py:31 \(load_weights\)', r'\+1\.00 MiB\s+\+11\s+\(no stack recorded\)',
                    r'allocated\s+38\.57 MiB\s+1\.01 MiB\s+-37\.5\d MiB'):
        assert re.search(pattern, text), (pattern, text)
    data = json.loads(kit_.run('diff', '--json', kit_.saved, other).stdout)
    first = data['devices'][0]
    # Pending blocks of this region have no rounding.
    held = [first[side]['requested_bytes'] - first[side]['pending_free_bytes'] for side in ('before', 'after')]
    assert sum(row['bytes'] for row in first['changes']) == held[1] - held[0]


def events_outside_the_cache_are_left_out_as_others_are(kit_):
    region = kit_.make('outside')
    run = kit_.run('report', '--json', '--last', '1', '--region', region)
    assert [found['events'] for found in json.loads(run.stdout)['devices']] == [1, 1], run
    whole = sum(found['events'] for found in json.loads(kit_.ok('report', '--json', '--region', region))['devices'])
    assert f'left out: {whole - 2} older events' in run.stderr.decode(), run


def memory_that_lost_its_event_is_no_difference(kit_):
    """Outside the cache there are no blocks, so an event that was overwritten leaves the counters alone."""
    lost, whole = kit_.make('outside'), kit_.make('whole')
    run = kit_.run('diff', lost, whole)
    assert run.returncode == 0 and b'CHANGE' not in run.stdout, run
    outside = json.loads(kit_.run('diff', '--json', kit_.saved, lost).stdout)['devices'][-1]
    rows = {row['stack']: row['bytes'] for row in outside['changes']}
    assert rows == {'(no stack recorded)': 4 * MIB, '(no event recorded)': 5 * MIB}, rows


def as_many_changes_are_printed_as_asked_for(kit_):
    other = kit_.make(100, 10)
    run = kit_.run('diff', '--top', '1', kit_.saved, other)
    text = run.stdout.decode()
    assert run.returncode == 1 and re.search(r'BLOCKS  by caller\n.*-38\.00 MiB.*\n.*  of \d+ other callers?\n', text), text
    run = kit_.run('diff', '--top', '1', '--json', kit_.saved, other)
    assert run.returncode == 2 and b'--json prints all changes' in run.stderr, run


def what_is_left_out_is_said(kit_):
    busy = kit_.make(3000, 100, 7)

    def said(*words):
        run = kit_.run(*words, '--region', busy)
        assert run.returncode == 0, run
        return re.sub(r'(?<=\d) (?=\d{3})', '', run.stderr.decode()), run.stdout.decode()

    events = device(kit_, 0, '--region', busy)['events']
    told, text = said('report', '--json', '--last', 500)
    assert f'left out: {events - 500} older events\n' in told, told
    assert json.loads(text)['devices'][0]['events'] == 500
    # Events are 10 us apart; the last one is at the end of the time.
    told, text = said('report', '--json', '--since', '-0.001')
    assert json.loads(text)['devices'][0]['events'] == 101, told
    told, text = said('report', '--json', '--since', '2023-11-14T22:13:21Z')
    assert json.loads(text)['devices'][0]['events'] == 0 and f'{events} older events' in told, told
    told, text = said('report', '--json', '--min-size', '1.5M')
    small = json.loads(text)['devices'][0]
    assert re.search(r'left out: \d+ events of smaller allocations, \d+ smaller blocks', told), told
    assert all(row['bytes'] >= 1.5 * MIB * row['blocks'] for row in small['stacks_allocated']), small
    assert small['reserved_bytes'] == device(kit_, 0, '--region', busy)['reserved_bytes']
    told, text = said('report', '-d', '1')
    assert 'left out: 1 device' in told and text.count('GPU') == 0, (told, text)
    assert len(re.findall(r'blocks?  +layer', said('report', '--top', 2)[1])) == 4
    # What is summed up keeps its bytes.
    whole, top = ({line.rpartition(' ')[0]: int(line.rpartition(' ')[2])
                   for line in said('export', '--to', 'folded', *words)[1].splitlines()}
                  for words in ((), ('--top', '3')))
    assert sum(whole.values()) == sum(top.values()) and len(whole) == 7 and len(top) == 4
    assert 'GPU 0;(4 other stacks)' in top and set(top) - set(whole) == {'GPU 0;(4 other stacks)'}, top
    assert 'summed up as one: 4 stacks' in said('export', '--to', 'csv', '--top', '3')[0]
    for words in (('--since', 'noon'), ('--since', '-x'), ('--min-size', 'big'), ('--min-size', '0'),
                  ('--min-size', '0.5'), ('--min-size', '1000000000T'),
                  ('--last', '0'), ('-d', 'first')):
        assert kit_.run('report', *words, '--region', busy).returncode == 2, words


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        the_parts_add_up_to_what_is_reserved, nothing_is_cached_outside_the_cache,
        stacks_add_up_to_what_is_in_use,
        the_text_says_who_and_why, rows_stand_for_what_is_asked_for,
        a_report_has_80_columns, what_was_not_recorded_is_said,
        temporaries_are_named, requests_that_failed_are_named,
        a_region_says_what_its_snapshot_says, a_snapshot_equals_itself, a_difference_is_told_by_stack,
        events_outside_the_cache_are_left_out_as_others_are,
        memory_that_lost_its_event_is_no_difference,
        as_many_changes_are_printed_as_asked_for, what_is_left_out_is_said]))
