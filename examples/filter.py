# SPDX-License-Identifier: MIT
"""A filter on CuPy that makes a scratch array in every step, for docs/cookbook.md."""

import cupy


def smooth(field):
    scratch = cupy.empty_like(field)
    scratch.data.copy_from_device(field.data, field.nbytes)
    return scratch


def main():
    cupy.cuda.set_allocator(None)
    field = cupy.empty(1 << 21, dtype=cupy.float32)
    kept = []
    for step in range(100):
        field = smooth(field)
        if step % 10 == 0:
            kept.append(cupy.empty(1 << 20, dtype=cupy.float32))
    input('ready')


main()
