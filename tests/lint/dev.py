#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The verbs of ./dev: each is in its help and is called, and does nothing but answer when it is asked
for help; ./dev clean removes what others configure; no verb begins where LD_PRELOAD cannot name what
it builds."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tree


def complaints_of(script):
    removed = re.search(r'^verb_clean\(\)\n\{(.*?)^\}', script, re.MULTILINE | re.DOTALL)
    removed = removed[1].split() if removed else []
    for match in re.finditer(r'\bconfigure (build[a-z-]*)', script):
        if match[1] not in removed:
            yield tree.line_of(script, match.start()), f'{match[1]} outlives ./dev clean'


def verb_complaints_of(script):
    found = {name.replace('_', '-'): tree.line_of(script, match.start())
             for match in re.finditer(r'^verb_(\w+)\(\)', script, re.MULTILINE)
             for name in (match[1],)}
    usage = re.search(r'^usage\(\)\n\{(.*?)^\}', script, re.MULTILINE | re.DOTALL)
    shown = re.findall(r'^  ([a-z][a-z-]*)\b', usage[1] if usage else '', re.MULTILINE)
    called = re.search(r'^([a-z-]+(?: \| [a-z-]+)+)\)$', script, re.MULTILINE)
    called = called[1].split(' | ') if called else []
    if shown[:1] != ['check']:
        yield 1, 'help does not name check first'
    for name, line in found.items():
        if name not in shown:
            yield line, f'help does not name {name}'
        if name not in called:
            yield line, f'nothing calls {name}'
    for name in {*shown, *called} - {*found, 'help'}:
        yield 1, f'{name} is no verb'


def question_complaints_of(script):
    """In a folder of their own, so that a verb that begins all the same harms nothing."""
    called = re.search(r'^([a-z-]+(?: \| [a-z-]+)+)\)$', script, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, 'dev')
        shutil.copy(tree.ROOT / 'dev', copy)
        (copy.parent / 'tests').symlink_to(tree.ROOT / 'tests')
        for verb in called[1].split(' | ') if called else []:
            run = subprocess.run([copy, verb, '--help'], capture_output=True, text=True,
                                 check=False, timeout=60)
            if run.returncode or not run.stdout.startswith('usage:'):
                yield 1, f'{verb} --help is no question'


def place_complaints_of(script):
    """As above. Without sources the verb ends soon in any case."""
    with tempfile.TemporaryDirectory(prefix='two words') as folder:
        copy = pathlib.Path(folder, 'dev')
        shutil.copy(tree.ROOT / 'dev', copy)
        run = subprocess.run([copy, 'build'], capture_output=True, text=True, check=False,
                             timeout=60)
        if run.returncode != 1 or 'LD_PRELOAD cannot name' not in run.stderr:
            yield 1, f'begins in a folder with a blank: {run.stderr}'


def main():
    script = tree.text('dev')
    return tree.report([f'dev:{line}: {what}'
                        for line, what in (*complaints_of(script), *verb_complaints_of(script),
                                           *question_complaints_of(script),
                                           *place_complaints_of(script))])


if __name__ == '__main__':
    sys.exit(main())
