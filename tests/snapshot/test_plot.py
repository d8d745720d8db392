#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page draws, answers mouse and keys, and its figures are those of the snapshot:
test_plot.py TOOL MAKER [SCREENSHOTS]"""

import json
import pathlib
import re
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree
import zlib

import kit
from browser import Browser

SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
VIEWS = ('timeline', 'blocks', 'flame', 'sizes', 'summary')


def page(kit_, *words, name='page'):
    path = kit_.folder / f'{name}.html'
    kit_.ok('plot', *(words or [kit_.saved]), '-f', '-O', path)
    return path


def shoot(browser, name):
    if SHOTS:
        browser.screenshot(SHOTS / f'{name}.png')


def finish(browser):
    assert not browser.complaints, browser.complaints


def show(browser, name):
    browser.evaluate(f'page.show("{name}")')
    browser.settle()


def search(browser, text):
    browser.evaluate(f'(() => {{ const s = $("search"); s.value = {json.dumps(text)};'
                     's.dispatchEvent(new Event("input")); })()')
    browser.settle()
    return browser.text('#found').replace('\u202f', '')


def drag(browser, start, end, shift=False):
    modifiers = 8 if shift else 0
    browser.mouse('mouseMoved', *start)
    browser.mouse('mousePressed', *start, button='left', clickCount=1, modifiers=modifiers)
    browser.mouse('mouseMoved', *end, button='left', buttons=1, modifiers=modifiers)
    browser.mouse('mouseReleased', *end, button='left', clickCount=1, modifiers=modifiers)
    browser.settle()


def place(browser, event, mib):
    """Where an event and a number of MiB are on the timeline, in the window."""
    x, y, _, _ = browser.box('#timeline .stage')
    at = browser.evaluate(f'[view.scale.px({event}), view.scale.py({mib} * 2 ** 20)]')
    return x + at[0], y + at[1]


def a_page_names_nothing_outside_itself(kit_):
    for words in ([], ['timeline', kit_.saved]):
        text = page(kit_, *words).read_text(encoding='utf-8')
        head, data, rest = re.split(r'(<script type="text/plain".*?</script>)', text, flags=re.S)
        assert 'solver' not in head + rest  # foreign text is in the data alone
        for word in ('http:', 'https:', 'src=', '@import', 'url(', 'fetch(', 'import '):
            assert word not in head + rest, word
        assert len(data) > 500


def a_page_has_all_views_or_one(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        assert browser.evaluate('page.names') == list(VIEWS)
        for name in VIEWS:
            show(browser, name)
            shoot(browser, name)
            assert browser.colors() > 8 if name != 'summary' else browser.text('#summary')
        for name in VIEWS[:4]:
            browser.open(page(kit_, name, kit_.saved, name='one'))
            assert browser.evaluate('[page.names.join(), $("tabs").hidden]') == [name, True]
        finish(browser)


def the_timeline_tells_who_holds_what(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        side = browser.text('#timeline .side')
        assert 'At the peak: 44.8 MiB allocated' in side, side
        about = browser.text('#facts')
        assert re.search(r'taken \S+ \S+ UTC, after it had crashed or was killed', about), about
        rows = [(row.split('\n')[0], row.split('\n')[1:]) for row in
                browser.evaluate('[...document.querySelectorAll("#timeline .stack")].map(row => row.innerText)')]
        assert rows == [('train_step train.py:31 (load_weights)', ['38.0 MiB', '84.9', '4', '38.0 MiB', '\u2013']),
                        ('train_step train.py:31 (inlined_get)', ['6.00 MiB', '13.4', '6', '21.0 MiB', '40 \u00b5s']),
                        ('train_step train.py:31 (solver_step)', ['788 KiB', '1.7', '12', '2.33 MiB', '10 \u00b5s'])], rows
        # Sorted by the number of allocations, and filtered.
        browser.evaluate('document.querySelector("#timeline .heads [data-by=count]").click()')
        first = 'document.querySelector("#timeline .stack .name").innerText'
        assert browser.evaluate(first) == 'train_step train.py:31 (solver_step)'
        browser.evaluate('(() => { const f = document.querySelector("#timeline .filter"); f.value = "WEIGHTS";'
                         'f.dispatchEvent(new Event("input")); })()')
        assert browser.evaluate(first) == 'train_step train.py:31 (load_weights)'
        # The lowest band is the first weight.
        at = place(browser, 30, 4)
        browser.hover(*at)
        tip = browser.text('#tip')
        assert '8.00 MiB' in tip and 'load_weights' in tip and 'still allocated' in tip, tip
        assert '0x7f0000000000_0' in tip, tip
        browser.click(*at)
        assert 'Block' in browser.text('#timeline .side') and 'train.py:31' in browser.text('#timeline .side')
        finish(browser)


def bands_add_up_to_what_was_allocated(kit_):
    """At every zoom, in every column, singles and sums of small ones together."""
    busy = kit_.make(60000, 500, 30)
    with Browser(900, 600) as browser:
        browser.open(page(kit_, '--region', busy))
        wrong = ('(() => { let wrong = 0, columns = 0, singles = 0; view.bands.each((c, sum) => { columns++;'
                 'wrong += Math.abs(sum - world.device.allocatedAt(view.bands.sample[c])) > 0.5; }, () => singles++);'
                 'return [wrong, columns > 100, singles > 1000]; })()')
        for x0, x1 in ((0, 60000), (1000, 9000), (30000, 30400), (59990, 60000)):
            browser.evaluate(f'view.zoomTo({x0}, {x1})')
            browser.settle()
            assert browser.evaluate(wrong)[:2] == [0, True], (x0, browser.evaluate(wrong))
        browser.evaluate('view.reset()')
        browser.settle()
        # The table adds up too, and nothing of it is grey.
        totals = browser.evaluate('(() => { const t = sumByStack(world, -1, world.last, world.device.peak);'
                                  'return [t.held, t.rows.reduce((s, r) => s + r.held, 0),'
                                  'world.device.allocatedAt(world.device.peak), t.rows.length, view.bands.groups.includes(-1)]; })()')
        assert totals[0] == totals[1] == totals[2] > 0 and totals[3:] == [30, False], totals
        finish(browser)


def the_timeline_zooms_bytes_and_time(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        assert browser.evaluate('view.scale.low') == 0
        browser.evaluate('view.press("fit")')
        browser.evaluate('view.zoomTo(20, 40)')
        browser.settle()
        low, high = browser.evaluate('[view.scale.low, view.scale.high].map(v => v / 2 ** 20)')
        assert 36 < low < 38.3 and 43 < high < 47, (low, high)
        # A drag along the left axis shows these bytes.
        x, y, _, _ = browser.box('#timeline .stage')
        ends = [y + browser.evaluate(f'view.scale.py({mib} * 2 ** 20)') for mib in (42, 40)]
        drag(browser, (x + 20, ends[0]), (x + 20, ends[1]))
        low, high = browser.evaluate('[view.scale.low, view.scale.high].map(v => v / 2 ** 20)')
        assert abs(low - 40) < 0.1 and abs(high - 42) < 0.1, (low, high)
        browser.evaluate('view.reset()')
        browser.settle()
        # Capacity is shown where it is wanted: the axis grows.
        browser.evaluate('$("capacity").click()')
        browser.settle()
        assert browser.evaluate('view.scale.high') > 80 * kit.GIB
        browser.evaluate('$("capacity").click()')
        browser.evaluate('view.press("time")')
        browser.settle()
        assert browser.evaluate('view.scale.extent()') == 0.5  # 50 events at 10 us, milliseconds
        texts = browser.evaluate('view.scale.ticks(view.canvas.context).map(([, text]) => text)')
        assert texts[:3] == ['0', '50 \u00b5s', '100 \u00b5s'], texts
        before = browser.evaluate('view.scale.x1 - view.scale.x0')
        browser.wheel(*place(browser, 0.2, 10), -300)
        assert browser.evaluate('view.scale.x1 - view.scale.x0') < before
        finish(browser)


def memory_outside_the_cache_is_a_band_of_its_device(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'timeline', '--region', kit_.make('outside')))
        level = '[...Array(view.device.events).keys()].map(e => view.device.uncachedAfter(e) / 2 ** 20)'
        assert browser.evaluate(level)[-4:] == [5, 21, 25, 9], browser.evaluate(level)
        assert browser.evaluate('view.scale.withUncached(view.device.events - 1)') == 73 * kit.MIB
        shoot(browser, 'outside')
        assert browser.evaluate('view.scale.high') > 89 * kit.MIB
        browser.evaluate('$("uncached").click()')
        browser.settle()
        assert browser.evaluate('view.scale.high') < 89 * kit.MIB
        # Another device has none, and no box for it.
        browser.open(page(kit_, 'timeline', kit_.saved))
        assert browser.evaluate('$("uncached") === null')
        finish(browser)


def ticks_do_not_touch_and_tips_cover_nothing(kit_):
    for width in (1400, 900, 400):
        with Browser(width, 800) as browser:
            browser.ask('Emulation.setDeviceMetricsOverride', width=width, height=800, deviceScaleFactor=1,
                        mobile=False)
            browser.open(page(kit_))
            for axis in ('events', 'time'):
                browser.evaluate(f'view.press("{axis}")')
                browser.settle()
                gaps = browser.evaluate('(() => { const c = view.canvas.context; c.font = AXIS_FONT;'
                                        'const ends = view.scale.ticks(c).map(([v, t]) => [view.scale.px(v),'
                                        'c.measureText(t).width / 2]); return ends.slice(1).map(([x, w], i) =>'
                                        'x - w - ends[i][0] - ends[i][1]); })()')
                assert len(gaps) >= 2 and min(gaps) > 6, (width, axis, gaps)
            browser.evaluate('view.press("events")')
            browser.settle()
            # The failure stands near the right edge, where the levels of lines have their names.
            for brush in ('null', '[0, 90 * 2 ** 30]', '[0, 140 * 2 ** 20]'):
                browser.evaluate('for (const name of ["capacity", "reserved"]) $(name).checked || $(name).click();'
                                 f'view.scale.brush = {brush}; view.canvas.draw()')
                browser.settle()
                boxes, names = browser.evaluate('[view.scale.labels.boxes, view.scale.labels.texts.map(([text]) => text)]')
                assert {name.split()[0] for name in names} >= {'out', '↑' if '140' in brush else 'capacity'}, names
                assert not [1 for i, (x, y, w, h) in enumerate(boxes) for (u, v, s, t) in boxes[:i]
                            if x < u + s and u < x + w and y < v + t and v < y + h], (width, brush, boxes, names)
                assert all(x >= 0 and x + w <= width for x, _, w, _ in boxes), boxes
                shoot(browser, f'labels-{width}')
            browser.evaluate('for (const name of ["capacity", "reserved"]) $(name).click();'
                             'view.scale.brush = null; view.canvas.draw()')
            browser.settle()
            for event, mib in ((30, 4), (44, 30), (41, 41)):
                browser.hover(*place(browser, event + 0.5, mib))
                covered = browser.evaluate('(() => { const t = $("tip").getBoundingClientRect(), [x, y, w, h] ='
                                           'view.place({ c: 0, band: view.bands.at(Math.floor((view.scale.px('
                                           f'{event} + 0.5) - view.plot.x) / view.plot.w * view.bands.count), {mib} * 2 ** 20) }});'
                                           'return t.width > 0 && t.left < x + w && t.right > x && t.top < y + h && t.bottom > y; })()')
                assert covered is False, (width, event, mib)
                assert browser.text('#tip')
            wide = browser.evaluate('document.documentElement.scrollWidth')
            assert wide <= width, wide
            help_, field = browser.box('#help'), browser.box('#search')
            assert abs(help_[1] + help_[3] / 2 - field[1] - field[3] / 2) < 3, (help_, field)  # in one line
            # A long name has further lines, where two callers of one function differ.
            lines = browser.evaluate('(() => { const name = document.querySelector("#timeline .stack .name");'
                                     'name.textContent = "word"; const short = name.offsetHeight;'
                                     'name.textContent = "word ".repeat(60);'
                                     'return name.offsetHeight / short; })()')
            assert abs(lines - 3) < 0.2, lines
            for name in VIEWS:
                show(browser, name)
                shoot(browser, f'{name}-{width}')
                assert browser.evaluate('document.documentElement.scrollWidth') <= width, (name, width)
            show(browser, 'blocks')
            # The labels of segments are not cut.
            assert browser.evaluate('(() => { const c = view.canvas.context; c.font = SEGMENT_FONT;'
                                    'return view.left - 10 >= c.measureText("1000 MiB  100%").width; })()')
            finish(browser)


def a_range_and_a_block_are_those_of_all_views(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        # The third step: events 19 to 25.
        drag(browser, place(browser, 19.5, 2), place(browser, 25.5, 2))
        assert browser.evaluate('world.range') == [19, 25], browser.evaluate('world.range')
        side = browser.text('#timeline .side').replace('\u202f', '')
        assert 'At the peak of the range: 41.5 MiB' in side and 'events 19 to 25, 60 \u00b5s' in side, side
        show(browser, 'flame')
        browser.evaluate('view.choose("measure", "allocated")')
        assert browser.evaluate('view.root.value') == 3 * kit.MIB + 300 * 1024 + 100002
        assert 'events 19 to 25' in browser.text('#flame .side')
        show(browser, 'sizes')
        assert '3, 3.39 MiB' in browser.text('#sizes .side'), browser.text('#sizes .side')
        # A block that was clicked in one view is found in the others.
        show(browser, 'timeline')
        browser.evaluate('page.letGo()')
        browser.click(*place(browser, 20.5, 40))
        held = browser.evaluate('world.block')
        assert held >= 0
        browser.evaluate('world.set({ cursor: 45 })')
        browser.evaluate('document.querySelector("#timeline .links [data-to=blocks]").click()')
        browser.settle()
        assert browser.evaluate('[view.name, view.segments.some(s => s.blocks.includes(world.block))]') == ['blocks', True]
        assert '3.00 MiB' in browser.text('#blocks .side'), browser.text('#blocks .side')
        show(browser, 'flame')
        browser.evaluate('view.choose("measure", "peak")')
        dims = browser.evaluate('view.boxes.filter(b => !view.isDim(b.node)).map(b => b.node.name)')
        assert 'inlined_get' in dims and 'load_weights' not in dims, dims
        finish(browser)


def keys_work_without_a_click(kit_):
    def press(key):
        for kind in ('keyDown', 'keyUp'):
            browser.ask('Input.dispatchKeyEvent', type=kind, key=key, text=key if len(key) == 1 else '')
        browser.settle()

    with Browser() as browser:
        browser.open(page(kit_))
        press('+')
        assert browser.evaluate('view.scale.x1 - view.scale.x0') < 47
        press('0')
        assert browser.evaluate('view.scale.x1 - view.scale.x0') == 47
        press('2')
        assert browser.evaluate('view.name') == 'blocks'
        before = browser.evaluate('world.cursor')
        press('ArrowDown')
        assert browser.evaluate('world.cursor') == before + 1
        press('?')
        text = browser.text('#keys')
        assert 'the next event' in text and 'search' in text, text
        shoot(browser, 'help')
        press('?')
        assert browser.evaluate('$("keys").open') is False
        press('/')
        press('2')  # is text now
        assert browser.evaluate('[view.name, $("search").value]') == ['blocks', '2']
        press('Escape')
        assert browser.evaluate('[$("search").value, world.search.active]') == ['', False]
        finish(browser)


def a_search_finds_functions_ranges_and_uses_of_addresses(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        for word, pieces in (('load_weights', 4), ('odd step', 9), ('maker.c', 22), ('nobody', 0),
                             ('0x7f0000000000', 1), ('0x7f00008', 1), ('0x7f00', 22), ('0x7f0000000000_0', 1),
                             ('0x7f0000000000_1', 0)):
            found = search(browser, word)
            assert found.startswith(f'{pieces} allocation'), (word, found)
        # In the list of events it filters, and Enter goes on.
        show(browser, 'blocks')
        assert search(browser, 'load_weights') == '4 events'
        lines = browser.evaluate('[...document.querySelectorAll(".event")].map(line => Number(line.dataset.event))')
        assert lines == [1, 2, 3, 4], lines
        for event in (1, 2, 3, 4, 1):
            browser.evaluate('page.searchKey(new KeyboardEvent("keydown", { key: "Enter" }))')
            browser.settle()
            assert browser.evaluate('world.cursor') == event
        assert search(browser, '0x7f0000000000_0') == '1 event'
        finish(browser)


def the_state_history_steps_through_events(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        show(browser, 'blocks')
        browser.evaluate('view.go(46)')
        browser.settle()
        side = browser.text('#blocks .side')
        assert 'allocated\n38.6 MiB' in side and 'oom' in side and 'fail_for_memory' in side, side
        assert 'free on the device\n3.00 GiB' in side and 'cached, fragmented\n83.4 MiB' in side, side
        browser.evaluate('view.go(4)')
        browser.settle()
        assert 'allocated\n38.0 MiB' in browser.text('#blocks .side'), browser.text('#blocks .side')
        browser.evaluate('document.getElementById("oom").click()')
        browser.settle()
        assert browser.evaluate('world.cursor') == 46
        x, y, _, _ = browser.box('#blocks .map canvas')
        left = browser.evaluate('view.left')
        browser.hover(x + left + 20, y + 16)
        tip = browser.text('#tip')
        assert '8.00 MiB' in tip and 'load_weights' in tip, tip
        browser.click(x + left + 20, y + 16)
        assert 'Block' in browser.text('#blocks .side')
        # The hole at the end is coloured, and says what it is.
        hole = browser.evaluate('(() => { const s = view.segments[0], [a, b] = s.holes[s.holes.length - 1];'
                                'return (a + b / 2 - s.addr) * view.scale(s); })()')
        browser.hover(x + left + hole, y + 16)
        assert 'hole, fragmented' in browser.text('#tip') and '66.7 MiB' in browser.text('#tip'), browser.text('#tip')
        # A click on an event goes there.
        x, y, _, _ = browser.box('#blocks .event:nth-child(12)')
        browser.click(x + 40, y + 10)
        assert browser.evaluate('world.cursor') < 46
        # A copy has no address.
        browser.evaluate('page.letGo(); world.device.event_action.values[20] = 9; view.go(20)')
        browser.settle()
        side = browser.text('#blocks .side')
        assert 'a copy was taken' in side and 'address' not in side, side
        # The driver did not say what was free on the other device.
        browser.evaluate('page.choose(1)')
        browser.evaluate('view.nextOom()')
        browser.settle()
        side = browser.text('#blocks .side')
        assert 'oom' in side and re.search(r'free on the device\s+unknown', side), side
        finish(browser)


def segments_are_sorted_and_all_reachable(kit_):
    with Browser(1200, 500) as browser:
        browser.open(page(kit_))
        show(browser, 'blocks')
        # As of a program with 300 segments.
        browser.evaluate('(() => { const d = world.device, n = 300, c = (f) => new Column(Float64Array.from({ length: n },'
                         '(_, i) => f(i)), 0, 1); d.seg_addr = c(i => 0x7f0000000000 + i * 2 ** 28);'
                         'd.seg_size = c(i => (1 + (i * 7) % 50) * 2 ** 21); d.seg_begin = c(() => BEFORE);'
                         'd.seg_end = c(() => NEVER); d.seg_small = c(() => 0); d.seg_paged = c(() => 0); view.update(); })()')
        browser.settle()
        browser.evaluate('view.map.scrollTop = 1e9')
        browser.settle()
        last = browser.evaluate('[Math.floor((view.map.clientHeight + view.map.scrollTop - 8) / view.row), view.segments.length]')
        assert last[0] >= 299 and last[1] == 300, last
        browser.evaluate('view.controls.querySelector("[data-value=size]").click()')
        sizes = browser.evaluate('view.segments.map(s => s.size)')
        assert sizes == sorted(sizes, reverse=True)
        browser.evaluate('view.controls.querySelector("[data-value=emptiness]").click()')
        empty = browser.evaluate('view.segments.map(s => s.free / s.size)')
        assert empty == sorted(empty, reverse=True) and empty[0] == 1
        finish(browser)


def what_was_freed_before_the_first_event_says_so(kit_):
    path = kit_.folder / 'end.region'
    data = bytearray(kit_.region.read_bytes())
    struct.pack_into('<Q', data, 1624 + 16, 4)  # cm_record.max_entries
    path.write_bytes(data)
    with Browser() as browser:
        browser.open(page(kit_, '--region', path))
        show(browser, 'blocks')
        browser.evaluate('view.go(-1)')
        browser.settle()
        x, y, _, _ = browser.box('#blocks .map canvas')
        addr = browser.evaluate('world.device.event_addr.at(0) + world.device.event_size.at(0) / 2')
        at = browser.evaluate(f'view.left + ({addr} - view.segments[0].addr) * view.scale(view.segments[0])')
        browser.click(x + at, y + 16)
        side = browser.text('#blocks .side')
        assert 'pending free' in side, side
        assert re.search(r'allocated\s+before the first event\s+freed\s+before the first event', side), side
        finish(browser)


def the_flame_graph_turns_and_zooms(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        show(browser, 'flame')
        names = browser.evaluate('view.boxes.map(box => box.node.name)')
        assert 'load_weights' in names and names[0] == 'all', names
        assert browser.evaluate('view.root.value') == 38 * kit.MIB + 600015
        browser.evaluate('view.choose("measure", "peak")')
        browser.settle()
        assert browser.evaluate('view.root.value') == 44 * kit.MIB + 300 * 1024 + 500010
        browser.evaluate('view.choose("measure", "kept")')
        assert browser.evaluate('view.root.value') == 38 * kit.MIB + 600015
        browser.evaluate('view.choose("measure", "allocated")')
        assert browser.evaluate('view.root.value') == 38 * kit.MIB + 21 * kit.MIB + 6 * 300 * 1024 + 600015
        x, y, width, _ = browser.box('#flame .stage')
        browser.hover(x + width / 2, y + 14 + 21 * 5 + 8)
        assert '100.0%' in browser.text('#tip'), browser.text('#tip')
        browser.evaluate('document.getElementById("turn").click()')
        browser.settle()
        first = browser.evaluate('view.boxes[1].node.name')
        assert first in ('train_step', 'cuda_get'), first
        finish(browser)


def the_histogram_counts_sizes(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        show(browser, 'sizes')
        side = browser.text('#sizes .side')
        assert '22, 61.3 MiB' in side.replace('\u202f', ' ') and '10 blocks, 38.6 MiB' in side, side
        finish(browser)


def the_summary_has_the_figures_of_report(kit_):
    report = json.loads(kit_.ok('report', kit_.saved, '--json'))['devices'][0]
    with Browser() as browser:
        browser.open(page(kit_))
        show(browser, 'summary')
        text = browser.text('#summary').replace('\u202f', '')
        for name in ('allocated', 'requested', 'rounding', 'pending_free', 'fragmented', 'releasable', 'reserved'):
            assert browser.evaluate(f'world.device.figures.{name}') == report[f'{name}_bytes'], name
        for piece in ('allocated', 'of active blocks 44.6 MiB were requested', '38.6 MiB', '83.4 MiB in 7 holes', '44.8 MiB by 3 stacks',
                      '22 allocations, 12 frees', 'out of memory', '90.0 GiB', 'largest request'):
            assert piece in text, (piece, text)
        browser.evaluate('[...document.querySelectorAll("#summary .row")].find(r => r.innerText.startsWith("out of memory")).click()')
        browser.settle()
        assert browser.evaluate('[view.name, world.cursor]') == ['timeline', 46]
        finish(browser)


def two_snapshots_are_compared(kit_):
    with Browser() as browser:
        second = kit_.make(3000, 100, 5)
        kit_.ok('snapshot', '--region', second, '-f', '-O', kit_.folder / 'second.cudamem')
        browser.open(page(kit_, kit_.saved, kit_.folder / 'second.cudamem'))
        assert browser.evaluate('page.names')[-1] == 'compare'
        show(browser, 'compare')
        shoot(browser, 'compare')
        cells = '[...document.querySelectorAll("#compare td:first-child")]'
        assert browser.evaluate(f'{cells}.every(td => td.scrollWidth <= td.clientWidth)')
        assert browser.evaluate(f'{cells}.some(td => td.clientHeight > 40)')  # a long name has lines of its own
        browser.evaluate('$("help").click()')
        assert browser.text('#keys').startswith('All views'), browser.text('#keys')  # the view has no keys of its own
        browser.evaluate('$("help").click()')
        totals = browser.evaluate('view.totals')
        assert totals[0] == 38 * kit.MIB + 600015, totals
        assert totals[1] == browser.evaluate('page.about.files[1].devices[0].figures.requested'), totals
        browser.ask('Emulation.setDeviceMetricsOverride', width=400, height=800, deviceScaleFactor=1, mobile=False)
        browser.settle()
        assert browser.evaluate('document.documentElement.scrollWidth') <= 400
        browser.ask('Emulation.clearDeviceMetricsOverride')
        assert '38.0 MiB' in browser.text('#compare .side') and '-38.0 MiB' in browser.text('#compare .side')
        browser.evaluate('page.open(1)')
        browser.settle()
        assert browser.evaluate('world.device.events') > 2900
        finish(browser)


def a_million_events_stay_usable(kit_):
    many = kit_.make(1500000, 2000, 60)
    path = page(kit_, '--region', many, name='many')
    many.unlink()
    assert path.stat().st_size < 24 << 20, path.stat().st_size
    with Browser() as browser:
        start = time.monotonic()
        browser.open(path)
        seconds = time.monotonic() - start
        used = browser.ask('Runtime.getHeapUsage')
        total = used['usedSize'] + used['backingStorageSize'] + used['embedderHeapUsedSize']
        assert total < 150e6, used
        assert seconds < 20, seconds  # 1 to 3 s when nothing else runs
        shoot(browser, 'many')
        show(browser, 'blocks')
        browser.evaluate('view.go(750000)')
        browser.settle()
        assert '750000' in browser.text('#blocks .scrub').replace('\u202f', '')
        assert browser.evaluate('[...document.querySelectorAll(".event")].some(e => e.dataset.event === "750000")')
        finish(browser)


def a_program_without_stacks_is_told_how_to_have_them(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'flame', '--region', kit_.make(64, 10)))
        assert 'No stacks were recorded' in browser.text('#flame .stage')


def a_recording_is_drawn(kit_):
    folder = kit_.folder / 'demo'
    folder.mkdir()
    with subprocess.Popen([kit_.tool, 'demo', '--dir', folder], stdout=subprocess.PIPE, text=True) as demo:
        demo.stdout.readline()
        recording = kit_.folder / 'day.rec'
        subprocess.run([kit_.tool, 'stat', '--dir', folder, '--record', recording, '0.1', '5'],
                       stdout=subprocess.DEVNULL, check=True)
        demo.terminate()
        demo.stdout.read()
    path = page(kit_, recording)
    text = re.sub(r'<script type="text/plain".*?</script>', '', path.read_text(encoding='utf-8'), flags=re.S)
    assert 'train.py' not in text and 'http:' not in text and 'https:' not in text
    with Browser() as browser:
        browser.open(path)
        assert browser.evaluate('document.querySelectorAll(".curve:not(.axis)").length') == 2 + 6
        assert 'GPU 1 Made-up card' in browser.text('#views'), browser.text('#views')
        x, y, width, height = browser.box('.curve .stage')
        browser.mouse('mouseMoved', x + width - 2, y + height / 2)
        browser.settle()
        assert browser.evaluate('page.at') == 4 and 'allocated' in browser.text('#tip')
        assert re.search(r'20\d\d-\d\d-\d\d \d\d:\d\d:\d\d to ', browser.text('#facts')), browser.text('#facts')
        shoot(browser, 'recording')
        browser.ask('Emulation.setDeviceMetricsOverride', width=400, height=800, deviceScaleFactor=1, mobile=False)
        browser.settle()
        assert browser.evaluate('document.documentElement.scrollWidth') <= 400
        assert browser.evaluate('Math.min(...[...document.querySelectorAll(".curve .stage")].map(s => s.clientWidth))') > 350
        assert browser.evaluate('[...document.querySelectorAll(".curve canvas")].every(c => c.clientWidth > 350)')
        shoot(browser, 'recording-400')
        finish(browser)


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


def the_terminal_shows_it_too(kit_):
    lines = kit_.ok('report', '--graph', '--ascii', kit_.saved).decode().splitlines()
    start = lines.index('  allocated over time, and at the peak')
    graph = lines[start + 1:start + 13]
    assert all(len(line) <= 80 for line in lines[start:start + 18]), lines
    assert graph[0].startswith('     44.77 MiB |') and graph[11].endswith('a' * 60), graph
    # Of twelve lines ten are below 38 MiB; the activations are above.
    assert [line.count('b') > 0 for line in graph] == [True, True] + [False] * 10, graph
    assert '  a   38.00 MiB  train_step train.py:31 (load_weights)' in lines


def a_page_is_named_after_its_program(kit_):
    run = subprocess.run([kit_.tool, 'plot', kit_.saved], cwd=kit_.folder, capture_output=True, text=True, check=True)
    assert run.stdout.startswith('solver-5000100.html: '), run.stdout
    again = subprocess.run([kit_.tool, 'plot', kit_.saved], cwd=kit_.folder, capture_output=True, text=True, check=False)
    assert again.returncode == 3 and 'exists' in again.stderr, again


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_page_names_nothing_outside_itself, a_page_has_all_views_or_one, the_timeline_tells_who_holds_what,
        bands_add_up_to_what_was_allocated, the_timeline_zooms_bytes_and_time,
        memory_outside_the_cache_is_a_band_of_its_device,
        ticks_do_not_touch_and_tips_cover_nothing, a_range_and_a_block_are_those_of_all_views,
        keys_work_without_a_click, a_search_finds_functions_ranges_and_uses_of_addresses,
        the_state_history_steps_through_events, segments_are_sorted_and_all_reachable,
        what_was_freed_before_the_first_event_says_so,
        the_flame_graph_turns_and_zooms, the_histogram_counts_sizes, the_summary_has_the_figures_of_report,
        two_snapshots_are_compared, a_still_picture_shows_who_held_what,
        a_still_picture_has_memory_outside_the_cache,
        the_terminal_shows_it_too, a_million_events_stay_usable,
        a_program_without_stacks_is_told_how_to_have_them, a_recording_is_drawn, a_page_is_named_after_its_program]))
