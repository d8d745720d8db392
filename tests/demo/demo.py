#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one CUDA program without and with the cache, watches it, and puts the figures side by side.

Every figure comes from these two runs: what the program measured of itself, what the driver counted
(the simulated one), and what cudamemstat read from the process.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from watched import Stage, Watched, read_sim_report  # noqa: E402

STEPS = 1200
BEGINS_WITHIN = 60  # s, on a machine however busy
# Costs as published for real cards, in round numbers; what matters is that both runs pay the same.
# A context takes no memory of its own, so that what the card holds is what was asked of it.
PLAN = ','.join((
    'time:real', 'memory:16G', 'context:0', 'copy:5us', 'bandwidth:12G',
    'cuMemAlloc_v2:50us', 'cuMemFree_v2:50us',
    'cuCtxRecordEvent:2us', 'cuEventQuery:1us', 'cuCtxWaitEvent:2us'))
# Calls that allocate or free memory, or learn whether it is idle; under the names of the driver.
COUNTED = ('cuMemAlloc_v2', 'cuMemFree_v2', 'cuCtxRecordEvent', 'cuEventQuery', 'cuCtxWaitEvent')


def graphics_card():
    """The name of the first real card, or None."""
    probe = ('import ctypes as c; d = c.CDLL("libcuda.so.1"); n = c.create_string_buffer(100);'
             'assert d.cuInit(0) == 0 and d.cuDeviceGetName(n, 100, 0) == 0; print(n.value.decode())')
    run = subprocess.run([sys.executable, '-c', probe], capture_output=True, text=True, check=False)
    return run.stdout.strip() or None


def find_runtime(folders):
    """The shared CUDA runtime, of whatever version there is."""
    found = [path for folder in folders for path in sorted(folder.glob('libcudart.so.[0-9]*'))
             if path.is_file()]
    if not found:
        sys.exit(f'demo: no libcudart.so in {", ".join(map(str, folders))}')
    return found[0]


def compile_program(program, cuda, runtime):
    command = ['cc', '-g', '-O2', '-o', str(program), os.path.relpath(HERE / f'{program.name}.c'),
               f'-I{cuda}/include', f'-L{runtime.parent}', f'-l:{runtime.name}',
               f'-Wl,-rpath,{runtime.parent.resolve()}']
    print('$', ' '.join(command))
    subprocess.run(command, check=True)


def watch(run):
    """Shows cudamemstat's view while the program works; its process, to be ended."""
    pid = str(run.process.pid)
    command = [run.tool, 'ls', '-p', pid]
    end = time.monotonic() + BEGINS_WITHIN
    while run.process.poll() is None:
        # Its first request makes the region, and a moment later the device in it.
        begun = subprocess.run([*command, '--where', 'alloc>0'], capture_output=True, check=False)
        if begun.returncode == 0:
            listing = subprocess.run(command, capture_output=True, text=True, check=False)
            print(f'\n$ cudamemstat ls -p {pid}\n{listing.stdout}\n$ cudamemstat stat -p {pid} 0.5',
                  flush=True)
            return subprocess.Popen([run.tool, 'stat', '-p', pid, '0.5'])
        if time.monotonic() > end:
            sys.exit(f'demo: cudamemstat sees no memory of the program after {BEGINS_WITHIN} s')
        time.sleep(0.01)
    return None


def run_once(stage, program, preloaded, report):
    """What one run showed: the program's own figures, driver calls, PyTorch's dictionary."""
    command = [program, STEPS, 'hold']
    print('\n$', *(['LD_PRELOAD=libcudamem.so'] if preloaded else []), *command, flush=True)
    with Watched(command, stage.environment(preloaded, report), stage.tool) as run:
        viewer = watch(run) if preloaded else None
        figures = run.results()
        stats = run.memory_stats()[0] if preloaded and figures else {}
        if viewer:
            viewer.terminate()
            viewer.wait()
    if run.process.returncode or figures.get('wrong', 1):
        sys.exit(f'demo: the program failed (status {run.process.returncode})')
    print(f'{"under the preload" if preloaded else "without"}: {figures["seconds"]:.2f} s')
    calls, peak = read_sim_report(report) if stage.simulation else (None, None)
    return {'figures': figures, 'stats': stats, 'calls': calls, 'peak': peak}


