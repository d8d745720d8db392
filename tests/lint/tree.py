# SPDX-License-Identifier: MIT
"""The files of the source tree, for the lint scripts beside this one."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = re.compile(r'^(build[^/]*|\.cache|\.git)/|(^|/)__pycache__/')


def files(*suffixes):
    """Paths relative to the root: those that git knows or would add, or all in a released tree."""
    if (ROOT / '.git').exists():
        git = ['git', '-C', str(ROOT), 'ls-files', '-z', '--cached', '--others',
               '--exclude-standard']
        names = subprocess.run(git, check=True, capture_output=True, text=True).stdout.split('\0')
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob('*')]
    paths = sorted({pathlib.Path(name) for name in names if name and not SKIPPED.search(name)})
    return [path for path in paths
            if (not suffixes or path.suffix in suffixes) and (ROOT / path).is_file()]


def text(path):
    return (ROOT / path).read_text(encoding='utf-8')


def line_of(content, offset):
    return content.count('\n', 0, offset) + 1


def report(complaints):
    """Prints what was found; the exit status of the script."""
    for complaint in complaints:
        print(complaint)
    print(f'{pathlib.Path(sys.argv[0]).stem}: {len(complaints)} complaints')
    return 1 if complaints else 0
