#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the pictures of README.md, after `./dev demo` has built what they show.

The program of the timeline is solver.c, which runs out of memory on a simulated device of 1 GiB. The
report and the snapshot's summary go to standard output, the plot page is drawn by Chromium into
docs/pictures/timeline.png. docs/pictures/top.png is a frame of `top` a minute after `demo` began.
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

from watched import Stage  # noqa: E402

PLAN = 'memory:1G,context:0,time:real,copy:5us,bandwidth:1T'
BUILD = ROOT / 'build-release'
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


def compile_solver(folder, cuda):
    """With -rdynamic the report can name the program's own functions."""
    runtime = BUILD / 'tests/sim'
    subprocess.run(['cc', '-g', '-O2', '-fno-inline', '-rdynamic', '-o', folder / 'solver',
                    HERE / 'solver.c', f'-I{cuda}/include', f'-L{runtime}', '-l:libcudart.so.13'],
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


def main():
    cuda = sys.argv[1] if len(sys.argv) > 1 else '/usr/local/cuda'
    stage = Stage(BUILD / 'interpose/libcudamem.so', BUILD / 'tools/cudamemstat',
                  BUILD / 'tests/sim', PLAN)
    environment = {'PATH': '/usr/bin:/bin', **stage.environment(False)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compile_solver(folder, cuda)
        subprocess.run([stage.tool, 'run', '--library', stage.library, '--conf', 'stacks:all',
                        '--oom', 'solver.cudamem', '--', './solver', '80'],
                       cwd=folder, env=environment, check=False)
        for command in (['report', 'solver.cudamem'],
                        ['plot', 'timeline', 'solver.cudamem', '-O', 'memory.html']):
            subprocess.run([stage.tool, *command], cwd=folder, check=True)
        take_picture(folder / 'memory.html', 'timeline.png', '1200,560')
        draw_top(stage.tool, folder)


if __name__ == '__main__':
    main()
