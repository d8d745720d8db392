# SPDX-License-Identifier: MIT
"""A feed of batches in JAX that keeps every fourth one, for docs/cookbook.md."""

import jax
import numpy


def next_batch():
    return jax.device_put(numpy.zeros((256, 1024), numpy.float32))


def main():
    weights = [jax.device_put(numpy.zeros((1024, 1024), numpy.float32)) for _ in range(8)]
    kept = []
    for step in range(100):
        batch = next_batch()
        if step % 4 == 0:
            kept.append(batch)
    input('ready')
    del weights


main()
