#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the tests do not reach, function by function, with the reason: coverage.py GCOVR.JSON

The reasons are in coverage.reasons, "FILE FUNCTION REASON" a line; FUNCTION * is the whole file.
Exit status 1 where a function has lines that are not reached and no reason.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent
# The line that names a function, or a macro that makes one.
HEAD = re.compile(r'^(?!#|\s|/|\*|\}|typedef|struct \w+ \{|enum)(?:.*?\b)?(\w+)\(')


def read_reasons():
    reasons = {}
    for line in (ROOT / 'tests' / 'coverage.reasons').read_text().splitlines():
        if line and not line.startswith('#'):
            path, function, reason = line.split(' ', 2)
            reasons[path, function] = reason.strip()
    return reasons


def function_at(source, number):
    for line in reversed(source[:number]):
        match = HEAD.match(line)
        if match and not line.rstrip().endswith(';'):
            return match[1]
    return '?'


def main():
    data = json.loads(pathlib.Path(sys.argv[1]).read_text())
    reasons = read_reasons()
    missing = 0
    totals = [0, 0, 0, 0]
    unused = set(reasons)
    for file in sorted(data['files'], key=lambda file: file['file']):
        path = file['file']
        source = (ROOT / path).read_text().splitlines()
        holes = {}
        for line in file['lines']:
            if line.get('gcovr/noncode') or line.get('gcovr/excluded'):
                continue
            totals[0] += 1
            totals[1] += line['count'] > 0
            totals[2] += len(line['branches'])
            totals[3] += sum(branch['count'] > 0 for branch in line['branches'])
            if not line['count']:
                holes.setdefault(function_at(source, line['line_number']), []).append(
                    line['line_number'])
        for function, lines in holes.items():
            key = next((key for key in ((path, function), (path, '*')) if key in reasons), None)
            unused.discard(key)
            missing += key is None
            print(f'{path}:{lines[0]} {function}: {len(lines)} lines: '
                  f'{reasons[key] if key else "NO REASON"}')
    for path, function in sorted(unused):
        print(f'{path} {function}: is reached, its reason can go')
    print(f'lines {totals[1]} of {totals[0]} ({100 * totals[1] / totals[0]:.1f} %), '
          f'branches {totals[3]} of {totals[2]} ({100 * totals[3] / max(totals[2], 1):.1f} %), '
          f'{missing} functions with holes and no reason')
    return 1 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
