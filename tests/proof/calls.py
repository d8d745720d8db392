#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays random, also senseless, calls under the library and without it: see calls.h.

calls.py PROGRAM LIBRARY --programs N --length N [--first SEED]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIGURATIONS = ('', 'mode:stats', 'placement:exact', 'sync:free', 'expandable_segments:on')
SECONDS = 100


def play(program, library, seed, length, conf):
    """The answers; conf None is without the library."""
    with tempfile.TemporaryDirectory(prefix='calls.') as folder:
        transcript = pathlib.Path(folder) / 'transcript'
        environment = dict(os.environ, CUDASIM='devices:2,memory:4G,cuEventQuery:100us',
                           ASAN_OPTIONS='verify_asan_link_order=0:detect_leaks=0')
        if conf is not None:
            environment['LD_PRELOAD'] = str(library)
            environment['CUDAMEM_CONF'] = (
                f'region_dir:{folder},log:off,oom_report:off,{conf}'.rstrip(','))
        run = subprocess.run([program, str(seed), str(length), transcript], env=environment,
                             capture_output=True, text=True, timeout=SECONDS)
        if run.returncode or run.stderr:
            return [f'ended with {run.returncode}: {run.stderr[-500:]}']
        return transcript.read_text().splitlines()


def compare(native, ours):
    """What differs first, or None."""
    for theirs, answer in zip(native, ours):
        if theirs != answer and not ('?' in theirs or '?' in answer):
            return f'"{answer}", and without the library "{theirs}"'
    return None if len(native) == len(ours) else f'{len(ours)} answers of {len(native)}'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program', type=pathlib.Path)
    parser.add_argument('library', type=pathlib.Path)
    parser.add_argument('--programs', type=int, default=1)
    parser.add_argument('--length', type=int, default=400)
    parser.add_argument('--first', type=int, default=0)
    options = parser.parse_args()
    program, library = options.program.resolve(), options.library.resolve()
    failed = 0
    for seed in range(options.first, options.first + options.programs):
        native = play(program, library, seed, options.length, None)
        for conf in CONFIGURATIONS:
            why = compare(native, play(program, library, seed, options.length, conf))
            if why:
                print(f'program {seed} under "{conf}": {why}', file=sys.stderr)
                failed += 1
    print(f'{options.programs} programs of {options.length} calls, each {len(CONFIGURATIONS)} '
          f'times, {failed} differ')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
