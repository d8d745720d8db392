#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which C library ELF files need: glibc.py HIGHEST FILE...

Prints the highest version of GLIBC that each file needs, and the libraries that it names. Ends with 1
if a file needs a version above HIGHEST (2.28): on a system whose C library is older, the loader would
end every program that such a library is preloaded into.
"""

import pathlib
import re
import subprocess
import sys


def needs(path):
    """The highest version of the C library that a file needs, and the libraries it names."""
    text = subprocess.run(['readelf', '--wide', '--version-info', '--dynamic', str(path)],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    versions = {tuple(map(int, version.split('.')))
                for version in re.findall(r'Name: GLIBC_([\d.]+)', text)}
    return max(versions, default=(0,)), set(re.findall(r'\(NEEDED\).*\[(.+)\]', text))


def check(path, highest):
    """Prints what a file needs, ends the program if that is too new, and returns the libraries."""
    version, libraries = needs(path)
    needed = '.'.join(map(str, version))
    print(f'{path.name}: needs GLIBC {needed}, {", ".join(sorted(libraries))}')
    if version > tuple(map(int, highest.split('.'))):
        sys.exit(f'{path.name} needs GLIBC {needed}, which is above {highest}')
    return libraries


if __name__ == '__main__':
    for name in sys.argv[2:]:
        check(pathlib.Path(name), sys.argv[1])
