#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `run`: its parts alone, and all of it on a build, with tiny counts: test_run.py BUILD.

No time is judged here but virtual time.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the tree stays as it was

import goals
import measure
import tables
import workloads

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = None


class Parts(unittest.TestCase):
    def test_figures_are_read_from_lines_of_a_name_and_a_number(self):
        self.assertEqual(measure.parse('pairs 3\nns 1.50\n'), {'pairs': 3.0, 'ns': 1.5})

    def test_anything_else_is_refused(self):
        for text in ('', 'pairs', 'pairs x', 'pairs 1 2', 'pairs 1\npairs 2'):
            with self.subTest(text), self.assertRaises(measure.Failed):
                measure.parse(text)

    def test_regions_of_a_program_are_removed_with_it(self):
        with tempfile.TemporaryDirectory() as build:
            program = os.path.join(build, 'tests', 'bench', 'leaver')
            os.makedirs(os.path.dirname(program))
            with open(program, 'w', encoding='ascii') as script:
                script.write('#!/bin/sh\nfolder=${CUDAMEM_CONF#region_dir:}\n'
                             'touch "${folder%%,*}/cudamem.0.1.1" || exit\n'
                             'echo "$CUDAMEM_CONF" >"$0.conf"\necho left 1\n')
            os.chmod(program, 0o755)
            figures = measure.Programs(build).run('leaver', [], conf='events:0')
            self.assertEqual(figures['left'], 1)
            with open(f'{program}.conf', encoding='ascii') as told:
                folder, rest = told.read().strip().removeprefix('region_dir:').split(',')
            self.assertEqual(rest, 'events:0')
            self.assertFalse(os.path.exists(folder))

    def test_processes_that_run_together_have_a_core_each_by_turns(self):
        with tempfile.TemporaryDirectory() as build:
            program = os.path.join(build, 'tests', 'bench', 'waiter')
            os.makedirs(os.path.dirname(program))
            with open(program, 'w', encoding='ascii') as script:
                # Each waits for all of them, and tells how many cores it may use.
                script.write('#!/bin/sh\necho "$$" >>"$0.all"\n'
                             'while [ "$(wc -l <"$0.all")" -lt "$1" ]; do sleep 0.01; done\n'
                             'taskset -cp $$ | sed "s/.*: //" >>"$0.cores"\necho cores "$(nproc)"\n')
            os.chmod(program, 0o755)
            programs = measure.Programs(build, 20)
            figures = programs.run_together(5, 'waiter', [5])
            with open(f'{program}.cores', encoding='ascii') as told:
                cores = sorted(int(line) for line in told)
        self.assertEqual(figures['cores'], 1)
        self.assertEqual(cores, sorted(programs.cores[i % len(programs.cores)] for i in range(5)))

    def test_every_second_repetition_goes_backwards(self):
        self.assertEqual([job for _, job in measure.turns(['A', 'B'], 3)], list('ABBAAB'))

    def test_spread_is_half_the_quartiles_distance(self):
        series = measure.Series([8, 9, 10, 11, 12])
        self.assertEqual((series.median, series.spread), (10, 0.1))

    def test_a_goal_is_met_at_its_limit_and_not_beyond(self):
        self.assertEqual(goals.verdict(2.0, 2), 'met')
        self.assertEqual(goals.verdict(2.001, 2), 'missed')
        self.assertEqual(goals.verdict(None, 2), 'not measured')
        self.assertEqual(goals.at_least('', 5.0, 5, '')['verdict'], 'met')
        self.assertEqual(goals.at_least('', 4.99, 5, '')['verdict'], 'missed')
        self.assertEqual(goals.at_least('', None, 5, '')['verdict'], 'not measured')

    def test_a_ratio_is_that_of_one_repetition(self):
        results = goals.Results()
        for ours, unit in ((60, 20), (600, 200), (90, 30)):
            results.add(workloads.Job('row', workloads.OURS, '', ()), {'ns': ours})
            results.add(workloads.Job('row', workloads.UNIT, '', ()), {'ns': unit})
        self.assertEqual(results.units('row'), 3)

    def test_threads_are_compared_with_processes_of_the_same_row(self):
        results = goals.Results()
        for threads, processes in ((110, 100), (240, 200), (130, 100)):
            results.add(workloads.Job('row', workloads.OURS, '', ()), {'cpu_ns': threads})
            results.add(workloads.Job('row', workloads.PROCESSES, '', ()), {'cpu_ns': processes})
        self.assertEqual(results.effort('row'), 1.2)

    def test_two_threads_need_not_reach_more_than_two_processes(self):
        for threads, processes, limit, verdicts in (
                (120, 110, 1.6, ['met', 'met']), (130, 110, 1.6, ['missed', 'met']),
                (160, 150, 2 * 100 / 150, ['missed', 'met']), (149, 150, 2 * 100 / 150, ['met', 'met']),
                (160, 120, 1.6, ['missed', 'missed'])):
            results = goals.Results()
            for row, column, ns in (('log-uniform, 1000 live', workloads.OURS, 100),
                                    ('log-uniform, 1000 live', workloads.UNIT, 20),
                                    ('log-uniform, 2 threads', workloads.OURS, threads),
                                    ('log-uniform, 2 threads', workloads.UNIT, 20),
                                    ('log-uniform, 2 threads', workloads.PROCESSES, processes)):
                results.add(workloads.Job(row, column, '', ()), {'ns': ns})
            to_one, to_two = goals.two_thread_goals(results)
            self.assertAlmostEqual(to_one['least'], limit)
            self.assertAlmostEqual(to_two['value'], processes / threads)
            self.assertEqual([to_one['verdict'], to_two['verdict']], verdicts)
        self.assertEqual([goal['verdict'] for goal in goals.two_thread_goals(goals.Results())],
                         ['not measured', 'not measured'])

    def test_one_missed_limit_of_a_row_is_its_verdict(self):
        row = workloads.Row('row', ('mixed',), most=3, calls=0.2)
        results = goals.Results()
        results.add(workloads.Job('row', 'cub', '', ()), {'ns': 20})
        results.add(workloads.Job('row', 'cub-8x', '', ()), {'ns': 15})
        results.add(workloads.Job('row', workloads.OURS, '', ()),
                    {'ns': 30, 'pairs': 10, 'driver_calls': 3, 'current_calls': 10})
        told, = goals.workload_rows(results, [row])
        self.assertEqual((told['of_cub'], told['driver_calls'], told['verdict']), (2, 0.3, 'missed'))

    def test_a_table_is_as_wide_as_its_cells(self):
        self.assertEqual(tables.table(['a', 'bb'], [['long', 1]]), 'a     bb\n----  --\nlong   1')
        self.assertEqual(tables.table(['a', 'bb'], [['c', 1]], True),
                         '| a | bb |\n| - | -: |\n| c |  1 |')


