#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages draw, answer the mouse and need nothing else: test_plot.py TOOL MAKER [SCREENSHOTS]"""

import pathlib
import re
import struct
import sys

import kit
from browser import Browser

SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None


def page(kit_, kind, source=None):
    path = kit_.folder / f'{kind}.html'
    kit_.ok('plot', kind, source or kit_.saved, '-f', '-O', path)
    return path


def shoot(browser, name):
    if SHOTS:
        browser.screenshot(SHOTS / f'{name}.png')


def finish(browser):
    assert browser.colors() > 8, browser.colors()
    assert not browser.complaints, browser.complaints


def a_page_names_nothing_outside_itself(kit_):
    for kind in ('timeline', 'blocks', 'flame', 'sizes'):
        text = page(kit_, kind).read_text(encoding='utf-8')
        head, data, rest = re.split(r'(<script type="text/plain".*?</script>)', text, flags=re.S)
        assert 'solver' not in head + rest, kind  # foreign text is in the data alone
        for word in ('http:', 'https:', 'src=', '@import', 'url(', 'fetch(', 'import '):
            assert word not in head + rest, (kind, word)
        assert len(data) > 500


def the_timeline_tells_who_holds_what(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'timeline'))
        assert 'At the peak: 44.8 MiB allocated' in browser.text('#side'), browser.text('#side')
        about = browser.text('#facts')
        assert re.search(r'taken \S+ \S+ UTC, after it had crashed or was killed', about), about
        for who in ('train_step (load_weights)', 'train_step (inlined_get)', 'train_step (solver_step)'):
            assert who in browser.text('#breakdown'), (who, browser.text('#breakdown'))
        shoot(browser, 'timeline')
        # The lowest band is the first weight.
        x, y, _, _ = browser.box('#stage')
        plot = browser.evaluate('view.plot')
        at = x + plot['x'] + plot['w'] * 0.6, y + plot['y'] + plot['h'] - 20
        browser.hover(*at)
        tip = browser.text('#tip')
        assert '8.00 MiB' in tip and 'load_weights' in tip and 'still allocated' in tip, tip
        shoot(browser, 'timeline-hover')
        browser.click(*at)
        assert 'Clicked' in browser.text('#side') and 'train.py:31' in browser.text('#side')
        before = browser.evaluate('view.x1 - view.x0')
        browser.wheel(*at, -300)
        assert browser.evaluate('view.x1 - view.x0') < before
        browser.evaluate('document.querySelector("button[data-value=time]").click()')
        browser.settle()
        assert browser.evaluate('view.byTime') is True
        finish(browser)


def a_search_finds_functions_and_ranges(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'timeline'))
        for word, pieces in (('load_weights', 4), ('odd step', 9), ('maker.c', 22), ('nobody', 0)):
            browser.evaluate(f'(() => {{ const s = document.getElementById("search"); s.value = "{word}";'
                             's.dispatchEvent(new Event("input")); })()')
            browser.settle()
            assert browser.text('#found').startswith(f'{pieces} allocations'), (word, browser.text('#found'))
        finish(browser)


def the_state_history_steps_through_events(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'blocks'))
        shoot(browser, 'blocks')
        side = browser.text('#side')
        assert 'allocated\n38.6 MiB' in side and 'oom' in side and 'fail_for_memory' in side, side
        browser.evaluate('view.go(4)')
        browser.settle()
        assert 'allocated\n38.0 MiB' in browser.text('#side'), browser.text('#side')
        browser.evaluate('document.getElementById("oom").click()')
        browser.settle()
        assert browser.evaluate('view.event') == 46
        x, y, _, _ = browser.box('#map canvas')
        browser.hover(x + 212 + 20, y + 16)
        tip = browser.text('#tip')
        assert '8.00 MiB' in tip and 'load_weights' in tip, tip
        shoot(browser, 'blocks-hover')
        browser.click(x + 212 + 20, y + 16)
        assert 'Block' in browser.text('#side')
        # A click on an event goes there.
        x, y, _, _ = browser.box('#events .event:nth-child(12)')
        browser.click(x + 40, y + 10)
        assert browser.evaluate('view.event') < 46
        # A copy has no address.
        browser.evaluate('view.device.event_action[20] = 9; view.go(20)')
        browser.settle()
        side = browser.text('#side')
        assert 'a copy was taken' in side and 'address' not in side, side
        # The driver did not say what was free on the other device.
        browser.evaluate('(() => { const d = document.getElementById("device"); d.value = "1";'
                         'd.dispatchEvent(new Event("change")); })()')
        browser.settle()
        side = browser.text('#side')
        assert 'oom' in side and re.search(r'free on the device\s+unknown', side), side
        finish(browser)


