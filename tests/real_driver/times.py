# SPDX-License-Identifier: MIT
"""What it costs a program that finds no card to run under the library: processor time, bare and
under by turns, so that what else the machine does falls on both."""

import resource
import statistics

import programs

# Turns of a program that takes milliseconds, and of one that takes seconds to import its modules.
TURNS, FEW_TURNS = 15, 5
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


def check_time(case, command, name, turns=TURNS):
    """Complains if the medians are further apart than the bare runs are from each other."""
    times = {False: [], True: []}
    for _ in range(turns):
        for preloaded, list_of in times.items():
            list_of.append(spent_ms(case, command, preloaded))
    low, bare, high = statistics.quantiles(times[False], n=4)
    lowest, under, highest = statistics.quantiles(times[True], n=4)
    print(f'{name}: {bare:.1f} ms ({low:.1f} to {high:.1f}) bare, {under:.1f} ms ({lowest:.1f} to '
          f'{highest:.1f}) under the library: median and quartiles of {turns} runs')
    if under - bare > LOADING_MS + 2 * (high - low):
        return [f'{name}: takes {under - bare:.1f} ms more under the library']
    return []


def check_python_times(case, python, release, is_there):
    found = []
    for name, (module, code) in programs.PROGRAMS.items():
        if is_there(python, module):
            found += check_time(case, [python, '-c', code], f'{release}, {name}', FEW_TURNS)
    return found
