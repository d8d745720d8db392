#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page answers mouse and keys, and its figures are those of the snapshot:
test_plot.py TOOL MAKER [SCREENSHOTS]"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

import kit
from browser import Browser
from plot_page import VIEWS, drag, finish, page, place, search, shoot, show


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
        assert 'allocated, as requested\n38.6 MiB' in side and 'oom' in side and 'fail_for_memory' in side, side
        assert 'free on the device\n3.00 GiB' in side and 'cached, fragmented\n83.4 MiB' in side, side
        browser.evaluate('view.go(4)')
        browser.settle()
        assert 'allocated, as requested\n38.0 MiB' in browser.text('#blocks .side'), browser.text('#blocks .side')
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
        # One that is gone before the recording begins has no curve.
        listing = [kit_.tool, 'ls', '--dir', folder, '-p', 'eval.py', '-rno']
        os.kill(int(subprocess.run([*listing, 'PID'], capture_output=True, check=True).stdout), signal.SIGKILL)
        while b'crashed' not in subprocess.run([*listing, 'STATE'], capture_output=True, check=True).stdout:
            time.sleep(0.01)
        subprocess.run([kit_.tool, 'stat', '--dir', folder, '--record', recording, '0.1', '5'],
                       stdout=subprocess.DEVNULL, check=True)
        demo.terminate()
        demo.stdout.read()
    path = page(kit_, recording)
    text = re.sub(r'<script type="text/plain".*?</script>', '', path.read_text(encoding='utf-8'), flags=re.S)
    assert 'train.py' not in text and 'http:' not in text and 'https:' not in text
    with Browser() as browser:
        browser.open(path)
        assert browser.evaluate('document.querySelectorAll(".curve:not(.axis)").length') == 2 + 5
        assert 'GPU 1 Made-up card' in browser.text('#views'), browser.text('#views')
        x, y, width, height = browser.box('.curve .stage')
        browser.mouse('mouseMoved', x + width - 2, y + height / 2)
        browser.settle()
        assert browser.evaluate('page.at') == 4 and 'allocated' in browser.text('#tip')
        assert re.search(r'20\d\d-\d\d-\d\d \d\d:\d\d:\d\d to ', browser.text('#facts')), browser.text('#facts')
        shoot(browser, 'recording')
        browser.evaluate('written = []; CanvasRenderingContext2D.prototype.fillText = (text, x) => { written.push([text, x]); }')
        browser.ask('Emulation.setDeviceMetricsOverride', width=400, height=800, deviceScaleFactor=1, mobile=False)
        browser.settle()
        assert browser.evaluate('document.documentElement.scrollWidth') <= 400
        assert browser.evaluate('Math.min(...[...document.querySelectorAll(".curve .stage")].map(s => s.clientWidth))') > 350
        assert browser.evaluate('[...document.querySelectorAll(".curve canvas")].every(c => c.clientWidth > 350)')
        times = {(text, x) for text, x in browser.evaluate('written') if re.fullmatch(r'\d\d:\d\d:\d\d', text)}
        assert len({text for text, _ in times}) == len(times), times  # a second is named once
        shoot(browser, 'recording-400')
        finish(browser)


def a_page_is_named_after_its_program(kit_):
    run = subprocess.run([kit_.tool, 'plot', kit_.saved], cwd=kit_.folder, capture_output=True, text=True, check=True)
    assert run.stdout.startswith('solver-5000100.html: '), run.stdout
    again = subprocess.run([kit_.tool, 'plot', kit_.saved], cwd=kit_.folder, capture_output=True, text=True, check=False)
    assert again.returncode == 3 and 'exists' in again.stderr, again


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_page_names_nothing_outside_itself, a_page_has_all_views_or_one,
        a_range_and_a_block_are_those_of_all_views, keys_work_without_a_click,
        a_search_finds_functions_ranges_and_uses_of_addresses,
        the_state_history_steps_through_events, segments_are_sorted_and_all_reachable,
        what_was_freed_before_the_first_event_says_so, the_flame_graph_turns_and_zooms,
        the_histogram_counts_sizes, the_summary_has_the_figures_of_report,
        two_snapshots_are_compared, a_million_events_stay_usable,
        a_program_without_stacks_is_told_how_to_have_them, a_recording_is_drawn,
        a_page_is_named_after_its_program]))
