#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ./dev package has put into dist/, installed and used:
test_packages.py PROGRAM SIMULATION TOOL LIBRARY TOOLKIT_INCLUDE

Without a wheel there, one is packed of the build's own TOOL and LIBRARY. Each is installed
into a folder of its own: a virtual environment, or a root in which nothing else is installed.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

import clean_root
import stage
from kit import Skip, run_cases

MIB = 1 << 20
PROGRAM, SIMULATION, TOOL, LIBRARY, HEADERS = (os.path.abspath(word) for word in sys.argv[1:6])
PACKAGING = stage.ROOT / 'deploy' / 'packaging'


def newest(pattern, kind):
    """The newest file of dist/."""
    files = sorted((stage.ROOT / 'dist').glob(pattern), key=lambda path: path.stat().st_mtime)
    if not files:
        raise Skip(f'no {kind} in dist/: ./dev package {kind} makes it')
    return files[-1]


def some_wheel(folder):
    """That of dist/, or one for this machine alone."""
    try:
        return newest('cudamem-*.whl', 'wheel')
    except Skip:
        for name, source in (('bin/cudamemstat', TOOL), ('lib/cudamem/libcudamem.so', LIBRARY)):
            (folder / 'stage' / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / 'stage' / name)
        platform = f'linux_{os.uname().machine}'
        subprocess.run([sys.executable, PACKAGING / 'wheel.py', folder / 'stage', folder, '0.1.0',
                        platform], check=True, stdout=subprocess.DEVNULL)
        return folder / f'cudamem-0.1.0-py3-none-{platform}.whl'


def newest_debs():
    """The newest of Debian's packages by name; those of symbols for debuggers are left out."""
    version = newest('libcudamem_*.deb', 'deb').name.split('_')[1]
    found = (stage.ROOT / 'dist').glob(f'*_{version}_*.deb')
    return {path.name.split('_')[0]: path for path in found if '-dbgsym' not in path.name}


def install(folder, *words):
    """Installs the wheel into a folder, and returns the wheel's path."""
    wheel = some_wheel(folder)
    subprocess.run([folder / 'venv/bin/python', '-m', 'pip', 'install', '--quiet', '--no-index',
                    '--disable-pip-version-check', *words, wheel], check=True)
    return wheel


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
    venv.create(folder / 'venv', with_pip=True)
    wheel = install(folder)
    runs_the_program([folder / 'venv/bin/cudamemstat'], folder)
    runs_the_program([folder / 'venv/bin/python', '-m', 'cudamem'], folder)
    said = subprocess.run([folder / 'venv/bin/python', '-c',
                           'import cudamem; print(cudamem.library_path(), cudamem.__version__)'],
                          capture_output=True, text=True, check=True, cwd='/').stdout.split()
    assert pathlib.Path(said[0]).is_file() and said[1] in wheel.name, said
    asked = subprocess.run([folder / 'venv/bin/cudamemstat', 'run', '--',
                            folder / 'venv/bin/python', '-c',
                            'import cudamem; print(cudamem.memory_allocated())'],
                           capture_output=True, text=True, check=False, cwd='/')
    assert asked.stdout == '0\n', asked


def it_works_where_it_was_installed_apart(folder):
    install(folder, '--target', folder / 'apart')
    runs_the_program([folder / 'apart/cudamem/bin/cudamemstat'], folder)


def it_needs_no_newer_c_library_than_it_says(_folder):
    wheel = newest('cudamem-*.whl', 'wheel')
    sys.path.insert(0, str(PACKAGING))
    import glibc  # pylint: disable=import-outside-toplevel,import-error
    import wheel as packer  # pylint: disable=import-outside-toplevel,import-error
    assert 'manylinux_2_28_' in wheel.name
    with zipfile.ZipFile(wheel) as files, tempfile.NamedTemporaryFile() as file:
        for name in ('cudamem/lib/cudamem/libcudamem.so', 'cudamem/bin/cudamemstat'):
            pathlib.Path(file.name).write_bytes(files.read(name))
            version, libraries = glibc.needs(file.name)
            assert version <= (2, 28) and libraries <= packer.ALLOWED, (name, version, libraries)


def the_debian_packages_make_a_whole(folder):
    root = folder / 'unpacked'
    debs = newest_debs()
    for path in debs.values():
        subprocess.run(['dpkg-deb', '-x', path, root], check=True)
    assert {'libcudamem', 'libcudamem-dev', 'cudamemstat', 'cudamem-exporter'} <= set(debs), debs
    runs_the_program([root / 'usr/bin/cudamemstat'], folder)
    for name in ('usr/include/cudamem.h', 'lib/systemd/system/cudamem-exporter.socket',
                 'usr/share/man/man1/cudamemstat.1.gz', 'usr/share/man/man7/libcudamem.7.gz',
                 'usr/share/bash-completion/completions/cudamemstat.bash',
                 'usr/share/fish/vendor_completions.d/cudamemstat.fish',
                 'usr/share/zsh/vendor-completions/_cudamemstat',  # where Debian's zsh looks
                 'usr/share/cudamem/prometheus/cudamem.rules.yml'):
        assert (root / name).is_file(), name
    described, = (root / 'usr/lib').glob('*/pkgconfig/cudamem.pc')
    preload = re.search(r'^preload=\$\{prefix\}/(.+)$', described.read_text(encoding='ascii'),
                        re.MULTILINE)[1]
    assert (root / 'usr' / preload).is_file(), preload
    fields = subprocess.run(['dpkg-deb', '-f', debs['libcudamem'], 'Depends'], check=True,
                            capture_output=True, text=True).stdout
    assert fields == 'libc6 (>= 2.28)\n', fields
    for script, does in (('prerm', 'deb-systemd-invoke stop'), ('postrm', 'deb-systemd-helper purge')):
        said = subprocess.run(['dpkg-deb', '-I', debs['cudamem-exporter'], script], check=True,
                              capture_output=True, text=True).stdout
        assert f"{does} 'cudamem-exporter.service' 'cudamem-exporter.socket'" in said, said
    unit = (root / 'lib/systemd/system/cudamem-exporter.service').read_text(encoding='utf-8')
    program = re.search('^ExecStart=/(\\S+) exporter$', unit, re.MULTILINE)[1]
    run = subprocess.run([root / program, 'exporter', '--once'], capture_output=True, text=True,
                         check=True)
    assert 'cudamem_build_info' in run.stdout


