# SPDX-License-Identifier: MIT
"""JAX without preallocation and without its own allocator: a small training loop."""

import sys
import time

from common import arguments_of, fact, leave_figures, need, result

numpy = need('numpy')
jax = need('jax')

WARM = 10


def init(sizes):
    generator = numpy.random.default_rng(1)
    return [(generator.normal(0, 0.05, (inputs, outputs)).astype(numpy.float32),
             numpy.zeros(outputs, numpy.float32)) for inputs, outputs in zip(sizes, sizes[1:])]


def loss(parameters, inputs, wanted):
    for weights, bias in parameters[:-1]:
        inputs = jax.numpy.tanh(inputs @ weights + bias)
    weights, bias = parameters[-1]
    return jax.numpy.mean((inputs @ weights + bias - wanted) ** 2)


@jax.jit
def step(parameters, inputs, wanted):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, wanted)
    moved = jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, parameters, gradients)
    return moved, value


def main():
    options = arguments_of(__doc__, steps=200).parse_args()
    parameters = init((256, 1024, 1024, 64))
    generator = numpy.random.default_rng(2)
    began = 0.0
    for number in range(options.steps):
        if number == WARM:
            value.block_until_ready()
            began = time.monotonic()
        # Two sizes, each compiled once.
        rows = 512 if number % 2 else 384
        inputs = generator.normal(size=(rows, 256)).astype(numpy.float32)
        parameters, value = step(parameters, inputs, inputs[:, :64] ** 2)
        if number % 50 == 0:
            result(f'loss {number}', float(value))
    result('last loss', float(value))
    seconds = time.monotonic() - began
    leave_figures()
    fact('steps a second', (options.steps - WARM) / seconds, '1/s', 'training')
    fact('version', jax.__version__, '', 'jax')
    fact('device', str(jax.devices()[0]), '', 'jax')
    return 0


if __name__ == '__main__':
    sys.exit(main())
