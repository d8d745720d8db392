# SPDX-License-Identifier: MIT
"""How the clients are told what to do, and tell what they found: as the programs in C do
(kit/tell.h, kit/library.h)."""

import argparse
import ctypes
import hashlib
import importlib
import json
import os
import sys

SKIPPED = 77


def need(module):
    """The module, or the end of this client: what is not installed can't be tried."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f'{module} is not here: {error}', file=sys.stderr)
        sys.exit(SKIPPED)


def arguments_of(description, **defaults):
    """A parser of --device and of whole numbers by their names: less of them is quicker."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument('--device', default='cuda', choices=('cuda', 'cpu'),
                        help='cpu goes through the same without a card')
    for name, value in defaults.items():
        parser.add_argument(f'--{name}', type=int, default=value)
    return parser


def skip(reason):
    print(reason, file=sys.stderr)
    sys.exit(SKIPPED)


def fact(name, value, unit, where):
    print(json.dumps({'fact': name, 'where': where, 'value': value, 'unit': unit}), flush=True)


def fact_times(name, nanoseconds, where):
    ordered = sorted(nanoseconds)
    print(json.dumps({'fact': name, 'where': where, 'value': ordered[len(ordered) // 2],
                      'unit': 'ns', 'p99': ordered[len(ordered) * 99 // 100]}), flush=True)


def result(name, values):
    """Compared to the last bit: of an array its bytes, of a number its binary digits."""
    if isinstance(values, float):
        text = values.hex()
    elif hasattr(values, 'tobytes'):
        text = hashlib.sha256(values.tobytes()).hexdigest()[:32]
    else:
        text = str(values)
    print(f'{name}: {text}', flush=True)


def library_figures():
    """The library's statistics of device 0, by PyTorch's keys; None where it is not here."""
    process = ctypes.CDLL(None)
    try:
        read = process.cudamem_memory_stats_json
    except AttributeError:
        return None
    read.restype = ctypes.c_size_t
    read.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
    text = ctypes.create_string_buffer(read(0, None, 0) + 1)
    read(0, text, len(text))
    return json.loads(text.value)


def leave_figures(theirs=None):
    """For the runner: the library's, or the client's own where the library is not here."""
    figures = library_figures()
    figures = theirs if figures is None else figures
    path = os.environ.get('GPU_SUITE_STATS')
    if figures and path:
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({'device': figures, 'host': {}}, file)
    return figures or {}