# The program under the library, seen by the tool; $1 is done while it runs.
USE = '''
cd /srv
mkfifo go
LD_LIBRARY_PATH=/srv cudamemstat run -- ./fleet_program <go >said &
exec 3>go
until grep -q allocated said; do sleep 0.1; done
%s
cudamemstat ls --raw -n -o ALLOC,COMMAND
cudamemstat exporter --once | grep ^cudamem_allocated_bytes
exec 3>&-
wait $!
rm go said
'''


def uses(root, meanwhile=':'):
    """A CUDA program runs under what is installed in a root, and is seen there."""
    root.put(PROGRAM, *(f'{SIMULATION}/{name}' for name in ('libcuda.so.1', 'libcudart.so.13')))
    said = root.run(USE % meanwhile).stdout
    assert f'{64 * MIB} ./fleet_program\n' in said, said
    assert re.search(r'^cudamem_allocated_bytes\{.*\} 67108864$', said, re.MULTILINE), said


def the_debian_packages_install_and_work_in_a_clean_root(folder):
    debs = newest_debs()
    root = clean_root.debian(folder / 'clean')
    root.put(*debs.values())
    root.run('dpkg --install /srv/*.deb && test -z "$(dpkg --audit)"')
    root.put(PACKAGING / 'debian/tests/works')
    assert 'the packages work' in root.run('/srv/works').stdout
    # Installed anew under a program that runs: its library is replaced, never cut short.
    uses(root, 'dpkg --install /srv/libcudamem_*.deb >/dev/null')
    names = ' '.join(debs)
    files = [line for line in root.run(f'dpkg --listfiles {names}').stdout.splitlines()
             if 'cudamem' in line]
    assert len(files) > 20, files
    root.run(f'dpkg --purge {names}')
    left = [name for name in files if (root.folder / name.lstrip('/')).exists()]
    assert not left, left


def the_tarball_builds_and_installs(folder):
    tarball = newest('cudamem-*.tar.xz', 'tarball')
    sums = pathlib.Path(f'{tarball}.sha256').read_text(encoding='ascii').split()
    assert sums == [hashlib.sha256(tarball.read_bytes()).hexdigest(), tarball.name], sums
    subprocess.run(['tar', '-xf', tarball, '-C', folder], check=True)
    source, = (path for path in folder.iterdir() if (path / 'meson.build').exists())
    prefix = folder / 'prefix'
    for command in (['meson', 'setup', '--buildtype=release', f'--prefix={prefix}',
                     '-Dtests=false', f'-Dtoolkit_include={HEADERS}', source, folder / 'made'],
                    ['meson', 'install', '-C', folder / 'made', '--quiet']):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-1000:]
    runs_the_program([prefix / 'bin/cudamemstat'], prefix)


def unpack_image(folder):
    """The files of the newest image, and its configuration: what an engine does, without one."""
    subprocess.run(['tar', '-xf', newest('cudamem-image.tar', 'image'), '-C', folder], check=True)

    def read(digest):
        return json.loads(blob(digest).read_text(encoding='utf-8'))

    def blob(digest):
        data = folder / 'blobs' / digest.replace(':', '/')
        assert hashlib.sha256(data.read_bytes()).hexdigest() == data.name
        return data
    index = json.loads((folder / 'index.json').read_text(encoding='utf-8'))
    manifest = read(index['manifests'][0]['digest'])
    root = clean_root.Root(folder / 'root')
    for layer in manifest['layers']:
        root.unpack(blob(layer['digest']))
    root.enter()
    return root, read(manifest['config']['digest'])['config']


def the_image_runs(folder):
    root, settings = unpack_image(folder)
    entry = ' '.join(settings['Entrypoint'])
    assert 'cudamem_build_info' in root.run(f"{entry} {' '.join(settings['Cmd'])} --once").stdout
    uses(root)
    root.put(PACKAGING / 'debian/tests/works')
    assert 'the packages work' in root.run('/srv/works').stdout
    # What the init container of the example does.
    pod = (stage.ROOT / 'deploy/kubernetes/example-pod.yaml').read_text(encoding='utf-8')
    words = re.search(r'command: \[(cp, .*)\]', pod)[1].replace(',', '')
    root.run(f'mkdir /cudamem && {words} && test -s /cudamem/libcudamem.so')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='cudamem-packages-') as root:
        sys.exit(run_cases([it_works_in_a_fresh_environment, it_works_where_it_was_installed_apart,
                            it_needs_no_newer_c_library_than_it_says,
                            the_debian_packages_make_a_whole,
                            the_debian_packages_install_and_work_in_a_clean_root,
                            the_tarball_builds_and_installs,
                            the_image_runs,
                            ], pathlib.Path(root)))
