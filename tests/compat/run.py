#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Others' own test suites, bare and under the library, compared test by test.

A suite need not pass: a simulated device has no kernels, so many of its tests fail. What counts is
that each test ends under the library as it ends without it. What may differ is in `EXPECTED`, each
with its reason.

    run.py SUITE... [--settings NAME...]

Exit status 77: the suites cannot be had here.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import packages  # noqa: E402

SKIPPED = 77
SETTINGS = {
    'default': '',
    'expandable': 'expandable_segments:True',
    'sync_free': 'sync:free',
    'exact': 'placement:exact',
    'stats': 'mode:stats',
}
@dataclasses.dataclass(frozen=True)
class Suite:
    command: tuple  # prints one line a test, as unittest or pytest do with -v
    seconds: int = 900  # for one setting, on one core
    requirements: str = 'requirements.txt'  # of the environment that has it
    library: str = ''  # of the toolkit, which that environment does not have


SUITES = {
    'numba_cudadrv': Suite(('-m', 'numba.runtests', '-v', 'numba.cuda.tests.cudadrv'),
                           library='nvrtc'),
    'numba_cudapy': Suite((str(HERE / 'numba_modules.py'), 'numba.cuda.tests.cudapy'), 7200,
                          library='nvrtc'),
    'cuda_python': Suite(('-m', 'pytest', '-v', '-p', 'no:cacheprovider',
                          '--continue-on-collection-errors', '--pyargs', 'cuda.tests'),
                         requirements='requirements-cuda-python.txt'),
    'python_threads': Suite(('-m', 'unittest', '-v', 'test.test_threading', 'test.test_thread')),
    'python_processes': Suite(('-m', 'unittest', '-v', 'test.test_subprocess')),
}
# suite: {test: why it may end otherwise under the library}
EXPECTED = {
    'numba_cudapy': {
        'test_user_exception': 'expects the sticky error of a kernel from the next allocation, '
                               'which idle cached memory serves',
        'test_raise_causing_exception': 'the same',
    },
}


def results(output):
    """{test: how it ended}, by what unittest or pytest prints with -v."""
    found, name = {}, None
    for line in output.splitlines():
        of_pytest = re.match(r'(\S+\.py::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b', line)
        if of_pytest:
            found.setdefault(of_pytest[1], of_pytest[2])
            continue
        started = re.match(r'(test\w*) \(([\w.<>]+)\)', line)
        if started:
            name = f'{started[2]}:{started[1]}'
            line = line.partition('...')[2] or line
        ended = re.search(r'(?:^|\s|\.)(ok|ERROR|FAIL|expected failure|unexpected success|skipped)'
                          r'(?: .*)?$', line)
        if name and ended:
            found.setdefault(name, ended[1])
            name = None
    return found


def play(python, suite, preload, conf, options):
    """How each test of the suite ends; a suite that does not end is killed."""
    command, seconds = SUITES[suite].command, SUITES[suite].seconds
    environment = {key: value for key, value in os.environ.items() if key != 'LD_PRELOAD'}
    environment.update(LD_LIBRARY_PATH=str(options.simulation), CUDASIM='devices:2',
                       PYTHONHASHSEED='0', CUDAMEM_CONF=conf)
    if preload:
        environment['LD_PRELOAD'] = str(options.library)
    try:
        run = subprocess.run([str(python), *command], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
                             timeout=seconds)
        output, status = run.stdout, run.returncode
    except subprocess.TimeoutExpired as late:
        output, status = late.stdout or b'', 'not over'
    text = output.decode('utf-8', 'replace')
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        name = f'{suite}.{conf or "default" if preload else "bare"}.log'
        (options.logs / name.replace(':', '_')).write_text(text, encoding='utf-8')
    return results(text), status


def differences(suite, bare, under):
    expected = EXPECTED.get(suite, {})
    for test in sorted(bare.keys() | under.keys()):
        one, other = bare.get(test, 'missing'), under.get(test, 'missing')
        if one != other and test.rpartition(':')[2] not in expected:
            yield f'  {test}: {one} bare, {other} under the library'


def must_have(python, library):
    """Found as the suite itself finds it."""
    load = ('from cuda.pathfinder import load_nvidia_dynamic_lib as load; import sys; '
            'load(sys.argv[1])')
    if subprocess.run([python, '-c', load, library], capture_output=True, check=False).returncode:
        raise packages.Unavailable(f'no {library} of the CUDA toolkit')


def environment_of(suite, options):
    """The Python that has the suite; None after saying why not."""
    name = SUITES[suite].requirements
    try:
        if name == 'requirements.txt':
            python = packages.install(options.cache, options.requirements)
        else:
            folder = options.cache.with_name(f'{options.cache.name}-{suite}')
            python = packages.install(folder, HERE / name)
        if SUITES[suite].library:
            must_have(python, SUITES[suite].library)
        return python
    except packages.Unavailable as reason:
        print(f'{suite} cannot be had here: {reason}')
        return None


def compare(suite, python, options):
    """Plays a suite bare and in each setting, two at a time; what to print, and what is wrong."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        bare = pool.submit(play, python, suite, False, '', options)
        under = {name: pool.submit(play, python, suite, True, SETTINGS[name], options)
                 for name in options.settings}
    wanted, status = bare.result()
    counts = {end: list(wanted.values()).count(end) for end in sorted(set(wanted.values()))}
    print(f'{suite}: {len(wanted)} tests, bare: '
          + ', '.join(f'{count} {end}' for end, count in counts.items()))
    wrong = 0
    if not counts.keys() & {'ok', 'PASSED'} or status == 'not over':
        print(f'  no usable run without the library: status {status}')
        return 1
    for name, future in under.items():
        got, status_under = future.result()
        found = list(differences(suite, wanted, got))
        if status_under != status:
            found.append(f'  exit {status} bare, {status_under} under the library')
        print(f'{suite}, {name}: {len(got)} tests, {len(found)} differences', *found, sep='\n')
        wrong += len(found)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--library', type=pathlib.Path, required=True)
    parser.add_argument('--simulation', type=pathlib.Path, required=True)
    parser.add_argument('--cache', type=pathlib.Path, required=True)
    parser.add_argument('--requirements', type=pathlib.Path, default=HERE / 'requirements.txt')
    parser.add_argument('--logs', type=pathlib.Path, help='a folder for what the suites print')
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time')
    parser.add_argument('suites', nargs='*', metavar='SUITE', help=', '.join(SUITES))
    options = parser.parse_args()
    for suite in options.suites:
        if suite not in SUITES:
            parser.error(f'{suite}: one of {", ".join(SUITES)}')
    pythons = {suite: environment_of(suite, options) for suite in options.suites or SUITES}
    if not any(pythons.values()):
        return SKIPPED
    wrong = sum(compare(suite, python, options) for suite, python in pythons.items() if python)
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main())
