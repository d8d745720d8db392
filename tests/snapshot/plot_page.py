# SPDX-License-Identifier: MIT
"""What the tests of the page share: its views, the search and the mouse. With a third argument a test
puts screenshots into that folder."""

import json
import pathlib
import sys

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
