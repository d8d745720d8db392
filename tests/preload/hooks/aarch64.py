# SPDX-License-Identifier: MIT
"""The hooks on aarch64: cross-compiled, run by qemu. Arguments: CUDA's include folder, -O level.

The tests of this folder that touch the assembly, in a folder of their own.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = ROOT / 'tests/preload/hooks'
COMPILER = 'aarch64-linux-gnu-gcc'
EMULATOR = 'qemu-aarch64'
SYSROOT = '/usr/aarch64-linux-gnu'

FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-fPIC', '-fvisibility=hidden', '-ftls-model=initial-exec',
         f'-I{ROOT}', '-isystem', sys.argv[1], sys.argv[2]]
ENTRIES = [ROOT / 'interpose' / name for name in (
    'core/reached.c', 'symbols/entry_points.c', 'symbols/hook_table.c', 'symbols/next_symbol.c',
    'symbols/real.c', 'symbols/getproc.c', 'symbols/naming.c', 'symbols/dlsym_aarch64.S',
    'symbols/exports.S', 'symbols/naming_exports.S', 'wrappers/hook_rows.c', 'wrappers/naming_rows.c')]
MODULE_LINK = [f'-Wl,--version-script,{ROOT}/interpose/symbols/libcudamem.map', '-Wl,-Bsymbolic',
               '-Wl,-z,now', '-Wl,-z,defs', '-Wl,-z,text']


def main():
    for tool in (COMPILER, EMULATOR):
        if not shutil.which(tool):
            print(f'skipped: no {tool} here')
            return 77
    with tempfile.TemporaryDirectory() as folder:
        return check(pathlib.Path(folder))


def check(folder):
    def build(name, sources, *arguments):
        target = folder / name
        subprocess.run([COMPILER, *FLAGS, *sources, *arguments, '-o', target], check=True)
        return target

    def library(name, sources, *arguments):
        return build(name, sources, '-shared', f'-Wl,-soname,{name}', *arguments)

    def run(program, *arguments):
        command = [EMULATOR, '-L', SYSROOT, '-E', f'LD_PRELOAD={module}',
                   '-E', f'LD_LIBRARY_PATH={folder}', program, *arguments]
        status = subprocess.run(command, check=False, timeout=300).returncode
        print(f'{program.name}: {status}')
        return status

    module = library('libcudamem_hooks.so', [*ENTRIES, HERE / 'alone.c', HERE / 'pass.S'],
                     *MODULE_LINK)
    driver = library('libcuda.so.1', [HERE / 'driver/driver.c', HERE / 'driver/driver.S'],
                     '-Wl,-Bsymbolic')
    foreign = library('libforeign.so', [HERE / 'foreign.c'])
    third = library('libthird.so', [HERE / 'third.c'])
    behind = library('libbehind.so', [HERE / 'third.c'], '-DBEHIND')
    copy = library('libcopy.so', [HERE / 'third.c'], '-DTHIRD_COPY')

    return max(
        run(build('lookup', [HERE / 'lookup.c']), driver, foreign),
        run(build('getproc', [HERE / 'getproc.c']), driver),
        run(build('linked', [HERE / 'linked.c', driver])),
        run(build('next', [HERE / 'next.c', third, behind, driver]), copy))


if __name__ == '__main__':
    sys.exit(main())
