#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/pictures, after `./dev demo` has built what they show.

The timeline, the flame graph and the sizes are those of solver.c, which runs out of memory on a
simulated device of 1 GiB; blocks and summary are those of `examples/cookbook.c holes`. Chromium draws
them. The report and the snapshot's summary, which README.md quotes, go to standard output. top.png is
a frame of `top` a minute after `demo` began.
"""

import html
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

sys.path.insert(0, str(HERE.parent / 'snapshot'))

from browser import Browser  # noqa: E402
from watched import Stage  # noqa: E402

PLAN = 'memory:1G,context:0,time:real,copy:5us,bandwidth:1T'
HOLES_PLAN = 'memory:16G,context:0,time:real'
BUILD = ROOT / 'build-demo'
PICTURES = ROOT / 'docs/pictures'
TOP_SECONDS = 75
TOP_SIZE = '118x20'
# SGR numbers of the frames as CSS.
STYLES = {'1': 'font-weight:bold', '2': 'opacity:.55', '7': 'background:#c9d1d9;color:#0d1117',
          '31': 'color:#ff7b72', '32': 'color:#3fb950', '33': 'color:#d29922',
          '34': 'color:#6c9eff', '35': 'color:#d675e0', '36': 'color:#39c5cf'}
PAGE = """<meta charset=utf-8><style>body{margin:0;background:#0d1117}pre{margin:0;padding:12px 14px;
color:#c9d1d9;font:15px/18px "DejaVu Sans Mono",monospace}i{display:inline-block;width:1ch;
height:18px;vertical-align:top;font-style:normal;overflow:hidden}</style><pre>%s</pre>"""


def compile_program(source, folder, cuda):
    """With -rdynamic the report can name the program's own functions."""
    program = folder / pathlib.Path(source).stem
    subprocess.run(['cc', '-g', '-O2', '-fno-inline', '-fno-optimize-sibling-calls', '-rdynamic', '-o', program,
                    os.path.relpath(source), f'-I{cuda}/include', f'-L{BUILD / "tests/sim"}', '-l:libcudart.so.13'],
                   check=True)


def take_picture(page, name, size):
    subprocess.run(['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                    f'--window-size={size}', '--virtual-time-budget=4000',
                    f'--screenshot={PICTURES / name}', f'file://{page}'],
                   check=True, stderr=subprocess.DEVNULL)


def as_cells(text):
    """Text as HTML; what may come from a font of other widths stays in its cell."""
    return re.sub('[^\\x00-\\x7f]', r'<i>\g<0></i>', html.escape(text))


def as_page(frame):
    """A frame of `top --color always` as HTML."""
    parts = re.split('\033\\[([0-9;]*)m', frame)
    text = as_cells(parts[0])
    for numbers, words in zip(parts[1::2], parts[2::2]):
        style = ';'.join(STYLES[number] for number in numbers.split(';') if number in STYLES)
        text += f'<span style="{style}">{as_cells(words)}</span>'
    return PAGE % text


def draw_top(tool, folder):
    regions = folder / 'regions'
    regions.mkdir()
    with subprocess.Popen([tool, 'demo', '--dir', regions], stdout=subprocess.DEVNULL) as demo:
        frames = subprocess.run([tool, 'top', '-b', '-n', str(TOP_SECONDS), '--dir', regions,
                                 '--size', TOP_SIZE, '--color', 'always'], check=True, text=True,
                                env={**os.environ, 'LC_ALL': 'C.UTF-8'},
                                stdout=subprocess.PIPE).stdout
        demo.send_signal(signal.SIGINT)
    lines = frames.splitlines()[-int(TOP_SIZE.split('x')[1]):]
    (folder / 'top.html').write_text(as_page('\n'.join(lines)), encoding='utf-8')
    take_picture(folder / 'top.html', 'top.png', '1095,384')


def save_holes(stage, environment, folder):
    """A snapshot of a program that keeps little in many segments."""
    with subprocess.Popen([stage.tool, 'run', '--library', stage.library, '--conf', 'stacks:all', '--', './cookbook',
                           'holes'], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        subprocess.run([stage.tool, 'show', '--fresh', str(program.pid)], stdout=subprocess.DEVNULL, check=True)
        subprocess.run([stage.tool, 'snapshot', str(program.pid), '-O', 'holes.cudamem'], cwd=folder, check=True)
        program.communicate()


def draw_views(tool, folder):
    for snapshot, views in (('solver.cudamem', ('timeline', 'flame', 'sizes')), ('holes.cudamem', ('blocks', 'summary'))):
        subprocess.run([tool, 'plot', snapshot, '-f', '-O', 'page.html'], cwd=folder, check=True)
        with Browser(1200, 760) as browser:  # with its frame
            browser.open(folder / 'page.html')
            for view in views:
                browser.evaluate(f'page.show("{view}")')
                if view == 'blocks':
                    browser.evaluate('view.go(view.device.events - 1)')
                browser.settle()
                browser.screenshot(PICTURES / f'{view}.png')


def main():
    cuda = sys.argv[1] if len(sys.argv) > 1 else '/usr/local/cuda'
    stage = Stage(BUILD / 'interpose/libcudamem.so', BUILD / 'tools/cudamemstat',
                  BUILD / 'tests/sim', PLAN)
    environment = {'PATH': '/usr/bin:/bin', **stage.environment(False)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compile_program(HERE / 'solver.c', folder, cuda)
        compile_program(ROOT / 'examples/cookbook.c', folder, cuda)
        subprocess.run([stage.tool, 'run', '--library', stage.library, '--conf', 'stacks:all',
                        '--oom', 'solver.cudamem', '--', './solver', '80'],
                       cwd=folder, env=environment, check=False)
        subprocess.run([stage.tool, 'report', 'solver.cudamem'], cwd=folder, check=True)
        save_holes(stage, {**environment, 'CUDASIM': HOLES_PLAN}, folder)
        draw_views(stage.tool, folder)
        draw_top(stage.tool, folder)


if __name__ == '__main__':
    main()
