# SPDX-License-Identifier: MIT
"""tinygrad as programs use it, without kernels: tensors on two devices that are peers, copies.

It reaches the driver by ctypes alone, with contexts of its own making, and copies through pinned
memory that it gives back after each wait. Every result is checked. At the end it holds until stdin
ends, so that it can be looked at while it holds nothing.
"""

import gc
import os
import sys

# Its own cache is off, and it keeps no files.
os.environ.update({'LRU': '0', 'CACHELEVEL': '0', 'CCACHE': '0', 'DEV': 'CUDA'})

import numpy  # noqa: E402
from tinygrad import Device, Tensor  # noqa: E402

TURNS = 200


def through_the_devices(values):
    """In by one tensor, to the other device and back; is it all there?"""
    first = Tensor(values).to('CUDA').realize()
    second = first.to('CUDA:1').realize()
    there = (second.numpy() == values).all()
    third = second.to('CUDA').realize()
    return there and (third.numpy() == values).all() and (first.numpy() == values).all()


def main():
    wrong = 0
    kept = Tensor(numpy.arange(1 << 18, dtype=numpy.int32)).to('CUDA').realize()
    for turn in range(TURNS):
        values = numpy.arange(1000 + 9973 * (turn % 32), dtype=numpy.float32) + turn
        wrong += not through_the_devices(values)
    wrong += not (kept.numpy() == numpy.arange(1 << 18)).all()
    del kept
    gc.collect()
    for name in ('CUDA', 'CUDA:1'):
        Device[name].synchronize()
    print(f'wrong: {wrong}', flush=True)
    sys.stdin.read()
    return int(wrong != 0)


if __name__ == '__main__':
    sys.exit(main())
