#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a request and a free that hit cost, against hit_path.json: test_hit_path.py BUILD.

Instructions may be 3 % more than recorded there, so that no change makes them more without notice;
files may not be more at all. Where they become less the record follows: hit_path.py BUILD --record.
"""

import os
import sys
import unittest

sys.dont_write_bytecode = True  # the tree stays as it was

import hit_path
from measure import Programs

MORE = 1.03
BUILD = None

CALLGRIND = """\
ob=(1) /a.so
fn=(1) f
0x10 5 3
+4 * 2
cob=(2) /b.so
cfn=(2) g
calls=2 0x20 0
* 6 100
-8 4 1
ob=(2)
fn=(2)
0x20 1 7
ob=(1)
* 1 4
"""


class Parts(unittest.TestCase):
    def test_what_a_callee_executes_is_not_the_callers(self):
        counts = hit_path.Counts(CALLGRIND)
        self.assertEqual(dict(counts.executed), {('/a.so', 0x10): 3, ('/a.so', 0x14): 2,
                                                 ('/a.so', 0xc): 1, ('/b.so', 0x20): 7,
                                                 ('/a.so', 0x20): 4})
        self.assertEqual(counts.total(), 17)


class Recorded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        recorded = hit_path.read_record()
        cls.recorded = recorded
        if not hit_path.is_possible():
            raise unittest.SkipTest('no valgrind, or no addr2line')
        programs = Programs(BUILD)
        if recorded['compiler'] != hit_path.name_compiler(programs):
            raise unittest.SkipTest(f'recorded with {recorded["compiler"]}')
        cls.found = hit_path.measure_all(programs)

    def test_a_pair_takes_no_more_instructions(self):
        for name, instructions in self.found['pairs'].items():
            with self.subTest(name):
                self.assertLessEqual(instructions, MORE * self.recorded['pairs'][name])

    def test_a_call_takes_no_more_instructions_and_visits_no_more_files(self):
        for name, call in self.found['calls'].items():
            with self.subTest(name):
                recorded = self.recorded['calls'][name]
                self.assertLessEqual(call['instructions'], MORE * recorded['instructions'])
                self.assertLessEqual(len(call['files']), len(recorded['files']), call['files'])


if __name__ == '__main__':
    BUILD = sys.argv.pop(1)
    unittest.main()