def what_was_freed_before_the_first_event_says_so(kit_):
    path = kit_.folder / 'end.region'
    data = bytearray(kit_.region.read_bytes())
    struct.pack_into('<Q', data, 1624 + 16, 4)  # cm_record.max_entries
    path.write_bytes(data)
    with Browser() as browser:
        browser.open(page(kit_, 'blocks', path))
        browser.evaluate('view.go(-1)')
        browser.settle()
        x, y, _, _ = browser.box('#map canvas')
        addr = browser.evaluate('view.device.event_addr[0] + view.device.event_size[0] / 2')
        at = browser.evaluate(f'({addr} - view.segments[0].addr) * view.scale(view.segments[0])')
        browser.click(x + 212 + at, y + 16)
        side = browser.text('#side')
        assert 'pending free' in side, side
        assert re.search(r'allocated at\s+before the first event\s+freed\s+before the first event',
                         side), side
        finish(browser)


def the_flame_graph_turns_and_zooms(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'flame'))
        shoot(browser, 'flame')
        names = browser.evaluate('view.boxes.map(box => box.node.name)')
        assert 'load_weights' in names and names[0] == 'all', names
        assert browser.evaluate('view.root.value') == 38 * kit.MIB + 600015
        browser.evaluate('document.querySelector("button[data-value=peak]").click()')
        browser.settle()
        assert browser.evaluate('view.root.value') == 44 * kit.MIB + 300 * 1024 + 500010
        x, y, width, _ = browser.box('#stage')
        browser.hover(x + width / 2, y + 14 + 21 * 5 + 8)
        assert '100.0%' in browser.text('#tip'), browser.text('#tip')
        browser.evaluate('document.getElementById("turn").click()')
        browser.settle()
        first = browser.evaluate('view.boxes[1].node.name')
        assert first == 'train_step' or first == 'cuda_get', first
        finish(browser)


def the_histogram_counts_sizes(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'sizes'))
        shoot(browser, 'sizes')
        side = browser.text('#side')
        assert '22, 61.3 MiB' in side.replace('\u202f', ' ') and '10 blocks, 38.6 MiB' in side, side
        finish(browser)


def a_million_events_stay_usable(kit_):
    many = kit_.make(1 << 20, 50000)
    with Browser() as browser:
        for kind in ('timeline', 'blocks'):
            browser.open(page(kit_, kind, many))
            size = (kit_.folder / f'{kind}.html').stat().st_size
            assert size < 64 << 20, (kind, size)
            if kind == 'blocks':
                browser.evaluate('view.go(500000)')
                browser.settle()
                assert '500' in browser.text('#scrub')
            shoot(browser, f'{kind}-many')
            finish(browser)


def a_program_without_stacks_is_told_how_to_have_them(kit_):
    with Browser() as browser:
        browser.open(page(kit_, 'flame', kit_.make(64, 10)))
        assert 'No stacks were recorded' in browser.text('#stage')


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_page_names_nothing_outside_itself, the_timeline_tells_who_holds_what,
        a_search_finds_functions_and_ranges, the_state_history_steps_through_events,
        what_was_freed_before_the_first_event_says_so,
        the_flame_graph_turns_and_zooms, the_histogram_counts_sizes, a_million_events_stay_usable,
        a_program_without_stacks_is_told_how_to_have_them]))
