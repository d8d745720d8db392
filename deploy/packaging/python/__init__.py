# SPDX-License-Identifier: MIT
"""cudamem: a caching allocator for unmodified CUDA programs, and cudamemstat.

This package carries both as built; it does nothing when it is imported.
"""

import os
import pathlib
import sys

__version__ = '@VERSION@'
_HERE = pathlib.Path(__file__).resolve().parent


def library_path():
    """The absolute path of libcudamem.so, for LD_PRELOAD."""
    return str(_HERE / 'lib' / 'cudamem' / 'libcudamem.so')


def tool_path():
    """The absolute path of cudamemstat."""
    return str(_HERE / 'bin' / 'cudamemstat')


def main():
    """Becomes cudamemstat."""
    os.execv(tool_path(), ['cudamemstat', *sys.argv[1:]])
