# SPDX-License-Identifier: MIT
"""cudamem: a caching allocator for unmodified CUDA programs, and cudamemstat.

This package carries both as built; it does nothing when it is imported. In a process that runs under
the library it has the functions of torch.accelerator.memory: cudamem.memory_allocated() and so on,
see cudamem.memory.
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


def __getattr__(name):
    """The functions of cudamem.memory, which is imported when the first one is asked for."""
    import importlib
    memory = importlib.import_module('cudamem.memory')
    if name == 'memory':
        return memory
    if name in memory.__all__ or name in ('_snapshot', '_dump_snapshot', '_record_memory_history'):
        return getattr(memory, name)
    raise AttributeError(f'module cudamem has no attribute {name!r}')


def main():
    """Becomes cudamemstat."""
    os.execv(tool_path(), ['cudamemstat', *sys.argv[1:]])
