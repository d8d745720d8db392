#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes what README.md shows of one out-of-memory case, after `./dev demo` has built what it runs.

The program is solver.c, on a simulated device of 1 GiB. The report and the snapshot's summary go to
standard output, the plot page is drawn by Chromium into docs/pictures/timeline.png.
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from watched import Stage  # noqa: E402

PLAN = 'memory:1G,context:0,time:real,copy:5us,bandwidth:1T'
BUILD = ROOT / 'build-release'
PICTURE = ROOT / 'docs/pictures/timeline.png'


def compile_solver(folder, cuda):
    """With -rdynamic the report can name the program's own functions."""
    runtime = BUILD / 'tests/sim'
    subprocess.run(['cc', '-g', '-O2', '-fno-inline', '-rdynamic', '-o', folder / 'solver',
                    HERE / 'solver.c', f'-I{cuda}/include', f'-L{runtime}', '-l:libcudart.so.13'],
                   check=True)


def take_picture(page):
    subprocess.run(['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                    '--window-size=1200,560', '--virtual-time-budget=4000',
                    f'--screenshot={PICTURE}', f'file://{page}'],
                   check=True, stderr=subprocess.DEVNULL)


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
        take_picture(folder / 'memory.html')


if __name__ == '__main__':
    main()
