#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""./dev clean removes every folder that a verb of ./dev configures."""

import re
import sys

import tree


def complaints_of(script):
    removed = re.search(r'^verb_clean\(\)\n\{(.*?)^\}', script, re.MULTILINE | re.DOTALL)
    removed = removed[1].split() if removed else []
    for match in re.finditer(r'\bconfigure (build[a-z-]*)', script):
        if match[1] not in removed:
            yield tree.line_of(script, match.start()), f'{match[1]} outlives ./dev clean'


def main():
    return tree.report([f'dev:{line}: {what}'
                        for line, what in complaints_of(tree.text('dev'))])


if __name__ == '__main__':
    sys.exit(main())
