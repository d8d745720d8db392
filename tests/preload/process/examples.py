#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples run with the library and without: examples.py MODULE DRIVER C_EXAMPLE PY_EXAMPLE."""

import os
import pathlib
import subprocess
import sys
import tempfile


def run(command, module, driver, regions):
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(driver).parent),
                   'CUDAMEM_CONF': f'region_dir:{regions},decay_seconds:off'}
    if module:
        environment['LD_PRELOAD'] = module
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


def main():
    module, driver, c_example, py_example = sys.argv[1:]
    wanted = {
        c_example: ['allocated  51.0 MiB, reserved  68.0 MiB', 'emptied          allocated',
                    'allocated_bytes.all.current                        3145728'],
        py_example: ['allocated 51.0 MiB', 'emptied: reserved 20.0 MiB',
                     'allocated_bytes.all.current                        3145728'],
    }
    failed = 0
    with tempfile.TemporaryDirectory(dir='.') as folder:
        regions = pathlib.Path(folder).resolve()
        for example, texts in wanted.items():
            command = [sys.executable, example] if example.endswith('.py') else [example]
            alone = run(command, None, driver, regions)
            under = run(command, module, driver, regions)
            checks = [('is not loaded' in alone.stdout, 'alone'), (not under.stderr, 'silence')]
            checks += [(text in under.stdout, text) for text in texts]
            for passed, name in checks:
                if not passed:
                    print(f'{example}: {name}\n{alone.stdout}{under.stdout}{under.stderr}')
                    failed += 1
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
