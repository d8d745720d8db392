# SPDX-License-Identifier: MIT
"""Pairs of PyTorch's own allocator, called from Python: some 100 ns of each are Python's."""

import sys
import time

from common import arguments_of, fact_times, need, skip

torch = need('torch')

PAIRS = 2000


def pair_on_card(size):
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(size))


def pair_on_cpu(size):
    torch.empty(size, dtype=torch.uint8)


def main():
    options = arguments_of(__doc__).parse_args()
    pair = pair_on_card if options.device == 'cuda' else pair_on_cpu
    if options.device == 'cuda' and not torch.cuda.is_available():
        skip('PyTorch sees no card')
    for kib in (1, 64, 1024, 16384, 65536, 1048576):
        times = []
        for _ in range(PAIRS + 20):
            began = time.perf_counter_ns()
            pair(kib * 1024)
            times.append(time.perf_counter_ns() - began)
        fact_times('pair', times[20:], f'PyTorch, {kib} KiB')
    return 0


if __name__ == '__main__':
    sys.exit(main())
