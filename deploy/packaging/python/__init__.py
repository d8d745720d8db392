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

# Type checkers see the functions of cudamem.memory; programs import it when they ask for one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from cudamem import memory as memory
    from cudamem.memory import (
        _dump_snapshot as _dump_snapshot, _record_memory_history as _record_memory_history,
        _snapshot as _snapshot, empty_cache as empty_cache, get_memory_info as get_memory_info,
        host_memory_stats as host_memory_stats, is_loaded as is_loaded,
        max_memory_allocated as max_memory_allocated, max_memory_reserved as max_memory_reserved,
        memory_allocated as memory_allocated, memory_reserved as memory_reserved,
        memory_stats as memory_stats, memory_summary as memory_summary, range as range,
        reset_accumulated_memory_stats as reset_accumulated_memory_stats,
        reset_peak_memory_stats as reset_peak_memory_stats)
else:
    def __getattr__(name):
        """The functions of cudamem.memory, which is imported when the first one is asked for."""
        import importlib
        memory = importlib.import_module('cudamem.memory')
        if name == 'memory':
            return memory
        if name in memory.__all__ or name in ('_snapshot', '_dump_snapshot', '_record_memory_history'):
            return getattr(memory, name)
        raise AttributeError(f'module cudamem has no attribute {name!r}')


def library_path() -> str:
    """The absolute path of libcudamem.so, for LD_PRELOAD."""
    return str(_HERE / 'lib' / 'cudamem' / 'libcudamem.so')


def tool_path() -> str:
    """The absolute path of cudamemstat."""
    return str(_HERE / 'bin' / 'cudamemstat')


def main() -> 'NoReturn':
    """Becomes cudamemstat."""
    os.execv(tool_path(), ['cudamemstat', *sys.argv[1:]])
