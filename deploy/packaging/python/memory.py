# SPDX-License-Identifier: MIT
"""The memory of this process under libcudamem.so: cudamem(3) for Python, by ctypes.

The functions have the names, arguments and results of torch.accelerator.memory; those that begin
with an underscore are torch.cuda.memory's. They need no CUDA package, load nothing, and raise
RuntimeError in a process that was not started with the library (is_loaded() says which).

    cudamemstat run -- python3 train.py
"""

import ctypes
import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
from typing import Any, Dict, Optional, Tuple, Union

__all__ = [
    'empty_cache', 'get_memory_info', 'host_memory_stats', 'is_loaded', 'max_memory_allocated',
    'max_memory_reserved', 'memory_allocated', 'memory_reserved', 'memory_stats',
    'memory_summary', 'range', 'reset_accumulated_memory_stats', 'reset_peak_memory_stats',
]

_CURRENT_DEVICE = -1
_UINT64_MAX = 2 ** 64 - 1
_DEVICE = (ctypes.c_int,)
_SIGNATURES = {
    'empty_cache': (None, ()),
    'get_memory_info': (ctypes.c_int, (ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
                                       ctypes.POINTER(ctypes.c_uint64))),
    'max_memory_allocated': (ctypes.c_uint64, _DEVICE),
    'max_memory_reserved': (ctypes.c_uint64, _DEVICE),
    'memory_allocated': (ctypes.c_uint64, _DEVICE),
    'memory_reserved': (ctypes.c_uint64, _DEVICE),
    'memory_stats_json': (ctypes.c_size_t, (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)),
    'host_memory_stats_json': (ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)),
    'record_memory_history': (ctypes.c_int, (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p,
                                             ctypes.c_uint64, ctypes.c_int)),
    'reset_accumulated_memory_stats': (None, _DEVICE),
    'reset_peak_memory_stats': (None, _DEVICE),
    'annotation_push': (None, (ctypes.c_char_p,)),
    'annotation_pop': (ctypes.c_int, ()),
}


def _find(name: str) -> Any:
    """The library's function of that name, or None. It is looked up in the process alone."""
    try:
        function = ctypes.CDLL(None, use_errno=True)[f'cudamem_{name}']
    except AttributeError:
        return None
    function.restype, function.argtypes = _SIGNATURES[name]
    return function


def is_loaded() -> bool:
    """Whether this process runs under libcudamem.so."""
    return _find('empty_cache') is not None


def _call(name: str, *arguments: Any) -> Any:
    function = _find(name)
    if function is None:
        raise RuntimeError('libcudamem.so is not loaded in this process; start it with '
                           '"cudamemstat run -- python3 ..."')
    ctypes.set_errno(0)
    result = function(*arguments)
    if ctypes.get_errno() == errno.EINVAL and _SIGNATURES[name][1][:1] == _DEVICE:
        raise ValueError(f'there is no device {arguments[0]}')
    return result


def _index(device: Union[None, int, str, Any]) -> int:
    """None, 1, "cuda:1", or what has an index, as torch.device has."""
    if device is None:
        return _CURRENT_DEVICE
    if isinstance(device, str):
        kind, _, number = device.partition(':')
        if kind not in ('cuda', 'gpu') or (number and not number.isdigit()):
            raise ValueError(f'"{device}" is not a device: want a number or "cuda:N"')
        return int(number) if number else _CURRENT_DEVICE
    if hasattr(device, 'index') and not isinstance(device, int):
        device = device.index
        return _CURRENT_DEVICE if device is None else int(device)
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f'a device is a number or "cuda:N", not {type(device).__name__}')
    if device < 0:
        raise ValueError(f'{device} is not a device')
    return device


def empty_cache() -> None:
    """Releases all unused cached memory to the driver, on all devices."""
    _call('empty_cache')


def memory_allocated(device: Any = None) -> int:
    """Bytes in allocated blocks."""
    return int(_call('memory_allocated', _index(device)))


def max_memory_allocated(device: Any = None) -> int:
    """Bytes in allocated blocks, at most since the start or the last reset."""
    return int(_call('max_memory_allocated', _index(device)))


def memory_reserved(device: Any = None) -> int:
    """Bytes reserved from the driver, allocated or cached."""
    return int(_call('memory_reserved', _index(device)))


def max_memory_reserved(device: Any = None) -> int:
    """Bytes reserved from the driver, at most since the start or the last reset."""
    return int(_call('max_memory_reserved', _index(device)))


def _read_json(name: str, *device: int) -> Dict[str, int]:
    room = 4096
    while True:
        text = ctypes.create_string_buffer(room)
        length = _call(name, *device, text, room)
        if length < room:
            stats: Dict[str, int] = json.loads(text.value)
            return stats
        room = length + 1


def memory_stats(device: Any = None) -> Dict[str, int]:
    """All statistics of a device, with PyTorch's keys and our own."""
    return _read_json('memory_stats_json', _index(device))


