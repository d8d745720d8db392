#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cudamemstat doctor on made-up machines: each has one fault, and exactly its check must find it.

  test_doctor.py TOOL LIBRARY DRIVER NVML FORGE PROGRAM REAL_DRIVERS MANUAL
"""

import contextlib
import getpass
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'snapshot'))
from kit import Skip, run_cases  # noqa: E402 pylint: disable=wrong-import-position

TOOL, LIBRARY, DRIVER, NVML, FORGE, PROGRAM, REAL_DRIVERS, MANUAL = map(os.path.abspath, sys.argv[1:9])
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix='cudamem-doctor-'))
NOBODY = 65534
LIMIT_S = 60

# A machine in order: a card, the driver, and a region folder of its own.
MACHINE = '''mount --make-rprivate / && mount -t tmpfs dev {folder}/dev || exit 99
mknod {folder}/dev/nvidia0 c 1 3 && chmod 666 {folder}/dev/nvidia0 || exit 99
mknod {folder}/dev/null c 1 3 && chmod 666 {folder}/dev/null && mkdir {folder}/dev/shm || exit 99
mount --move {folder}/dev /dev && mount -t tmpfs -o mode=1777,size=64m shm /dev/shm || exit 99
{change}
exec "$@"'''


def environment(**more):
    places = ':'.join(str(pathlib.Path(path).parent) for path in (DRIVER, NVML))
    mine = {'PATH': os.environ['PATH'], 'HOME': os.environ.get('HOME', '/'),
            'LD_LIBRARY_PATH': places, 'LC_ALL': 'C.UTF-8',
            'ASAN_OPTIONS': 'verify_asan_link_order=0'}
    mine.update(more)
    return {name: value for name, value in mine.items() if value is not None}


def machine(*words, change='', command=None, env=None, **more):
    """Runs the tool on the machine; `change` is a shell command that gives it its fault."""
    if os.geteuid():
        raise Skip('needs root, to make up a machine')
    (FOLDER / 'dev').mkdir(exist_ok=True)
    script = MACHINE.format(folder=FOLDER, change=change)
    run = subprocess.run(['unshare', '-m', 'sh', '-c', script, 'sh', *(command or [TOOL]), 'doctor',
                          *map(str, words)], env=env or environment(), capture_output=True, text=True,
                         timeout=LIMIT_S, check=False, **more)
    if run.returncode == 99:
        raise Skip(f'no machine can be made up here: {run.stderr.strip()}')
    return run


def checks(run):
    found = json.loads(run.stdout)
    assert found['schema'] == 'cudamemstat/doctor/1', found
    return {check['id']: check for check in found['checks']}


def faults(run):
    return {name: check['status'] for name, check in checks(run).items() if check['status'] != 'ok'}


def finds(expected, *words, **more):
    """The check that is expected finds something, and no other does."""
    run = machine('--json', *words, **more)
    found = faults(run)
    assert found == expected, (expected, found, run)
    assert run.returncode == (1 if 'fail' in found.values() else 0), run
    for name in expected:
        assert checks(run)[name]['detail'], run
    return checks(run)


def program(name, change=None, mode=0o755):
    """A copy of a program, with some bytes changed."""
    content = bytearray(pathlib.Path(shutil.which('true')).resolve().read_bytes())
    if change:
        change(content)
    path = FOLDER / name
    path.write_bytes(content)
    path.chmod(mode)
    return path


def program_header(content, kind):
    """The place of the first program header of this kind."""
    at = int.from_bytes(content[32:40], 'little')
    for _ in range(int.from_bytes(content[56:58], 'little')):
        if int.from_bytes(content[at:at + 4], 'little') == kind:
            return at
        at += 56
    raise AssertionError(kind)


def set_loader(content, loader):
    at = program_header(content, 3)
    offset = int.from_bytes(content[at + 8:at + 16], 'little')
    content[offset:offset + len(loader) + 1] = loader.encode() + b'\0'
    content[at + 32:at + 40] = (len(loader) + 1).to_bytes(8, 'little')


def make_static(content):
    at = program_header(content, 3)
    content[at:at + 4] = (0).to_bytes(4, 'little')


def make_i386(content):
    content[4], content[18:20] = 1, (3).to_bytes(2, 'little')


def make_aarch64(content):
    content[18:20] = (183 if content[18] != 183 else 62).to_bytes(2, 'little')


def nothing_is_found_on_a_machine_in_order():
    finds({})
    finds({}, '--', 'true')
    run = machine()
    assert run.returncode == 0 and re.fullmatch(r'\d+ in order, 0 to note, 0 warnings, 0 failures\n',
                                                run.stdout), run
    run = machine('-v')
    assert run.stdout.count('\nok ') > 9, run
    run = machine('-v', '--', 'true')
    assert re.search(r'^ok +program-static +\S+/true is not static$', run.stdout, re.MULTILINE), run


def a_small_or_missing_folder_is_found():
    finds({'region-dir': 'warn'}, change='mount -t tmpfs -o mode=1777,size=4m shm /dev/shm')
    finds({'region-dir': 'warn'}, change='fallocate -l 20M /dev/shm/data')
    finds({'region-dir': 'warn'}, change='umount /dev/shm && rmdir /dev/shm')
    finds({'region-dir': 'warn'}, change='chmod 777 /dev/shm')
    finds({'region-dir': 'warn'}, change='mount -o remount,ro /dev/shm')


def hidden_processes_are_found():
    reader = os.open(TOOL, os.O_RDONLY)  # the user may not be allowed into its folder
    library = FOLDER / 'libcudamem.so'
    shutil.copy(LIBRARY, library)
    FOLDER.chmod(0o755)
    user = ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups', f'/proc/self/fd/{reader}']
    places = FOLDER / 'libraries'
    places.mkdir(exist_ok=True)
    for path in (DRIVER, NVML):
        shutil.copy(path, places)
    env = environment(LD_LIBRARY_PATH=str(places))
    for change, expected in (('', {}), ('mount -t proc -o hidepid=2 proc /proc', {'others': 'note'})):
        finds(expected, '--library', library, change=change, command=user, env=env,
              pass_fds=[reader])
    os.close(reader)


def a_missing_proc_is_found():
    finds({'others': 'warn'}, '--library', LIBRARY, change='umount -l /proc')


def a_limit_that_no_region_fits_in_is_found():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
    finds({'limits': 'warn'}, preexec_fn=limit)


def programs_that_take_no_library_are_found():
    finds({'program-static': 'fail'}, '--', program('static', make_static))
    finds({'program-machine': 'fail'}, '--', program('i386', make_i386))
    finds({'program-machine': 'fail'}, '--', program('aarch64', make_aarch64))
    finds({'program-musl': 'fail'}, '--',
          program('musl', lambda content: set_loader(content, '/lib/ld-musl-x86_64.so.1')))
    path = program('secure')
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o4755)
    finds({'program-rights': 'fail'}, '--', path)
    finds({'program': 'fail'}, '--', FOLDER / 'nothing')
    finds({'program': 'fail'}, '--', program('plain', mode=0o644))


def a_script_is_judged_by_its_interpreter():
    static = program('static', make_static)
    script = FOLDER / 'script'
    script.write_text(f'#!{static}\n', encoding='utf-8')
    script.chmod(0o755)
    finds({'program-static': 'fail'}, '--', script)


def commands_that_drop_the_library_are_found():
    for name in ('sudo', 'ssh'):
        script = FOLDER / name
        script.write_text('#!/bin/sh\n', encoding='utf-8')
        script.chmod(0o755)
        finds({'program-wrapper': 'warn'}, '--', script, 'true')
    finds({'program-wrapper': 'warn'}, '--', 'env', '-i', 'true')
    finds({}, '--', 'env', 'true')


def what_the_loader_refuses_is_found():
    needy = FOLDER / 'libneedy.so'
    content = bytearray(pathlib.Path(LIBRARY).read_bytes())
    at = content.index(b'libc.so.6\0')
    content[at:at + 9] = b'libx.so.9'
    needy.write_bytes(content)
    finds({'program-loaded': 'fail'}, '--library', needy, '--', 'true')


def a_library_for_a_later_glibc_is_found():
    content = pathlib.Path(LIBRARY).read_bytes()
    highest = max(re.findall(rb'GLIBC_2\.\d\d', content))
    later = FOLDER / 'liblater.so'
    later.write_bytes(content.replace(highest, b'GLIBC_2.99'))
    found = finds({'library-glibc': 'fail'}, '--library', later)
    assert '2.99' in found['library-glibc']['detail'], found


def a_library_that_is_missing_or_open_to_all_is_found():
    finds({'library': 'fail'}, '--library', FOLDER / 'nothing.so')
    path = FOLDER / 'libopen.so'
    shutil.copy(LIBRARY, path)
    path.chmod(0o666)
    finds({'library': 'fail'}, '--library', path)


def a_rival_in_the_environment_is_found():
    path = FOLDER / 'libvgpu.so'
    shutil.copy(NVML, path)
    finds({'preload': 'warn'}, env=environment(LD_PRELOAD=str(path)))
    finds({'injection': 'note'}, env=environment(CUDA_INJECTION64_PATH='/opt/tool.so'))
    finds({'preload-file': 'note'},
          change=f'echo {path} >{FOLDER}/list; touch /etc/ld.so.preload 2>/dev/null; '
                 f'mount --bind {FOLDER}/list /etc/ld.so.preload || exit 99')


def mistakes_in_the_configuration_are_found():
    found = finds({'conf': 'fail'}, env=environment(CUDAMEM_CONF='reuse:now'))
    assert 'reuse' in found['conf']['detail'], found
    finds({'conf': 'fail'}, env=environment(CUDAMEM_CONF='reuse:now,warn:off'))


def a_machine_without_driver_or_card_is_found():
    empty = FOLDER / 'empty'
    empty.mkdir(exist_ok=True)
    finds({'driver': 'fail'}, env=environment(LD_LIBRARY_PATH=str(pathlib.Path(NVML).parent)))
    finds({'nvml': 'note'}, env=environment(LD_LIBRARY_PATH=str(pathlib.Path(DRIVER).parent)))
    finds({'card': 'warn'}, change='rm /dev/nvidia0')
    finds({'card': 'fail'}, change='chmod 0 /dev/nvidia0; setpriv --bounding-set -dac_override,'
          '-dac_read_search true || exit 99; exec setpriv --bounding-set -dac_override,-dac_read_search '
          '--inh-caps -dac_override,-dac_read_search "$@"')


def major_of(driver):
    """Of libcuda.so.1, a link to libcuda.so.550.163.01: 550."""
    return int(driver.resolve().name.split('.')[2])


def the_real_driver_without_a_card_is_known():
    drivers = sorted(pathlib.Path(REAL_DRIVERS).rglob('libcuda.so.1'))
    if not drivers:
        raise Skip('no driver library of NVIDIA in .cache; ./dev test fetches them')
    for driver in drivers:
        # 555 is the first for CUDA 12.5; an older one is itself worth a note.
        places = f'{driver.parent}:{pathlib.Path(NVML).parent}'
        old = {'driver': 'note'} if major_of(driver) < 555 else {}
        finds({'card': 'warn', **old}, change='rm /dev/nvidia0',
              env=environment(LD_LIBRARY_PATH=places))


def crashed_regions_are_counted_when_they_are_old():
    path = subprocess.run([FORGE, 'own', FOLDER], input='', capture_output=True, text=True,
                          check=True).stdout.strip()
    if not os.path.exists(path):
        process = subprocess.Popen([FORGE, 'own', FOLDER], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        path = process.stdout.readline().strip()
        process.kill()
        process.communicate()
    env = environment(CUDAMEM_CONF=f'region_dir:{FOLDER}')
    FOLDER.chmod(0o1777)
    finds({}, env=env)
    os.utime(path, (time.time() - 100000,) * 2)
    finds({'crashed': 'note'}, env=env)
    os.unlink(path)


@contextlib.contextmanager
def running(*command, **env):
    with subprocess.Popen(command, env=environment(**env), stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def doctor(*words):
    run = subprocess.run([TOOL, 'doctor', '--json', *map(str, words)], env=environment(),
                         capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return {name: status for name, status in faults(run).items() if name.startswith('process')}


def processes_are_looked_at():
    with running('sleep', '60') as pid:
        assert doctor(pid) == {'process-library': 'fail'}, doctor(pid)
    with running('sleep', '60', LD_PRELOAD=LIBRARY) as pid:
        while 'libcudamem' not in pathlib.Path(f'/proc/{pid}/maps').read_text(encoding='utf-8'):
            time.sleep(0.01)
        assert doctor(pid) == {'process-region': 'note'}, doctor(pid)
        os.kill(pid, signal.SIGSTOP)
    assert doctor(4999999) == {'process': 'fail'}, doctor(4999999)
    with subprocess.Popen([FORGE, 'own', '/dev/shm'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        path = process.stdout.readline().strip()
        process.kill()
    found = doctor(process.pid)
    os.unlink(path)
    assert {'process', 'process-region'} <= set(found) and 'fail' not in found.values(), found


def names_are_masked_to_be_shared():
    home = str(FOLDER / 'home' / 'of')
    os.makedirs(home, exist_ok=True)
    env = environment(HOME=home, CUDAMEM_CONF=f'region_dir:{home}/shm')
    words = [TOOL, 'doctor', '--share', '--json', '-v']
    for form in (words, words[:-2]):
        run = subprocess.run(form, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert '~/shm' in run.stdout and home not in run.stdout, run
        assert not re.search(rf'\b{re.escape(os.uname().nodename)}\b', run.stdout), run
    assert getpass.getuser()
    # What stands in place of a name is not looked at again.
    env = environment(HOME='~~', CUDAMEM_CONF='region_dir:/none/~~~/shm')
    run = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert '/none/~~/shm' in run.stdout, run


def it_ends_in_time_and_writes_nothing():
    """A folder that does not answer is one finding; a pipe in place of the program is another."""
    pipe = FOLDER / 'pipe'
    if not pipe.exists():
        os.mkfifo(pipe, 0o777)
    before = time.monotonic()
    run = subprocess.run([TOOL, 'doctor', '--json', '--library', pipe, '--', pipe], env=environment(),
                         capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert 'program' in faults(run), run
    if time.monotonic() - before > 10:  # the limit is 2 s, and the machine may be busy
        raise AssertionError('it took too long')
    os.mkdir(FOLDER / 'still')
    subprocess.run([TOOL, 'doctor', '--', 'true'], env=environment(), cwd=FOLDER / 'still',
                   capture_output=True, check=False)
    assert not os.listdir(FOLDER / 'still')


def exit_codes_are_those_of_the_page():
    assert machine('--strict', change='rm /dev/nvidia0').returncode == 1
    assert machine(change='rm /dev/nvidia0').returncode == 0
    for words in (('',), ('1', '2'), ('--nothing',)):
        run = subprocess.run([TOOL, 'doctor', *words], env=environment(), capture_output=True,
                             text=True, check=False)
        assert run.returncode == 2, run


def the_manual_has_all_checks():
    page = pathlib.Path(MANUAL).read_text(encoding='utf-8')
    run = subprocess.run([TOOL, 'doctor', '--json', '--', 'true'], env=environment(),
                         capture_output=True, text=True, check=False)
    known = set(checks(run))
    run = subprocess.run([TOOL, 'doctor', '--json', str(os.getpid())], env=environment(),
                         capture_output=True, text=True, check=False)
    known |= set(checks(run))
    missing = sorted(name for name in known if f'*{name}*' not in page)
    assert len(known) > 20 and not missing, missing


if __name__ == '__main__':
    try:
        sys.exit(run_cases([
            nothing_is_found_on_a_machine_in_order, a_small_or_missing_folder_is_found,
            hidden_processes_are_found, a_missing_proc_is_found, a_limit_that_no_region_fits_in_is_found,
            programs_that_take_no_library_are_found, a_script_is_judged_by_its_interpreter,
            commands_that_drop_the_library_are_found, what_the_loader_refuses_is_found,
            a_library_for_a_later_glibc_is_found, a_library_that_is_missing_or_open_to_all_is_found,
            a_rival_in_the_environment_is_found, mistakes_in_the_configuration_are_found,
            a_machine_without_driver_or_card_is_found, the_real_driver_without_a_card_is_known,
            crashed_regions_are_counted_when_they_are_old, processes_are_looked_at,
            names_are_masked_to_be_shared, it_ends_in_time_and_writes_nothing,
            exit_codes_are_those_of_the_page, the_manual_has_all_checks]))
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