def driver_calls(result):
    """By kind. On a real card nothing counts them from below: the program and our counters do."""
    if result['calls'] is not None:
        return [result['calls'].get(name, 0) for name in COUNTED]
    stats = result['stats']
    if not stats:
        return [int(result['figures']['pairs'])] * 2 + [0, 0, 0]
    return [stats['num_device_alloc'], stats['num_device_free'], stats['epochs_closed'],
            stats['event_queries'], stats['barriers']]


def mebibytes(count):
    return '-' if count is None else f'{count / 2**20:.1f} MiB'


def microseconds(nanoseconds):
    return f'{nanoseconds / 1000:.2f} us'


def table(bare, cached):
    yield 'driver calls', '', ''
    for name, before, after in zip(COUNTED, driver_calls(bare), driver_calls(cached)):
        yield f'  {name.removesuffix("_v2")}', f'{before:,}', f'{after:,}'
    yield '  in all', f'{sum(driver_calls(bare)):,}', f'{sum(driver_calls(cached)):,}'
    yield 'time', '', ''
    before, after = bare['figures'], cached['figures']
    yield '  one cudaMalloc', microseconds(before['malloc_ns']), microseconds(after['malloc_ns'])
    yield '  one cudaFree', microseconds(before['free_ns']), microseconds(after['free_ns'])
    yield ('  the pair', microseconds(before['malloc_ns'] + before['free_ns']),
           microseconds(after['malloc_ns'] + after['free_ns']))
    yield '  the whole program', f'{before["seconds"]:.2f} s', f'{after["seconds"]:.2f} s'
    stats = cached['stats']
    hits, misses = stats['cache_hits'], stats['cache_misses']
    yield 'served by the cache', 'no cache', f'{hits:,} of {hits + misses:,}'
    yield 'memory', '', ''
    yield '  live, at the end', mebibytes(before['live_bytes']), mebibytes(after['live_bytes'])
    yield ('  live, at the peak', mebibytes(before['live_peak_bytes']),
           mebibytes(after['live_peak_bytes']))
    yield ('  reserved, at the peak', mebibytes(bare['peak']),
           mebibytes(stats['reserved_bytes.all.peak']))
    yield 'results', 'all right', 'all right'


def show(bare, cached, device):
    pairs = int(bare['figures']['pairs'])
    print(f'\n{pairs:,} cudaMalloc and cudaFree, {device}\n')
    print(f'{"":24}{"without":>16}{"with cudamem":>20}')
    for name, before, after in table(bare, cached):
        print(f'{name:24}{before:>16}{after:>20}'.rstrip())


def invite(build, cuda, runtime):
    """How to go on by hand, on the simulated device: the story that README.md tells."""
    print('\nA program that runs out of memory, for what comes next:')
    compile_program(build / 'solver', cuda, runtime)
    print(f"""
To go on, without a card:

  export PATH="$PWD/{build}/tools:$PATH" LD_LIBRARY_PATH="$PWD/{build}/tests/sim"
  CUDASIM=memory:1G cudamemstat run --stacks=all --oom oom.cudamem -- {build}/solver 80
  cudamemstat plot oom.cudamem -O oom.html
  cudamemstat demo      # a made-up busy machine; in another terminal: cudamemstat top""")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True, type=pathlib.Path)
    parser.add_argument('--cuda', required=True, type=pathlib.Path)
    options = parser.parse_args()
    card = graphics_card()
    simulation = None if card else options.build / 'tests/sim'
    device = f'on the {card}' if card else 'on the simulated device: its latencies are planned'
    print(f'This machine has {"a graphics card: " + card if card else "no graphics card"}.',
          '' if card else 'The program runs on the simulated device.')
    os.environ.pop('CUDAMEM_CONF', None)  # the defaults are what is shown
    stage = Stage(options.build / 'interpose/libcudamem.so', options.build / 'tools/cudamemstat',
                  simulation, PLAN)
    program = options.build / 'demo'
    folders = [simulation] if simulation else [options.cuda / 'lib64', options.cuda / 'lib']
    runtime = find_runtime(folders)
    compile_program(program, options.cuda, runtime)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'calls'
        bare = run_once(stage, program, False, report)
        cached = run_once(stage, program, True, report)
    show(bare, cached, device)
    if simulation:
        invite(options.build, options.cuda, runtime)


if __name__ == '__main__':
    main()
