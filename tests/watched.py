# SPDX-License-Identifier: MIT
"""Runs a CUDA program bare or under the preload, and looks at it from outside while it holds.

The programs of tests/demo and tests/clients print lines of the form `name: value`, the last of them
`wrong: N`, and then wait for the end of stdin. Until then cudamemstat finds them with all their
work done and nothing lost.
"""

import json
import os
import pathlib
import subprocess


def read_sim_report(path):
    """Calls of each driver function, and the peak of the first device, as the simulation counted."""
    calls, peak = {}, None
    for line in path.read_text(encoding='utf-8').splitlines():
        words = line.split()
        if words[0] == 'device' and words[1] == '0':
            peak = int(words[words.index('peak_bytes') + 1])
        elif words[0] not in ('device', 'total'):
            calls[words[0]] = int(words[1])
    return calls, peak


class Watched:
    """One run of a program. Use as a context manager: leaving it lets the program end."""

    def __init__(self, command, environment, tool):
        self.tool = str(tool)
        self.process = subprocess.Popen(
            [str(word) for word in command], env={**os.environ, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def results(self):
        """Waits for the work to be done: what the program printed. Empty where it failed early."""
        found = {}
        for line in self.process.stdout:
            name, colon, value = line.partition(': ')
            if colon:
                found[name] = float(value)
            if name == 'wrong':
                break
        return found

    def memory_stats(self):
        """PyTorch's dictionary of each device, as cudamemstat reads it from outside."""
        command = [self.tool, 'memory-stats', str(self.process.pid), '--json']
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return [device['stats'] for device in json.loads(run.stdout)['processes'][0]['devices']]


class Stage:
    """Where programs run: the simulated device, or a real one."""

    def __init__(self, library, tool, simulation=None, plan=''):
        self.library = pathlib.Path(library).resolve()
        self.tool = pathlib.Path(tool).resolve()
        self.simulation = simulation and pathlib.Path(simulation).resolve()
        self.plan = plan

    def environment(self, preloaded, report=None):
        wanted = {}
        if self.simulation:
            wanted['LD_LIBRARY_PATH'] = str(self.simulation)
            wanted['CUDASIM'] = self.plan
        if report:
            wanted['CUDASIM_REPORT'] = str(report)
        if preloaded:
            wanted['LD_PRELOAD'] = str(self.library)
        return wanted
