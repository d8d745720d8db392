# SPDX-License-Identifier: MIT
"""Takes lines out of a program while it still fails in the same way (Zeller's ddmin)."""

import re
import time


def signature(why):
    """What makes two failures the same: what was said last, but for the numbers."""
    lines = why.strip().splitlines()
    return re.sub(r'0x[0-9a-f]+|\d+', '#', lines[-1]) if lines else ''


def shrink(ops, fails, seconds):
    """The fewest operations found in that time of which fails(operations) is still true."""
    end = time.monotonic() + seconds
    pieces = 2
    while len(ops) >= 2:
        size = max(len(ops) // pieces, 1)
        for start in range(0, len(ops), size):
            if time.monotonic() > end:
                return ops
            rest = ops[:start] + ops[start + size:]
            if rest and fails(rest):
                ops = rest
                pieces = max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(ops))
    return ops
