# SPDX-License-Identifier: MIT
"""A loop in TensorFlow that keeps every fourth tensor, for docs/cookbook.md."""

import numpy
import tensorflow


def next_batch():
    with tensorflow.device('/GPU:0'):
        return tensorflow.constant(numpy.zeros((256, 1024), numpy.float32))


def main():
    kept = []
    for step in range(100):
        batch = next_batch()
        if step % 4 == 0:
            kept.append(batch)
    input('ready')
    del batch


main()
