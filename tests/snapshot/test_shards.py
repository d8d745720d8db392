#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A device with two shards looks as if it had one: test_shards.py TOOL MAKER

The same memory, events and counters stand in two regions: in one row of the device table, and in two.
What the tool says of them must be the same, for the region and for a saved one.
"""

import base64
import gzip
import json
import pathlib
import re
import sqlite3
import sys

import kit

NAME = 'made.cudamem'
# FOLDER has one region, REGION.
COMMANDS = [
    'ls --dir FOLDER -n -b -o PID,GPU,ALLOC,RESERVED,CACHED,FRAGMENTED,PENDING,UNCACHED,PEAK,LARGEST,OOM,HIT%',
    'ls --dir FOLDER --json',
    'stat --region REGION --json',
    'show --region REGION --map',
    'show --region REGION --map=all --json',
    'memory-stats --region REGION --json',
    'memory-stats --region REGION',
    'history status --region REGION',
    'history status --region REGION --json',
    'exporter --dir FOLDER --once',
    'check --dir FOLDER --fail-on=oom',
    'report REGION',
    'report REGION --json',
    'report REGION --by function',
    'report REGION --last 7',
    *(f'export REGION --to {form}' for form in ('pickle', 'json', 'perfetto', 'speedscope',
                                                'folded', 'csv')),
    'export REGION --to csv -d 1',
]
# Files that name themselves or when they were made.
FILES = ['plot REGION -O FILE.html', 'plot REGION --svg -O FILE.svg', 'plot REGION --png -O FILE.png',
         'export REGION --to sqlite -O FILE.db']


def regions(kit_):
    """The paths of a region with one shard, and of one with two."""
    return [kit_.make('shards', count) for count in (1, 2)]


def run(kit_, region, command, file=None):
    for name, path in (('FOLDER', region.parent), ('REGION', region), ('FILE', file)):
        command = command.replace(name, str(path))
    return kit_.run(*command.split())


def tidy(text, region):
    """Without what differs between two regions of any kind: the path, and the time of the copy."""
    text = text.replace(str(region.parent), 'FOLDER')
    text = re.sub(r'"(taken_ns|time)": ?[^,\n]*', r'"\1": 0', text)
    text = re.sub(r'^(cudamem_region_(?:dir_free_)?bytes.*|cudamem_exporter_scrape_seconds) .*$', r'\1', text,
                  flags=re.MULTILINE)
    text = re.sub(r'\btaken [\w.:-]+', 'taken', text)
    # A shard has heaps of its own.
    text = re.sub(r'^(0x\w{12} +[\d.]+\w +)\d', r'\1H', text, flags=re.MULTILINE)
    return re.sub(r', 2 shards$', '', re.sub(r'"shards": ?\d', '"shards": N', text),
                  flags=re.MULTILINE)


def said(kit_, region, command):
    done = run(kit_, region, command)
    assert done.returncode == 0 or command.startswith('check'), (command, done.stderr.decode())
    return done.returncode, tidy((done.stdout + done.stderr).decode('latin-1'), region)


def assert_same(kit_, pair, commands):
    for command in commands:
        one, two = (said(kit_, region, command) for region in pair)
        assert one[1].strip(), command
        if one != two:
            lines = [f'{a}\n{b}' for a, b in zip(one[1].splitlines(), two[1].splitlines()) if a != b]
            raise AssertionError('\n'.join([command, str(one[0]), str(two[0]), *lines[:5]]))


def all_that_is_said_of_a_region_is_the_same(kit_):
    assert_same(kit_, regions(kit_), COMMANDS)


def saved(kit_, region):
    path = region.parent / NAME
    kit_.ok('snapshot', '--region', region, '-O', path)
    return path


def a_saved_region_has_both_shards(kit_):
    pair = [saved(kit_, region) for region in regions(kit_)]
    assert_same(kit_, pair, [command for command in COMMANDS if '--dir' not in command])
    two = json.loads(kit_.ok('show', '--region', pair[1], '--json'))['processes'][0]
    assert [service['shards'] for service in two['services']] == [2, 1], two['services']
    for device in json.loads(kit_.ok('diff', '--json', *pair))['devices']:
        assert device['before'] == device['after'] and not device['changes'], device


def pictures_and_databases_are_the_same(kit_):
    for command in FILES:
        contents = []
        for region in regions(kit_):
            file = region.parent / 'drawn'
            done = run(kit_, region, command, file)
            assert done.returncode == 0, (command, done.stderr.decode())
            path = pathlib.Path(str(file) + re.search(r'FILE(\.\w+)', command)[1])
            if path.suffix == '.db':
                with sqlite3.connect(path) as base:
                    data = '\n'.join(base.iterdump())
            elif path.suffix == '.html':
                packed = re.search(r' data-packing="gzip">([^<]*)<', path.read_text('utf-8'))[1]
                data = gzip.decompress(base64.b64decode(packed)).decode('latin-1')
            else:
                data = path.read_bytes().decode('latin-1')
            contents.append(tidy(data, region))
        assert contents[0] and contents[0] == contents[1], command


def show_tells_how_many_there_are(kit_):
    one, two = (kit_.ok('show', '--region', region, '-d', '0').decode() for region in regions(kit_))
    assert 'shards' not in one, one
    assert re.search(r'^service: reuse by event, placement pieces, 2 shards$', two, re.MULTILINE), two


def the_parts_add_up(kit_):
    """The copy is of one moment: rows and counters agree, over both shards."""
    for region in regions(kit_):
        done = kit_.run('snapshot', '--region', region, '-O', region.parent / NAME)
        assert done.returncode == 0 and b'moment' not in done.stdout + done.stderr, done


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        all_that_is_said_of_a_region_is_the_same,
        a_saved_region_has_both_shards,
        pictures_and_databases_are_the_same,
        show_tells_how_many_there_are,
        the_parts_add_up,
    ]))
