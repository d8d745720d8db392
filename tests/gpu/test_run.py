#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The suite's runner notices what goes wrong and writes it down: test_run.py BUILD."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it was

HERE = pathlib.Path(__file__).resolve().parent

# How each planned program must be judged, and what must be said of it.
PLANNED = {
    'hang': ('failed', 'bare: not over after '),
    'fail': ('failed', 'bare: status 1: it was planned to fail'),
    'crash': ('failed', 'bare: ended by SIGABRT'),
    'differ': ('failed', "cudamem differs from bare: line 2: 'the library is not here', "
                         "but 'the library is here'"),
    'unserved': ('failed', 'cudamem: the cache served nothing'),
    'skip': ('skipped', 'it was planned to be left out'),
    'silent': ('passed', ''),
    'missing': ('failed', 'gpu_planned_nobody was not built'),
}

checks = []


def check(what, holds):
    checks.append(bool(holds))
    print(f'{"ok" if holds else "not ok"} {len(checks)} - {what}')


def suite(build, report, *arguments):
    command = [sys.executable, HERE / 'run', '--simulated', '--build', build, '--report', report,
               *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def processes_of(program):
    """Those that run it; it must be none."""
    found = []
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = (folder / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if words[0].decode(errors='replace') == str(program):
            found.append(folder.name)
    return found


def planned(build, folder):
    report = folder / 'planned.md'
    run = suite(build, report, '--planned', 'planned')
    check('a failure is the exit status', run.returncode == 1)
    check('the last line counts', run.stdout.endswith('\n1 passed, 6 failed, 1 skipped\n'))
    figures = json.loads(report.with_suffix('.json').read_text(encoding='utf-8'))
    results = {result['name']: result for result in figures['results']}
    text = report.read_text(encoding='utf-8')
    for name, (verdict, reason) in PLANNED.items():
        result = results[name]
        check(f'{name}: {verdict}', result['verdict'] == verdict)
        check(f'{name}: the reason', result['reason'].startswith(reason))
        if verdict != 'passed':
            check(f'{name}: a line of the table', f'{verdict}: planned: {name}: {reason}' in run.stdout)
        check(f'{name}: a place in the report',
              (f'### planned: {name}\n' in text) == (verdict == 'failed'))
    before = results['hang']['runs'][0]['facts']
    check('facts of before a hang are kept', [fact['value'] for fact in before] == ['it hangs'])
    check('nothing hangs on', not processes_of(build / 'tests/gpu/gpu_planned_hang'))
    check('the report tells the commit', re.search(r'^\| commit +\| \S+', text, re.MULTILINE))
    check('the report tells the sources',
          re.search(r'^\| library sources +\| [0-9a-f]{16} ', text, re.MULTILINE))


def figures_of_a_part(build, folder):
    report = folder / 'probe.md'
    run = suite(build, report, 'probe')
    check('a part alone passes', run.returncode == 0)
    text = report.read_text(encoding='utf-8')
    for row in (r'## Probes$', r'### events$', r'\| cuCtxRecordEvent +\| 64 streams, busy +\| +[0-9]',
                r'\| cuMemAlloc +\| global +\| CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the capture: ',
                r'\| a free of a byte +\| relaxed, thread relaxed, busy +\| +waits for the device',
                r'\| the two ways agree +\| of [0-9]+ +\| +[0-9]+ \| +[0-9]+ \| +functions'):
        check(f'the report has {row}', re.search(f'^{row}', text, re.MULTILINE))
    check('the short table has figures',
          re.search(r'^cuCtxRecordEvent, us +1 streams, idle [0-9.]+ ', run.stdout, re.MULTILINE))
    check('nothing of other parts', '## Compatibility' not in text)


def time_of_a_part(build):
    """A part whose time is over runs nothing more; a program that it cuts short has not failed."""
    sys.path.insert(0, str(HERE))
    from programs import Program, BARE
    from runner import Stage, run_program
    stage = Stage(build, '/nowhere', simulation=build / 'tests/sim')
    for what, seconds in (('a part without time runs nothing', 0),
                          ('a part that ends cuts a program short', 1.5)):
        hang = Program('planned', 'hang', runs=(BARE,), seconds=30)
        result = run_program(stage, hang, time.monotonic() + seconds)
        check(what, (result.verdict, result.reason, result.runs)
              == ('skipped', 'the time of its part is used up', []))


def bad_arguments(build, folder):
    run = suite(build, folder / 'none.md', 'probes')
    check('an unknown part is refused', run.returncode == 2 and 'no such part' in run.stderr)
    run = suite(folder, folder / 'none.md', 'probe')
    check('a folder without a build is refused', run.returncode == 1
          and 'not a build folder with tests' in run.stderr)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        planned(build, folder)
        figures_of_a_part(build, folder)
        time_of_a_part(build)
        bad_arguments(build, folder)
    print(f'1..{len(checks)}')
    return int(not all(checks))


if __name__ == '__main__':
    sys.exit(main())
