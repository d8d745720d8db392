# SPDX-License-Identifier: MIT
"""Numba's own runner, over the modules of a package of tests, one by one.

  numba_modules.py PACKAGE

The package's own loader ends at a module that skips itself, as one that wants CuPy does.
"""

import importlib
import pkgutil
import sys

import pytest
from numba.testing import run_tests


def modules_of(package):
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f'{package}.'):
        if not module.name.rpartition('.')[2].startswith('test_'):
            continue
        try:
            importlib.import_module(module.name)
        except pytest.skip.Exception as reason:
            print(f'{module.name} skips itself: {reason}')
        else:
            yield module.name


if __name__ == '__main__':
    sys.exit(not run_tests([sys.argv[0], '-v', *modules_of(sys.argv[1])]).wasSuccessful())
