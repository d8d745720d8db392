# SPDX-License-Identifier: MIT
"""The walk of the stack on aarch64: cross-compiled, run by qemu."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = 'aarch64-linux-gnu-gcc'
EMULATOR = 'qemu-aarch64'
FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Werror', f'-I{ROOT}']


def build(folder):
    def compile_one(source, name, *flags):
        target = folder / name
        subprocess.run([COMPILER, *FLAGS, *flags, '-c', ROOT / source, '-o', target], check=True)
        return target

    objects = [
        compile_one('tests/unit/chain.c', 'O0.o', '-O0', '-DVARIANT=O0'),
        compile_one('tests/unit/chain.c', 'O2.o', '-O2', '-DVARIANT=O2'),
        compile_one('tests/unit/walk.c', 'walk.o', '-O2'),
        compile_one('interpose/stacks/readable.c', 'readable.o', '-O2'),
        compile_one('interpose/stacks/unwind.c', 'unwind.o', '-O2', '-fno-omit-frame-pointer'),
    ]
    program = folder / 'walk'
    subprocess.run([COMPILER, *objects, '-static', '-o', program], check=True)
    return program


def main():
    for tool in (COMPILER, EMULATOR):
        if not shutil.which(tool):
            print(f'skipped: no {tool} here')
            return 77
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([EMULATOR, build(pathlib.Path(folder))], check=False,
                              timeout=300).returncode


if __name__ == '__main__':
    sys.exit(main())
