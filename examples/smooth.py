# SPDX-License-Identifier: MIT
"""A solver on Numba that makes a scratch array in every step, for docs/cookbook.md."""

import numpy
from numba import cuda


def smooth(field):
    scratch = cuda.device_array_like(field)
    scratch.copy_to_device(field)
    return scratch


def main():
    field = cuda.to_device(numpy.zeros(1 << 20))
    for _ in range(100):
        smooth(field)
    cuda.synchronize()
    input('ready')


main()
