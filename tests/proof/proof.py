#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays random programs under the library, against the same programs without it.

proof.py PROOF LIBRARY OUT --programs N --length N [--first SEED]   random ones
proof.py PROOF LIBRARY OUT --replay FILE...                        those that once failed
proof.py PROOF LIBRARY OUT --broken LIBRARY...                     heaps that must be found out
proof.py PROOF LIBRARY OUT --programs N --length N --conf CONF --fail  all must fail under CONF

A program that fails is shortened and kept in OUT.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import shrink

# What a program is played under: the options of the library, the simulated machine, the player's
# flags. Where memory is short, or threads run freely, two runs may differ and only the checks that
# each makes of itself count. A question for an event takes time, since the library waits by asking and
# the clock of the machine moves with calls alone.
# The player imports the calls that share memory, so the library by itself cuts no large block
# (placement:exact); most programs are of the many that do not share.
MACHINE = 'devices:2,cuEventQuery:100us'
FOUR = 'devices:4,cuEventQuery:100us'
CUT = 'placement:split'
PAGES = 'placement:split,expandable_segments:on'
LIMITS = 'garbage_collection_threshold:0.5,per_process_memory_fraction:0.5'
VARIANTS = (
    ('', MACHINE, 'c3i'),
    (CUT, MACHINE, 'c1'),
    (PAGES, f'{MACHINE},memory:64M', 'c1p'),
    (CUT, MACHINE, 'c2bn'),
    ('placement:exact', MACHINE, 'c1i'),
    (PAGES, f'{MACHINE},memory:96M', 'c3p'),
    (CUT, FOUR, 'c5abn'),
    (CUT, FOUR, 'c5b'),
    (PAGES, FOUR, 'c5bnp'),
    (f'{CUT},reuse:grow', MACHINE, 'c1'),
    (f'{CUT},reuse:wait', MACHINE, 'c3'),
    (PAGES, MACHINE, 'c3ip'),
    (f'{CUT},sync:free', MACHINE, 'c3'),
    ('mode:stats', MACHINE, 'c3i'),
    (PAGES, MACHINE, 'c1p'),
    ('mode:stats', FOUR, 'c5bn'),
    ('placement:exact', f'{MACHINE},memory:128M', 'c3i'),
    (f'{PAGES},reuse:wait', MACHINE, 'c3p'),
    (f'{CUT},max_split_size_mb:20,{LIMITS}', f'{MACHINE},memory:256M', 'c3'),
    (CUT, f'{MACHINE},version:12040', 'c3'),
    (CUT, f'{FOUR},version:12020', 'c5bn'),
    ('placement:exact', FOUR, 'c5bi'),
    (f'{PAGES},reuse:grow', f'{MACHINE},memory:128M', 'c3p'),
    (CUT, MACHINE, 'c3f'),
    (CUT, f'{FOUR},memory:96M', 'c5abfn'),
    ('', MACHINE, 'c1f'),
    (f'{PAGES},{LIMITS}', f'{MACHINE},memory:256M', 'c3p'),
    (CUT, f'{MACHINE},memory:96M', 'c1f'),
    (CUT, MACHINE, 'c3i'),
    (PAGES, f'{MACHINE},version:12040', 'c2bnp'),
    (CUT, f'{MACHINE},memory:128M', 'c3'),
    (CUT, f'{MACHINE},memory:64M', 'c1'),
    (PAGES, MACHINE, 'c3fp'),
    (CUT, f'{MACHINE},memory:96M', 'c3f'),
    (PAGES, f'{MACHINE},memory:64M', 'c1fp'),
    (PAGES, f'{MACHINE},memory:96M', 'c3fp'),
)
# Each thread uses a shard of its own from its first request on, as if it had contended for it.
SHARDS = 'shards:always'
# What the programs with commands are played under beside that: what is idle for a second goes back.
DECAY = 'decay_seconds:1'
SECONDS = 300  # for one run; only a program that hangs takes as long
SHRINK_SECONDS = 30
COMPLAINTS = 3  # are enough


def is_comparable(plan, flags):
    return 'memory:' not in plan and 'f' not in flags


