#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who held what, in pictures without a browser (SVG, PNG) and on a terminal: test_still.py TOOL MAKER"""

import struct
import sys
import xml.etree.ElementTree
import zlib

import kit


def unpack_png(data):
    """Width, height and the lines of pixels; every check value is right."""
    assert data.startswith(b'\x89PNG\r\n\x1a\n')
    at, chunks = 8, {}
    while at < len(data):
        count, = struct.unpack_from('>I', data, at)
        kind = data[at + 4:at + 8]
        assert zlib.crc32(data[at + 4:at + 8 + count]) == struct.unpack_from('>I', data, at + 8 + count)[0]
        chunks[kind] = data[at + 8:at + 8 + count]
        at += 12 + count
    width, height = struct.unpack_from('>II', chunks[b'IHDR'])
    lines = zlib.decompress(chunks[b'IDAT'])
    assert len(lines) == (3 * width + 1) * height
    return width, height, [lines[y * (3 * width + 1) + 1:(y + 1) * (3 * width + 1)] for y in range(height)]


def a_still_picture_shows_who_held_what(kit_):
    svg, png = kit_.folder / 'still.svg', kit_.folder / 'still.png'
    kit_.ok('plot', '--svg', kit_.saved, '-O', svg)
    kit_.ok('plot', '--png', 'timeline', kit_.saved, '-O', png)
    root = xml.etree.ElementTree.parse(svg).getroot()
    texts = [node.text for node in root.iter() if node.tag.endswith('text')]
    for text in ('train_step train.py:31 (load_weights)', '38.00 MiB', '6.00 MiB', '788.29 KiB', '500 \u00b5s',
                 'out of memory: 90.00 GiB', 'peak 44.77 MiB allocated, 128.00 MiB reserved'):
        assert text in texts, (text, texts)
    # The weights: 38 of 44.77 MiB * 1.05, from the third event on.
    width, height, lines = unpack_png(png.read_bytes())
    assert (width, height) == (1200, 640)
    column = [lines[y][3 * 800:3 * 800 + 3].hex() for y in range(height)]
    plot = 640 - 62 - 44
    assert abs(column.count('4e79a7') - plot * 38 * kit.MIB / (1.05 * (44 * kit.MIB + 300 * 1024 + 500010))) < 8, \
        column.count('4e79a7')
    # Where callers of one function differ is on the second line of its name.
    kit_.ok('plot', '--svg', '--region', kit_.make(3000, 100, 5), '-f', '-O', svg)
    texts = [node.text for node in xml.etree.ElementTree.parse(svg).getroot().iter() if node.tag.endswith('text')]
    assert sum(text.startswith('< ') and 'main' in text for text in texts) == 5, texts
    # With many of them each has one line, which ends within the picture.
    kit_.ok('plot', '--svg', '--region', kit_.make(3000, 100, 60), '-f', '-O', svg)
    names = [node.text for node in xml.etree.ElementTree.parse(svg).getroot().iter() if node.get('x') == '890.00']
    assert max(map(len, names)) == 37 and sum(name.endswith('...') for name in names) > 9, names
    for words in (('--svg', '--png', kit_.saved), ('--svg', kit_.saved, kit_.saved), ('--png', 'flame', kit_.saved)):
        assert kit_.run('plot', *words, '-f', '-O', svg).returncode == 2, words


def a_still_picture_has_memory_outside_the_cache(kit_):
    region = kit_.make('outside')
    svg, png = kit_.folder / 'outside.svg', kit_.folder / 'outside.png'
    kit_.ok('plot', '--svg', '--region', region, '-O', svg)
    kit_.ok('plot', '--png', '--region', region, '-O', png)
    texts = [node.text for node in xml.etree.ElementTree.parse(svg).iter() if node.tag.endswith('text')]
    assert texts.count('outside the cache') == 1 and 'up to 25.00 MiB' in texts, texts
    # 5, 21, 25 and 9 MiB upon the 64 that are reserved; the picture is as high as 1.05 of the most.
    _, height, lines = unpack_png(png.read_bytes())
    mib = (640 - 62 - 44) / (1.05 * (64 + 25))
    for x, there in ((150, 5), (400, 21), (600, 25), (800, 9)):
        column = [lines[y][3 * x:3 * x + 3].hex() for y in range(height)]
        assert abs(column.count('d0d5dd') - there * mib) < 3, (x, there, column.count('d0d5dd'))
        low = max(y for y in range(height) if column[y] == 'd0d5dd')
        assert abs(height - 44 - low - 64 * mib) < 4, (x, low)
    # Most events are outside the cache: these have the picture.
    kit_.ok('plot', '--svg', '--min-size', '9M', '-f', '--region', region, '-O', svg)
    texts = [node.text for node in xml.etree.ElementTree.parse(svg).iter() if node.tag.endswith('text')]
    assert texts[0].endswith('GPU 0 outside the cache') and texts[1] == 'peak 16.00 MiB allocated', texts


def a_long_time_has_large_units(kit_):
    svg = kit_.folder / 'long.svg'
    for factor, tick in ((10 ** 8, '2 h'), (10 ** 9, '1 d')):
        region = kit_.make()
        region.chmod(0o600)
        data = bytearray(region.read_bytes())
        base, _, last = struct.unpack_from('<3Q', data, 80)  # time_base_ns, tick_last, time_last_ns
        struct.pack_into('<Q', data, 96, base + (last - base) * factor)
        region.write_bytes(data)
        kit_.ok('plot', '--svg', '-f', '--region', region, '-O', svg)
        texts = [node.text for node in xml.etree.ElementTree.parse(svg).iter() if node.tag.endswith('text')]
        assert tick in texts, texts


def the_terminal_shows_it_too(kit_):
    lines = kit_.ok('report', '--graph', '--ascii', kit_.saved).decode().splitlines()
    start = lines.index('  allocated over time, and at the peak')
    graph = lines[start + 1:start + 13]
    assert all(len(line) <= 80 for line in lines[start:start + 18]), lines
    assert graph[0].startswith('     44.77 MiB |') and graph[11].endswith('a' * 60), graph
    # Of twelve lines ten are below 38 MiB; the activations are above.
    assert [line.count('b') > 0 for line in graph] == [True, True] + [False] * 10, graph
    assert '  a   38.00 MiB  train_step train.py:31 (load_weights)' in lines


def its_letters_are_those_of_the_picture_and_of_the_peak(kit_):
    lines = kit_.ok('report', '--graph', '--ascii', kit_.make(200, 4, 8)).decode().splitlines()
    start = lines.index('  allocated over time, and at the peak')
    picture = ''.join(line.partition('|')[2] for line in lines[start + 1:start + 13])
    letters = [(line[2], line.split()[1] != '0') for line in lines[start + 15:]]
    assert all(peak or letter in picture for letter, peak in letters), lines[start:]
    # Some stack was there at another time only, and has its letter.
    assert set(picture) - {' '} <= {letter for letter, _ in letters} and not all(peak for _, peak in letters), letters


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_still_picture_shows_who_held_what, a_still_picture_has_memory_outside_the_cache,
        a_long_time_has_large_units, the_terminal_shows_it_too,
        its_letters_are_those_of_the_picture_and_of_the_peak]))
