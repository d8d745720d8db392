#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ./dev package has put into dist/, installed and used: test_packages.py PROGRAM SIMULATION

Each in a folder of its own: a virtual environment, or a root that the packages are unpacked into.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
import zipfile

import stage
from kit import Skip, run_cases

MIB = 1 << 20
PROGRAM, SIMULATION = (os.path.abspath(word) for word in sys.argv[1:3])


def newest_wheel():
    wheels = sorted((stage.ROOT / 'dist').glob('cudamem-*.whl'), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise Skip('no wheel in dist/: ./dev package wheel makes one')
    return wheels[-1]


def unpack_debs(folder):
    """Unpacks the newest of Debian's packages into one root, and returns their names."""
    debs = {}
    for path in sorted((stage.ROOT / 'dist').glob('*.deb'), key=lambda path: path.stat().st_mtime):
        debs[path.name.split('_')[0]] = path
    if not debs:
        raise Skip('no Debian package in dist/: ./dev package deb makes them')
    for path in debs.values():
        subprocess.run(['dpkg-deb', '-x', path, folder], check=True)
    return debs


def install(folder, *words):
    subprocess.run([folder / 'venv/bin/python', '-m', 'pip', 'install', '--quiet', '--no-index',
                    '--disable-pip-version-check', *words, newest_wheel()], check=True)


def runs_the_program(command, folder):
    """`cudamemstat run` starts the program under the library of the package, and sees it."""
    environment = {'PATH': os.environ['PATH'], 'LD_LIBRARY_PATH': SIMULATION}
    with subprocess.Popen([*command, 'run', '--', PROGRAM], stdin=subprocess.PIPE, cwd=folder,
                          stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout.readline() == 'allocated\n'
        maps = pathlib.Path(f'/proc/{program.pid}/maps').read_text(encoding='utf-8')
        assert str(folder) in next(line for line in maps.splitlines() if 'libcudamem.so' in line)
        listed = subprocess.run([*command, 'ls', '--raw', '-n', '-p', str(program.pid), '-o',
                                 'PID,ALLOC'], capture_output=True, text=True, check=True)
        assert listed.stdout == f'{program.pid} {64 * MIB}\n', listed
        table = subprocess.run([*command, 'ls', '-p', str(program.pid)], capture_output=True,
                               text=True, check=True).stdout
        assert '64.0M' in table, table
    assert program.returncode == 0


def it_works_in_a_fresh_environment(folder):
    newest_wheel()
    venv.create(folder / 'venv', with_pip=True)
    install(folder)
    runs_the_program([folder / 'venv/bin/cudamemstat'], folder)
    runs_the_program([folder / 'venv/bin/python', '-m', 'cudamem'], folder)
    said = subprocess.run([folder / 'venv/bin/python', '-c',
                           'import cudamem; print(cudamem.library_path(), cudamem.__version__)'],
                          capture_output=True, text=True, check=True, cwd='/').stdout.split()
    assert pathlib.Path(said[0]).is_file() and said[1] in newest_wheel().name, said


def it_works_where_it_was_installed_apart(folder):
    newest_wheel()
    install(folder, '--target', folder / 'apart')
    runs_the_program([folder / 'apart/cudamem/bin/cudamemstat'], folder)


def it_needs_no_newer_c_library_than_it_says(_folder):
    wheel = newest_wheel()
    sys.path.insert(0, str(stage.ROOT / 'deploy' / 'packaging'))
    import glibc  # pylint: disable=import-outside-toplevel,import-error
    import wheel as packer  # pylint: disable=import-outside-toplevel,import-error
    assert 'manylinux_2_28_' in wheel.name
    with zipfile.ZipFile(wheel) as files, tempfile.NamedTemporaryFile() as file:
        for name in ('cudamem/lib/cudamem/libcudamem.so', 'cudamem/bin/cudamemstat'):
            pathlib.Path(file.name).write_bytes(files.read(name))
            version, libraries = glibc.needs(file.name)
            assert version <= (2, 28) and libraries <= packer.ALLOWED, (name, version, libraries)


def the_debian_packages_make_a_whole(folder):
    root = folder / 'root'
    debs = unpack_debs(root)
    assert {'libcudamem', 'libcudamem-dev', 'cudamemstat', 'cudamem-exporter'} <= set(debs), debs
    runs_the_program([root / 'usr/bin/cudamemstat'], folder)
    for name in ('usr/include/cudamem.h', 'usr/lib/systemd/system/cudamem-exporter.socket',
                 'usr/share/man/man1/cudamemstat.1.gz', 'usr/share/man/man7/libcudamem.7.gz',
                 'usr/share/cudamem/prometheus/cudamem.rules.yml'):
        assert (root / name).is_file(), name
    fields = subprocess.run(['dpkg-deb', '-f', debs['libcudamem'], 'Depends'], check=True,
                            capture_output=True, text=True).stdout
    assert re.fullmatch(r'libc6 \(>= [\d.]+\)\n', fields), fields
    unit = (root / 'usr/lib/systemd/system/cudamem-exporter.service').read_text(encoding='utf-8')
    program = re.search('^ExecStart=/(\\S+) exporter$', unit, re.MULTILINE)[1]
    run = subprocess.run([root / program, 'exporter', '--once'], capture_output=True, text=True,
                         check=True)
    assert 'cudamem_build_info' in run.stdout


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='cudamem-packages-') as root:
        sys.exit(run_cases([it_works_in_a_fresh_environment, it_works_where_it_was_installed_apart,
                            it_needs_no_newer_c_library_than_it_says,
                            the_debian_packages_make_a_whole], pathlib.Path(root)))
