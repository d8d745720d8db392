# SPDX-License-Identifier: MIT
"""What it costs a program that finds no card to run under the library: processor time, bare and
under it, alternating, so that what else the machine does falls on both."""

import resource
import statistics

import programs

# Rounds of a program that takes milliseconds, and of one that takes seconds to import its modules.
ROUNDS, FEW_ROUNDS = 15, 5
TRIES = 3
# Of each kind of runtime one: the driver's own version, and one that is too new for the driver.
RUNTIMES = ('12.4.127', '13.0.96')
# What loading the library may take: it is mapped and relocated, and its constructor does next to
# nothing. Measured: 1.0 to 1.4 ms where the bare program takes 3 to 5.
LOADING_MS = 5


def spent_ms(case, command, preloaded):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    case.run(command, preloaded)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compare(case, command, name, rounds):
    """What each round takes more under the library; its two runs come one after the other."""
    bare, more = [], []
    for _ in range(rounds):
        bare.append(spent_ms(case, command, False))
        more.append(spent_ms(case, command, True) - bare[-1])
    low, median, high = statistics.quantiles(more, n=4)
    print(f'{name}: {statistics.median(bare):.1f} ms bare, {median:+.1f} ms ({low:+.1f} to '
          f'{high:+.1f}) under the library: median and quartiles of {rounds} rounds')
    return low


def check_time(case, command, name, rounds=ROUNDS):
    """Complains if three rounds of four take longer by more than loading may, three times in a row:
    a machine that becomes busy meanwhile does not slow down the same one of the two each time."""
    for _ in range(TRIES):
        least = compare(case, command, name, rounds)
        if least <= LOADING_MS:
            return []
    return [f'{name}: takes {least:.1f} ms more under the library']


def check_python_times(case, python, release, is_there):
    found = []
    for name, (module, code) in programs.PROGRAMS.items():
        if is_there(python, module):
            found += check_time(case, [python, '-c', code], f'{release}, {name}', FEW_ROUNDS)
    return found
