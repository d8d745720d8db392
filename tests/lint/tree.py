# SPDX-License-Identifier: MIT
"""The files of the source tree, for the lint scripts beside this one.

As a program it prints the paths with the given suffixes, each ended by a zero byte.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = re.compile(r'^(build[^/]*|\.cache|\.git)/|(^|/)__pycache__/')


def names_by_git():
    """What git knows or would add; None where there is no git, or no repository for this user."""
    git = ['git', '-C', str(ROOT), 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
    if not (ROOT / '.git').exists() or not shutil.which('git'):
        return None
    run = subprocess.run(git, check=False, capture_output=True, text=True)
    return None if run.returncode else run.stdout.split('\0')


def files(*suffixes):
    """Paths relative to the root."""
    names = names_by_git()
    if names is None:
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


if __name__ == '__main__':
    print(*files(*sys.argv[1:]), sep='\0', end='\0')
