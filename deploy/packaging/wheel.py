#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs an installed tree as a wheel: wheel.py STAGE OUT VERSION PLATFORM

STAGE has bin/cudamemstat and lib/cudamem/libcudamem.so, where the tool finds the library. The same
tree gives the same bytes: names are sorted, times are SOURCE_DATE_EPOCH or 1980. What the files need
of the C library is printed, and refused where the platform's name promises less.
"""

import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

import glibc

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Of the libraries that every system of the platform has (PEP 600), those that we can come to need.
ALLOWED = {'libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', 'librt.so.1', 'libz.so.1',
           'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}


def check(path, platform):
    """A plain linux_x86_64 is for this machine, and promises nothing."""
    if platform.startswith('linux_'):
        return
    promised = re.match(r'manylinux_(\d+_\d+)_', platform)
    libraries = glibc.check(path, promised[1].replace('_', '.') if promised else '0')
    if libraries - ALLOWED:
        sys.exit(f'{path.name} needs {sorted(libraries - ALLOWED)}, which {platform} does not have')


def metadata(version):
    about = ('cudamem is a caching allocator for unmodified CUDA programs (`libcudamem.so`, '
             'preloaded), and `cudamemstat`, which shows what their memory is doing.\n\n'
             '    cudamemstat run -- ./your_cuda_program\n')
    return (f'Metadata-Version: 2.1\nName: cudamem\nVersion: {version}\n'
            'Summary: Caching allocator for unmodified CUDA programs\nLicense: MIT\n'
            'Requires-Python: >=3.7\nDescription-Content-Type: text/markdown\n\n' + about)


def contents(stage, version, platform):
    """Name in the wheel: (bytes, whether it is a program)."""
    info = f'cudamem-{version}.dist-info'
    files = {
        'cudamem/bin/cudamemstat': ((stage / 'bin/cudamemstat').read_bytes(), True),
        'cudamem/lib/cudamem/libcudamem.so':
            ((stage / 'lib/cudamem/libcudamem.so').read_bytes(), False),
        f'{info}/METADATA': (metadata(version).encode(), False),
        f'{info}/WHEEL': (f'Wheel-Version: 1.0\nGenerator: cudamem\nRoot-Is-Purelib: false\n'
                          f'Tag: py3-none-{platform}\n'.encode(), False),
        f'{info}/entry_points.txt': (b'[console_scripts]\ncudamemstat = cudamem:main\n', False),
        f'{info}/LICENSE': ((ROOT / 'LICENSE').read_bytes(), False),
    }
    for source in (HERE / 'python').glob('*.py*'):  # py.typed, too
        text = source.read_text(encoding='utf-8').replace('@VERSION@', version)
        files[f'cudamem/{source.name}'] = (text.encode(), False)
    rows = []
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        rows.append(f'{name},sha256={digest},{len(data)}\n')
    record = f'{info}/RECORD'
    files[record] = (''.join([*rows, f'{record},,\n']).encode(), False)
    return files


def main():
    stage, out, version, platform = pathlib.Path(sys.argv[1]), *sys.argv[2:5]
    for name in ('bin/cudamemstat', 'lib/cudamem/libcudamem.so'):
        check(stage / name, platform)
    when = time.gmtime(max(int(os.environ.get('SOURCE_DATE_EPOCH', 0)), 315532800))[:6]
    path = pathlib.Path(out) / f'cudamem-{version}-py3-none-{platform}.whl'
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as wheel:
        for name, (data, program) in sorted(contents(stage, version, platform).items()):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


if __name__ == '__main__':
    main()
