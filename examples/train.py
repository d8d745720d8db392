# SPDX-License-Identifier: MIT
"""A training loop in PyTorch that keeps a tensor of each step, for docs/cookbook.md."""

import torch


def block(x, weights):
    for weight in weights:
        x = torch.empty(x.shape[0], weight.shape[1], device='cuda')
    return x


def main():
    weights = [torch.empty(1024, 1024, device='cuda') for _ in range(8)]
    kept = []
    for _ in range(20):
        x = torch.empty(256, 1024, device='cuda')
        block(x, weights)
        kept.append(torch.empty(64, 1024, device='cuda'))
    input('ready')


main()
