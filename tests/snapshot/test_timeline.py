#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The timeline of the page: what it draws adds up, and its labels can be read:
test_timeline.py TOOL MAKER [SCREENSHOTS]"""

import re
import sys

import kit
from browser import Browser
from plot_page import VIEWS, drag, finish, page, place, shoot, show


def the_timeline_tells_who_holds_what(kit_):
    with Browser() as browser:
        browser.open(page(kit_))
        side = browser.text('#timeline .side')
        assert 'At the peak: 44.8 MiB allocated' in side, side
        about = browser.text('#facts')
        assert re.search(r'taken \S+ \S+ UTC, after it crashed, was killed or called _exit\(\)', about), about
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
        browser.open(page(kit_, 'timeline', '--last', '1', kit_.saved))
        browser.evaluate('view.press("time")')
        assert browser.evaluate('view.scale.extent()') == 1
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


def a_long_time_has_days(kit_):
    """Also the wrong one of a damaged snapshot."""
    with Browser() as browser:
        browser.open(page(kit_))
        for days, wanted in ((4, '12:00:00'), (60, '10 d'), (6000, '1000 d')):
            tick = browser.evaluate(f'(() => {{ const step = timeStep({days} * 86400000, 8);'
                                    'return formatTimeTick(step, step); })()')
            assert tick == wanted, (days, tick)


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


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        the_timeline_tells_who_holds_what, bands_add_up_to_what_was_allocated,
        the_timeline_zooms_bytes_and_time, memory_outside_the_cache_is_a_band_of_its_device,
        a_long_time_has_days, ticks_do_not_touch_and_tips_cover_nothing]))
