# SPDX-License-Identifier: MIT
"""torch_train.py conv|transformer: a small training loop, the same to the last bit in every run.

With PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is a request to the driver, and under the library
to its cache; without, PyTorch's own allocator serves them.
"""

import sys
import time

from common import arguments_of, fact, leave_figures, need, result

torch = need('torch')


def conv_net():
    """Blocks that halve the picture, with batch norm and a shortcut each."""
    class Block(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.first = torch.nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            self.second = torch.nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.short = torch.nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)
            self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(outputs) for _ in range(3))

        def forward(self, x):
            y = torch.relu(self.norms[0](self.first(x)))
            return torch.relu(self.norms[1](self.second(y)) + self.norms[2](self.short(x)))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.Sequential(Block(3, 64), Block(64, 128), Block(128, 256),
                                              Block(256, 512))
            self.head = torch.nn.Linear(512, 100)

        def forward(self, x):
            return self.head(self.blocks(x).mean(dim=(2, 3)))

    return Net()


def conv_batch(step, device):
    """Batches of several sizes, as at the end of an epoch: not every step asks for the same."""
    size = (64, 48, 64, 32)[step % 4]
    return (torch.randn(size, 3, 96, 96, device=device),
            torch.randint(100, (size,), device=device))


def transformer_net():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
            self.embedding = torch.nn.Embedding(1000, 512)
            self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = torch.nn.Linear(512, 1000)

        def forward(self, x):
            return self.head(self.layers(self.embedding(x))).flatten(0, 1)

    return Net()


def transformer_batch(step, device):
    length = 64 + 32 * (step * 7 % 9)
    words = torch.randint(1000, (16, length + 1), device=device)
    return words[:, :-1], words[:, 1:].flatten()


MODELS = {'conv': (conv_net, conv_batch), 'transformer': (transformer_net, transformer_batch)}


def train(model, batch, warm, steps, device):
    """Losses, and samples and seconds of the steps behind the first, warm ones."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    losses, samples, began = [], 0, 0.0
    for step in range(warm + steps):
        if step == warm:
            wait(device)
            began = time.monotonic()
        inputs, wanted = batch(step, device)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        samples += len(inputs) if step >= warm else 0
    wait(device)
    return [loss.item() for loss in losses], samples, time.monotonic() - began


def wait(device):
    if device == 'cuda':
        torch.cuda.synchronize()


def main():
    parser = arguments_of(__doc__, warm=5, steps=60)
    parser.add_argument('model', choices=MODELS)
    options = parser.parse_args()
    torch.manual_seed(1)
    # Errors where an operation has no form that always gives the same.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    make, batch = MODELS[options.model]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        losses, samples, seconds = train(make().to(options.device), batch, options.warm,
                                         options.steps, options.device)
    for step in range(0, len(losses), 5):
        result(f'loss {step}', losses[step])
    result('last loss', losses[-1])
    theirs = dict(torch.cuda.memory_stats()) if options.device == 'cuda' else {}
    figures = leave_figures(theirs)
    fact('samples a second', samples / seconds, '1/s', 'training')
    if figures.get('reserved_bytes.all.peak'):
        fact('peak reserved', figures['reserved_bytes.all.peak'] / 2**20, 'MiB', 'training')
        fact('peak allocated', figures['allocated_bytes.all.peak'] / 2**20, 'MiB', 'training')
    fact('version', torch.__version__, '', 'torch')
    return 0


if __name__ == '__main__':
    sys.exit(main())