def variant_of(seed):
    """Every second round over all of them is of programs with commands. In each round half of the
    variants have no free that waits for what the host can see: nothing but the epochs keeps the
    first law then. In the others the host reads and writes behind frees, in every second program
    also by mapped and managed memory."""
    conf, plan, flags = VARIANTS[seed % len(VARIANTS)]
    if (seed + seed // (2 * len(VARIANTS))) % 2 == 0 and 'sync:' not in conf:
        conf = f'{conf},sync:never'.lstrip(',')
    else:
        flags += 'hm'[seed // 2 % 2]
    if CUT in conf and PAGES not in conf and seed // len(VARIANTS) % 4 in (1, 2):
        conf = f'{conf},{SHARDS}'
    if seed // len(VARIANTS) % 2 == 0:
        return conf, plan, flags
    return f'{conf},{DECAY}'.lstrip(','), plan, f'{flags}l'


class Failure(Exception):
    pass


class Player:
    def __init__(self, proof, library, out):
        self.proof = str(proof)
        self.library = str(library)
        self.out = pathlib.Path(out)
        self.asking = []  # of each program, how many operations came to a call of the driver

    def run(self, arguments, plan, conf):
        """Plays; conf None is without the library. Returns the transcript."""
        with tempfile.TemporaryDirectory(prefix='proof.') as folder:
            transcript = pathlib.Path(folder) / 'transcript'
            environment = dict(os.environ, CUDASIM=plan, REGIONS=folder,
                               ASAN_OPTIONS='verify_asan_link_order=0:detect_leaks=0')
            if conf is not None:
                environment['LD_PRELOAD'] = self.library
                environment['CUDAMEM_CONF'] = f'region_dir:{folder},log:off,{conf}'.rstrip(',')
                environment['CUDASIM'] = f'{plan},check:stop'
                environment['CM_RING_CLOCK'] = 'machine'
            try:
                run = subprocess.run([self.proof, *arguments, str(transcript)],
                                     env=environment, capture_output=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise Failure('hangs')
            said = run.stderr.decode(errors='replace').strip()
            if run.returncode or said:
                raise Failure(f'ended with {run.returncode}: {said[-2000:]}')
            left = [name for name in os.listdir(folder) if name.startswith('cudamem.')]
            if left:
                raise Failure(f'left {left[0]} behind')
            return transcript.read_text().splitlines()

    def judge(self, arguments, plan, conf, flags):
        answers = self.run(arguments, plan, conf)
        self.asking.append(len({line.split(' ', 1)[0] for line in answers}))
        if not is_comparable(plan, flags):
            return
        native = self.run(arguments, plan, None)
        for ours, theirs in zip(answers, native):
            if ours != theirs:
                raise Failure(f'answers "{ours}", and without the library "{theirs}"')
        if len(answers) != len(native):
            raise Failure('another number of answers than without the library')

    def keep(self, seed, length, variant, why):
        """Writes the program down, as short as it can be made, and returns where."""
        conf, plan, flags = variant
        head = [f'# {why.splitlines()[-1]}\n', f'flags {flags}\n', f'plan {plan}\n',
                f'conf {conf}\n']
        ops = subprocess.run([self.proof, 'write', str(seed), str(length), flags], check=True,
                             capture_output=True, text=True).stdout.splitlines(keepends=True)
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f'seed{seed}.ops'
        path.write_text(''.join(head + ops))
        wanted = shrink.signature(why)

        def fails(lines):
            with tempfile.NamedTemporaryFile('w', suffix='.ops') as file:
                file.write(''.join(head + lines))
                file.flush()
                try:
                    self.judge(['play', file.name], plan, conf, flags)
                except Failure as failure:
                    return shrink.signature(str(failure)) == wanted
            return False

        # What depends on how threads meet fails now and then.
        if 'f' not in flags and fails(ops):
            path.write_text(''.join(head + shrink.shrink(ops, fails, SHRINK_SECONDS)))
        return path

    def play_seed(self, seed, length):
        variant = variant_of(seed)
        conf, plan, flags = variant
        try:
            self.judge(['run', str(seed), str(length), flags], plan, conf, flags)
        except Failure as failure:
            print(f'program {seed}: {failure}; shortening it', file=sys.stderr, flush=True)
            return f'program {seed}: kept in {self.keep(seed, length, variant, str(failure))}'
        return None

    def find_out(self, library, programs, length):
        """A broken heap: some program of the first ones must not get through."""
        player = Player(self.proof, library.resolve(), self.out)
        for seed in range(programs):
            conf, plan, flags = variant_of(seed)
            try:
                player.judge(['run', str(seed), str(length), flags], plan, conf, flags)
            except Failure as failure:
                print(f'{library.stem} is found out by program {seed}: '
                      f'{str(failure).splitlines()[0][:100]}')
                return None
        return f'{library.stem}: not found out by {programs} programs'

    def must_fail(self, seed, length, more):
        """A program whose host reads behind frees must not get through with these options."""
        conf, plan, flags = variant_of(seed)
        if not set(flags) & set('hm') or 'sync:' in conf or 'mode:' in conf:
            return None
        try:
            self.run(['run', str(seed), str(length), flags], plan, f'{conf},{more}')
        except Failure as failure:
            return None if 'behind a free' in str(failure) else f'program {seed}: {failure}'
        return f'program {seed} gets through with {more}'

    def replay(self, path):
        heads = dict(re.findall(r'^(flags|plan|conf) *(.*)$', path.read_text(), re.M))
        try:
            self.judge(['play', str(path)], heads.get('plan', 'devices:2'),
                       heads.get('conf', ''), heads.get('flags', 'c3'))
        except Failure as failure:
            return f'{path.name}: {failure}'
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('proof', type=pathlib.Path)
    parser.add_argument('library', type=pathlib.Path)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--programs', type=int, default=0)
    parser.add_argument('--length', type=int, default=2000)
    parser.add_argument('--first', type=int, default=0)
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--conf', default='')
    parser.add_argument('--fail', action='store_true')
    parser.add_argument('--replay', type=pathlib.Path, nargs='*')
    parser.add_argument('--broken', type=pathlib.Path, nargs='*')
    options = parser.parse_args()
    player = Player(options.proof.resolve(), options.library.resolve(), options.out)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if options.broken is not None:
            work = [pool.submit(player.find_out, library, options.programs, options.length)
                    for library in options.broken]
        elif options.replay is not None:
            work = [pool.submit(player.replay, path) for path in options.replay]
        elif options.fail:
            work = [pool.submit(player.must_fail, seed, options.length, options.conf)
                    for seed in range(options.programs)]
        else:
            work = [pool.submit(player.play_seed, seed, options.length)
                    for seed in range(options.first, options.first + options.programs)]
        complaints = []
        for one in concurrent.futures.as_completed(work):
            if one.result():
                complaints.append(one.result())
                if len(complaints) == COMPLAINTS:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if options.replay is None and options.broken is None and not options.fail:
        print(f'{options.programs} programs, {options.programs * options.length} operations, of '
              f'which {sum(player.asking)} called the driver, {len(complaints)} failed, {time.monotonic() - began:.0f} s')
    return 1 if complaints else 0


if __name__ == '__main__':
    sys.exit(main())