class Whole(unittest.TestCase):
    ROWS = ('same size, 1 MiB', 'log-uniform, 1000 live', '2 threads, remote frees',
            '8 threads, a device each', 'busy device, ramps')
    ONLY = '|'.join((*ROWS, 'drain', 'peers', 'pipelines', 'python stacks'))

    def run_it(self, *arguments):
        return subprocess.run(
            [os.path.join(HERE, 'run'), BUILD, '--quick', '--share', '1', '--repetitions', '1',
             '--only', self.ONLY, *arguments],
            capture_output=True, text=True, check=False)

    def test_rows_and_the_trace_are_measured(self):
        done = self.run_it('--smallest', '--traces', os.path.join(HERE, 'traces'), '--json', '-')
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout[-2000:])
        told = json.loads(done.stdout)
        same, mixed, remote, devices, busy = told['workloads']
        self.assertEqual(tuple(row['name'] for row in told['workloads']), self.ROWS)
        for row in (same, mixed, remote, devices):
            self.assertGreater(row['ns'], 0)
            self.assertGreater(row['glibc_pairs'], 0)
        self.assertIsNone(busy['ns'])
        self.assertGreater(busy['driver_calls'], 0)
        self.assertGreater(same['rivals_ns']['glibc'], 0)
        found = {goal['name']: goal for goal in told['goals']}
        self.assertIsNotNone(found['waiting, to live bytes: busy device, ramps']['value'])
        self.assertGreater(found['processor time of 8 threads, a device each, to 8 processes']['value'], 0)
        self.assertIsNotNone(found['no CUDA: time more']['value'])
        self.assertIsNotNone(found['p99.99 of 1 000 000 frees, beyond glibc\'s']['value'])
        self.assertGreater(found['given by peers: 8 processes']['value'], 0)
        # In virtual time, so these do not depend on the machine.
        for what in ('compute loop: waits', 'compute loop: driver calls more than sync:never',
                     'pipeline: time, to sync:never', 'pipeline: time, to the driver alone',
                     'pipeline of three streams: time, to sync:never',
                     'pipeline of three streams: time, to the driver alone'):
            self.assertEqual(found[what]['verdict'], 'met', found[what])
        self.assertEqual(found['no CUDA: threads more']['verdict'], 'met')
        self.assertIsNotNone(found['recording: an event in the ring']['value'])
        skipped = {entry['name'] for entry in told['skipped']}
        python = () if 'python stacks' in skipped else ('20 Python frames, seen before',)
        self.assertEqual(len(told['recording']), 6 + 2 * len(python))
        for what in python:
            self.assertGreater(found[f'recording: {what}']['value'], 0)
        if python and 'python stacks, instructions' not in skipped:
            self.assertEqual(found['recording: instructions of these']['verdict'], 'met')
        if 'snapshots' not in skipped:
            for what in ('the tool', 'its pickle'):
                self.assertGreater(found[f'snapshot: {what}']['value'], 0)
            self.assertEqual(len(told['saving']), 1)
        trace, = told['traces']
        self.assertEqual(trace['operations'], 21)
        # What was live at most: 4 + 1 + 8 + 8 + 32 + 16 MiB and 512 bytes.
        self.assertEqual(trace['live_bytes'], (69 << 20) + 512)
        self.assertGreaterEqual(trace['reserved']['ours'], 1)
        self.assertGreaterEqual(trace['smallest'], 1)
        paged = trace['paged']
        self.assertGreaterEqual(paged['smallest'], 1)
        self.assertLessEqual(paged['reserved'], trace['reserved']['ours'])
        # Pages are there for the first request at least, and not for every one.
        self.assertTrue(0 < paged['mapping_share'] < 1)

    def test_a_program_that_fails_is_told_and_not_counted(self):
        done = self.run_it('--quick', '--share', '1', '--repetitions', '1', '--traces', __file__)
        self.assertEqual(done.returncode, 1)
        self.assertIn('test_run.py', done.stdout)
        self.assertIn('failed ', done.stdout)


if __name__ == '__main__':
    BUILD = sys.argv.pop(1)
    unittest.main()
