#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the cases of a meson test run: summary.py BUILD/meson-logs/testlog.json...

A program that speaks TAP counts by its cases, any other as one. A program that ends badly although
no case of it failed (a crash after the last one, a timeout) counts as one more failure. Skipped
cases are listed with their reasons. Exit status 1 where something failed or nothing ran.
"""

import json
import re
import sys

CASE = re.compile(r'^(not )?ok\b\s*\d*\s*-?\s*(.*?)(?:\s+#\s*SKIP\b\s*(.*))?$', re.IGNORECASE)
# A test that left early says why just before its own line: tests/unit/cmocka_all.h.
REASON = re.compile(r'^#\s*SKIP\s+(.*)$')
TOLD = 40  # lines of each failed program
SKIPPED_PLAN = re.compile(r'^1\.\.0\b\s*#\s*SKIP\w*\s*(.*)$', re.IGNORECASE)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else 'no reason given'


def count(run):
    """Passed and failed cases of one program, and a list of (case, reason) of the skipped ones."""
    output = run.get('stdout', '')
    name = run['name'].split(' / ')[-1]
    passed, failed, skipped = 0, 0, []
    left_early = None
    for line in output.splitlines():
        case = CASE.match(line)
        plan = SKIPPED_PLAN.match(line)
        left_early = REASON.match(line) or left_early
        if plan:
            skipped.append((name, plan[1]))
        elif case and left_early and not case[1]:
            skipped.append((f'{name}: {case[2]}', left_early[1]))
        elif case and case[3] is not None:
            skipped.append((f'{name}: {case[2]}', case[3]))
        elif case and case[1]:
            failed += 1
        elif case:
            passed += 1
        left_early = None if case else left_early
    if run['result'] == 'SKIP' and not skipped:
        reason = last_line(output + '\n' + run.get('stderr', ''))
        skipped.append((name, reason.removeprefix('skipped: ')))
    elif run['result'] in ('OK', 'EXPECTEDFAIL'):
        passed = passed or int(not failed and not skipped)
    elif run['result'] != 'SKIP':
        failed = failed or 1
    return passed, failed, skipped


def tell(run):
    """What failed and what it said: often the log of a build machine is all that is left of it."""
    for line in what_it_said(run):
        print(f'    {line}')
    print(f'failed: {run["name"]} ({run["result"].lower()}, status {run["returncode"]})')


def what_it_said(run):
    """All lines but those of cases that passed; the last ones, where they are many."""
    lines = run.get('stdout', '').splitlines() + run.get('stderr', '').splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith('ok ')]
    return lines[-TOLD:]


def main():
    passed, failed, skipped, bad = 0, 0, [], []
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as log:
            for line in log:
                run = json.loads(line)
                counts = count(run)
                passed += counts[0]
                failed += counts[1]
                skipped += counts[2]
                if counts[1]:
                    bad.append(run)
    print()
    for case, reason in skipped:
        print(f'skipped: {case}: {reason or "no reason given"}')
    for run in bad:
        tell(run)
    print(f'{passed} passed, {failed} failed, {len(skipped)} skipped')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
