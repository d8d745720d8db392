# SPDX-License-Identifier: MIT
"""What recording the stacks of a Python program costs, 20 frames deep: real CPython, the library by ctypes.

  python_frames.py BENCH ROUNDS         nanoseconds that stacks add to a pair
  python_frames.py BENCH --pairs PAIRS  plays so many pairs, for those who count instructions
"""

import ctypes
import sys

FRAMES = 20

# Each has a code object of its own, as in a program.
SOURCE = ''.join(f"""
def call_{number}():
    return call_{number + 1}()
""" for number in range(4, FRAMES))


def descend(function):
    """Calls it from the last of all frames, which are main's, this one's and those of the source."""
    names = {f'call_{FRAMES}': function}
    exec(SOURCE, names)
    return names['call_4']()


def check(result):
    if result:
        sys.exit(f'python_frames: {result}')


def main():
    # CDLL lets go of the interpreter's lock, as most clients do.
    bench = ctypes.CDLL(sys.argv[1])
    check(bench.start())
    if sys.argv[2] == '--pairs':
        pairs = int(sys.argv[3])
        check(descend(lambda: bench.play(pairs)))
        return
    rounds, times = int(sys.argv[2]), (ctypes.c_double * 3)()
    check(descend(lambda: bench.measure(rounds, times)))
    plain, python, both = times
    print(f'python_20_ns {python - plain:.1f}')
    print(f'both_20_ns {both - plain:.1f}')


main()
