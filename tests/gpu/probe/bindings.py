# SPDX-License-Identifier: MIT
"""Which of the driver's own references come to the library: as the dynamic linker tells of them.

A driver that is not bound inside itself would call us where it means itself; and one that looks
functions up by dlsym reaches our hook, which passes it on.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'clients'))

from common import fact  # noqa: E402

BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")


def bindings(program, library):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, 'LD_PRELOAD': library, 'LD_DEBUG': 'bindings',
                       'LD_DEBUG_OUTPUT': f'{folder}/bindings'}
        subprocess.run([program], env=environment, stdout=subprocess.DEVNULL, check=True)
        for path in pathlib.Path(folder).iterdir():
            yield from BINDING.findall(path.read_text(encoding='utf-8', errors='replace'))


def main():
    build = pathlib.Path(os.environ['GPU_SUITE_BUILD'])
    library = str(build / 'interpose/libcudamem.so')
    found = sorted({symbol for source, target, symbol in bindings(
        str(build / 'tests/gpu/gpu_bench_first'), library)
        if 'libcuda.so' in source and 'libcudamem' in target})
    fact('references that come to the library', len(found), 'symbols', 'libcuda')
    for symbol in found:
        fact('comes to the library', 'yes', '', symbol)
    return 0


if __name__ == '__main__':
    sys.exit(main())
