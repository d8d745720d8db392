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
import os
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
INSTALL_SECONDS = 600
HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = {
    'default': '',
    'expandable': 'expandable_segments:True',
    'sync_free': 'sync:free',
    'exact': 'placement:exact',
    'stats': 'mode:stats',
}
# Suites whose tests unittest names, one line a test; the seconds are for one setting of one core.
SUITES = {
    'numba_cudadrv': (['-m', 'numba.runtests', '-v', 'numba.cuda.tests.cudadrv'], 900),
    'numba_cudapy': (['-m', 'numba.runtests', '-v', 'numba.cuda.tests.cudapy'], 3600),
    'python_threads': (['-m', 'unittest', '-v', 'test.test_threading', 'test.test_thread'], 900),
    'python_processes': (['-m', 'unittest', '-v', 'test.test_subprocess'], 900),
}
# suite: {test: why it may end otherwise under the library}
EXPECTED = {
    'numba_cudapy': {
        'test_user_exception': 'expects the sticky error of a kernel from the next allocation, '
                               'which idle cached memory serves',
        'test_raise_causing_exception': 'the same',
    },
}


def install(venv, requirements):
    """The Python of an environment that has the suites; made once."""
    wanted = requirements.read_text(encoding='utf-8')
    done = venv / 'requirements'
    python = venv / 'bin/python'
    if done.exists() and done.read_text(encoding='utf-8') == wanted:
        return python
    for step in ([sys.executable, '-m', 'venv', venv],
                 [python, '-m', 'pip', 'install', '--quiet', '--no-input', '-r', requirements]):
        try:
            run = subprocess.run([str(word) for word in step], capture_output=True, text=True,
                                 check=False, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            print(f'the suites cannot be had here: not installed after {INSTALL_SECONDS} s')
            sys.exit(SKIPPED)
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or ['pip failed'])[-1]
            print('the suites cannot be had here:', re.sub(r'\w+://\S+', '', reason))
            sys.exit(SKIPPED)
    done.write_text(wanted, encoding='utf-8')
    return python


def results(output):
    """{test: how it ended}, by what unittest prints with -v."""
    found, name = {}, None
    for line in output.splitlines():
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
    command, seconds = SUITES[suite]
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
    if 'ok' not in counts or status == 'not over':
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
    python = install(options.cache, options.requirements)
    wrong = sum(compare(suite, python, options) for suite in options.suites or SUITES)
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main())