def host_memory_stats() -> Dict[str, int]:
    """Those of pinned host memory: torch.cuda.host_memory_stats."""
    return _read_json('host_memory_stats_json')


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets sums and event counters to 0."""
    _call('reset_accumulated_memory_stats', _index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Sets the peaks to the present values."""
    _call('reset_peak_memory_stats', _index(device))


def get_memory_info(device: Any = None) -> Tuple[int, int]:
    """Free and total bytes of a device; what the cache could release is free."""
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    error = _call('get_memory_info', _index(device), ctypes.byref(free), ctypes.byref(total))
    name = 'the current device' if device is None else f'device {device}'
    if error == -errno.EINVAL:
        raise ValueError(f'there is no device {device}')
    if error == -errno.ENODEV:
        raise RuntimeError(f'this process has no CUDA context on {name} yet: allocate memory there '
                           'first, or make a context current')
    if error < 0:
        raise OSError(-error, f'{name}: {os.strerror(-error)}')
    if error:
        raise RuntimeError(f'{name}: CUDA error {error}')
    return free.value, total.value


def _spell(size: int) -> str:
    value, unit = float(size), 'B'
    for unit in ('B', 'KiB', 'MiB', 'GiB', 'TiB'):
        if abs(value) < 1024 or unit == 'TiB':
            break
        value /= 1024
    return f'{size} B' if unit == 'B' else f'{value:.2f} {unit}'


_ROWS = (('allocated', 'allocated_bytes.all', _spell), ('requested', 'requested_bytes.all', _spell),
         ('active', 'active_bytes.all', _spell), ('reserved', 'reserved_bytes.all', _spell),
         ('fragmented', 'inactive_split_bytes.all', _spell), ('blocks', 'allocation.all', str),
         ('segments', 'segment.all', str))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The main statistics as a table of text. `abbreviated` leaves out the sums."""
    stats = memory_stats(device)
    columns = ('current', 'peak') if abbreviated else ('current', 'peak', 'allocated', 'freed')
    lines = [' ' * 12 + ''.join(f'{column:>14}' for column in columns)]
    for name, key, spell in _ROWS:
        values = (spell(stats.get(f'{key}.{column}', 0)) for column in columns)
        lines.append(f'{name:12}' + ''.join(f'{value:>14}' for value in values))
    lines.append(f"out of memory: {stats.get('num_ooms', 0)}, "
                 f"driver allocations: {stats.get('num_device_alloc', 0)}, "
                 f"retries: {stats.get('num_alloc_retries', 0)}")
    return '\n'.join(lines) + '\n'


class range:  # pylint: disable=invalid-name,redefined-builtin
    """Names what the thread does: `with cudamem.range('forward'): ...`."""

    def __init__(self, name: str):
        self._name = name.encode()

    def __enter__(self) -> 'range':
        _call('annotation_push', self._name)
        return self

    def __exit__(self, *_: Any) -> None:
        _call('annotation_pop')


def _record_memory_history(enabled: Optional[str] = 'all', context: Optional[str] = 'all',
                           stacks: str = 'all', max_entries: int = sys.maxsize,
                           device: Any = None, clear_history: bool = False) -> None:
    """As torch.cuda.memory._record_memory_history; all devices are recorded."""
    del device
    if max_entries < 1:
        raise ValueError(f'max_entries={max_entries!r}: want at least 1')
    error = _call('record_memory_history', enabled.encode() if enabled else None,
                  context.encode() if context else None, stacks.encode(),
                  min(max_entries, _UINT64_MAX), int(clear_history))
    if error == -errno.EINVAL:
        raise ValueError(f'enabled={enabled!r}, context={context!r}, stacks={stacks!r} or '
                         f'max_entries={max_entries!r} is not known')
    if error:
        raise OSError(-error, os.strerror(-error))


def _tool() -> str:
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'bin', 'cudamemstat')
    path = os.environ.get('CUDAMEMSTAT') or (own if os.access(own, os.X_OK) else
                                             shutil.which('cudamemstat'))
    if not path:
        raise RuntimeError('cudamemstat is not found: put it on PATH')
    return path


def _export(form: str, path: str) -> bytes:
    _call('memory_allocated', 0)  # is the library there?
    environment = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    run = subprocess.run([_tool(), *form.split(), '-O', path, str(os.getpid())], env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr.decode(errors='replace').strip())
    return run.stdout


def _snapshot(device: Any = None) -> Dict[str, Any]:
    """As torch.cuda.memory._snapshot: segments and events as a dictionary; all devices."""
    del device
    snapshot: Dict[str, Any] = pickle.loads(_export('export --to pickle', '-'))
    return snapshot


def _dump_snapshot(filename: str = 'dump_snapshot.pickle') -> None:
    """As torch.cuda.memory._dump_snapshot: for PyTorch's viewer."""
    with open(filename, 'wb') as file:
        file.write(_export('export --to pickle', '-'))
