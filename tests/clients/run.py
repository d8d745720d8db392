#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a client bare and under the preload, on the simulated device, and compares.

Exit status 77: the client's packages cannot be had here.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import packages  # noqa: E402
from watched import Stage, Watched, read_sim_report  # noqa: E402

SKIPPED = 77
COUNTERS = ('cache_hits', 'cache_misses', 'num_device_alloc', 'allocation.all.current')


def run_once(stage, command, preloaded, report):
    with Watched(command, stage.environment(preloaded, report), stage.tool) as run:
        figures = run.results()
        stats = run.memory_stats() if preloaded and 'wrong' in figures else []
    return run.process.returncode, figures, stats, read_sim_report(report)[0]


def complaints(bare, cached):
    """What is not as it should be; each line says it."""
    for name, (status, figures, _, _) in (('bare', bare), ('under the preload', cached)):
        if status or figures.get('wrong') != 0:
            yield f'{name}: the client failed: status {status}, {figures}'
            return
    asked = bare[3]['cuMemAlloc_v2']
    # Of all devices together; PyTorch's dictionary has limits besides, which are not looked at.
    stats = {name: sum(device[name] for device in cached[2]) for name in COUNTERS}
    driver_allocs = cached[3]['cuMemAlloc_v2']
    print(f'{asked} requests; {driver_allocs} driver allocations under the preload, '
          f'{stats["cache_hits"]} served by the cache')
    if stats['cache_hits'] + stats['cache_misses'] != asked:
        yield 'not every request was counted once'
    if stats['num_device_alloc'] != driver_allocs:
        yield f'the counters say {stats["num_device_alloc"]} driver allocations'
    if driver_allocs * 2 > asked:
        yield 'the cache hardly served anything'
    if stats['allocation.all.current'] != 0:
        yield f'{stats["allocation.all.current"]} blocks are still allocated'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--library', required=True)
    parser.add_argument('--tool', required=True)
    parser.add_argument('--simulation', required=True)
    parser.add_argument('--plan', default='', help='what the simulation is like')
    parser.add_argument('--venv', type=pathlib.Path, help='a Python client: its environment')
    parser.add_argument('--requirements', type=pathlib.Path)
    parser.add_argument('client')
    options = parser.parse_args()
    command = [options.client]
    if options.venv:
        try:
            command.insert(0, packages.install(options.venv, options.requirements))
        except packages.Unavailable as reason:
            print(f'the packages cannot be installed: {reason}')
            return SKIPPED
    stage = Stage(options.library, options.tool, options.simulation, options.plan)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'calls'
        bare = run_once(stage, command, False, report)
        cached = run_once(stage, command, True, report)
    found = list(complaints(bare, cached))
    for complaint in found:
        print(complaint)
    return int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
