#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the ensemble: its programs, what it refuses, and that its judge notices what is bad: test_ensemble.py
BUILD.
"""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the tree stays as it was

from ensemble import judge

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = None
MOST_LIVE = 100 << 30
# 2^64, and what becomes more by its unit.
TOO_LARGE = '18446744073709551616'
OVERFLOWS = '18014398509481984K'


def ensemble(*arguments):
    return subprocess.run([os.path.join(BUILD, 'tests', 'bench', 'ensemble'), *arguments],
                          capture_output=True, text=True, check=False)


def trace(name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'program.ops')
        done = ensemble('--program', name, '--trace', path)
        if done.returncode:
            raise AssertionError(done.stderr)
        with open(path, encoding='ascii') as file:
            return file.read()


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = ensemble('--seeds', '0:12', '--list')
        cls.listed = done.stdout.splitlines()
        cls.problem = done.stderr

    def test_every_program_keeps_its_contract(self):
        # The program checks each one that it makes, and ends where one does not.
        self.assertEqual(self.problem, '')
        self.assertEqual(len(self.listed) % 12, 0)
        self.assertGreaterEqual(len(self.listed) // 12, 13)

    def test_a_seed_is_always_the_same_program_and_another_is_not(self):
        for family in {line.split('=')[1].split(':')[0] for line in self.listed}:
            with self.subTest(family):
                self.assertEqual(trace(f'{family}:3'), trace(f'{family}:3'))
                self.assertNotEqual(trace(f'{family}:3'), trace(f'{family}:4'))

    def test_a_trace_frees_what_is_live_and_has_the_peak_that_is_told(self):
        for line in self.listed:
            name = line.split()[0].removeprefix('program=')
            if not name.endswith(':1'):
                continue
            live, now, most = {}, 0, 0
            for words in map(str.split, trace(name).splitlines()):
                if words[0] == 'a':
                    self.assertNotIn(words[1], live)
                    live[words[1]] = int(words[2])
                    now += int(words[2])
                elif words[0] == 'f':
                    now -= live.pop(words[1])
                most = max(most, now)
            with self.subTest(name):
                self.assertIn(f' live={most} ', line)
                self.assertLessEqual(most, MOST_LIVE)

    def test_parts_are_all_of_it(self):
        parts = [ensemble('--seeds', '0:2', '--list', '--part', f'{n}:3').stdout.splitlines()
                 for n in range(3)]
        whole = ensemble('--seeds', '0:2', '--list').stdout.splitlines()
        self.assertEqual(sorted(sum(parts, [])), sorted(whole))


class Refused(unittest.TestCase):
    def test_numbers_that_overflow_and_what_is_none(self):
        for option, values in {
                '--card': (TOO_LARGE, OVERFLOWS, '16777216T', '-1', '', '1', '1GG', '1X', ' 1G', f'{TOO_LARGE}%',
                           '99%', '100001%', '%'),
                '--seeds': (f'0:{TOO_LARGE}', f'{TOO_LARGE}:1', '18446744073709551615:1', '1:', ':1', '1',
                            '1:2:3', '-1:2'),
                '--program': (f'training:{TOO_LARGE}', 'training:', 'training', 'nobody:1', ':1'),
                '--part': ('0:0', '2:2', '1'),
        }.items():
            for value in values:
                with self.subTest(option, value=value):
                    done = ensemble(option, value, '--list')
                    self.assertEqual((done.returncode, done.stdout), (2, ''))

    def test_the_largest_are_taken(self):
        for arguments in (('--card', '16777215T', '--seeds', '0:0'), ('--seeds', '18446744073709551614:1'),
                          ('--program', 'training:18446744073709551614')):
            with self.subTest(arguments):
                self.assertEqual(ensemble('--list', *arguments).returncode, 0)

    def test_a_system_that_is_not_there(self):
        self.assertEqual(ensemble('--seeds', '0:1', 'nobody').returncode, 2)


class Judge(unittest.TestCase):
    """A bad allocator takes a quarter more and asks the driver each time; the driver is as native."""

    @classmethod
    def setUpClass(cls):
        # Seeds whose cards are 1.5 and 2 times the peak: it ends on them.
        done = ensemble('--smallest', '--seeds', '10:4', 'planted', 'driver', 'torch', 'torch-pages')
        cls.cases = judge.read(done.stdout.splitlines())

    def verdicts(self, system):
        return {row['name']: row['verdict']
                for row in judge.judge(self.cases, judge.rows(ours=system, paged=system))}

    def test_what_a_bad_allocator_misses(self):
        found = self.verdicts('planted')
        for name in ('growing: blocks got, of native, least', 'growing vectors: most held, of native, least',
                     'half-freed, crowded: requests that native serves, %',
                     "smallest card, to PyTorch's: worst",
                     'driver allocations and frees a request, warm: mean',
                     'driver time, to native, first pass: worst',
                     'smallest card, to native, idle: mean'):
            with self.subTest(name):
                self.assertEqual(found[name], 'missed')

    def test_what_the_driver_meets(self):
        found = self.verdicts('driver')
        for name in ('growing: blocks got, of native, least', 'growing vectors: most held, of native, least',
                     'half-freed, crowded: requests that native serves, %',
                     'driver time, to native, first pass: worst',
                     'smallest card, to native, idle: worst'):
            with self.subTest(name):
                self.assertEqual(found[name], 'met')
        self.assertEqual(found['driver allocations and frees a request, warm: mean'], 'missed')

    def test_what_has_not_been_played_is_not_met(self):
        found = {row['verdict'] for row in judge.judge(self.cases, judge.rows())}
        self.assertEqual(found, {'not measured'})

    def test_the_worst_are_named_so_that_they_can_be_played_again(self):
        row = next(iter(judge.judge(self.cases, judge.rows(ours='planted'))))
        self.assertRegex(row['worst'][0], r'^growing:\d\d( busy)? 0')


if __name__ == '__main__':
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
