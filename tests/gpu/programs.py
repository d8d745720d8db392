# SPDX-License-Identifier: MIT
"""What the suite runs, and how: the only list. meson.build says how the programs are made."""

import dataclasses

# The parts, in their order, with the seconds that each may take: nine minutes in all.
PARTS = {'build': 70, 'probe': 60, 'compat': 150, 'bench': 60, 'torch': 195}
PROGRAM_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Run:
    """One process of a program. The first run of a program is what the others are compared with."""

    name: str
    preloaded: bool = False
    arguments: tuple = ()
    environment: tuple = ()


def under(name, options=''):
    """Under the library, with options of its own."""
    environment = (('CUDAMEM_CONF', options),) if options else ()
    return Run(name, preloaded=True, environment=environment)


BARE = Run('bare')
PRELOADED = under('cudamem')
PAGES = under('pages', 'expandable_segments:True')
# Everything else that changes how memory is placed and used again.
VARIED = (BARE, PRELOADED, PAGES, under('grow', 'reuse:grow'), under('wait', 'reuse:wait'),
          under('sync', 'sync:free'), under('exact', 'placement:exact'), under('stacks', 'stacks:all'))
PAGED = (BARE, PRELOADED, PAGES)


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """How a client is gone through without a card: shorter, and on the CPU, where the library has
    nothing to serve."""

    arguments: tuple = ()
    environment: tuple = ()


@dataclasses.dataclass(frozen=True)
class Program:
    part: str
    name: str
    arguments: tuple = ()
    runs: tuple = (BARE, PRELOADED)
    file: str = ''  # where it is not gpu_PART_NAME
    same: bool = False  # all runs must print the same results
    served: bool = False  # the library must have served requests from its cache
    nvcc: bool = False  # made by nvcc, which a machine without a card may lack
    card_only: str = ''  # why there is nothing for it on the simulated device
    rehearsal: Rehearsal = None  # in place of the simulated device
    plan: str = ''  # of the simulated device
    seconds: float = PROGRAM_SECONDS

    @property
    def is_script(self):
        return self.file.endswith('.py')

    @property
    def path(self):
        return self.file or f'gpu_{self.part}_{self.name}'

    def rehearsed(self):
        """The same program without a card."""
        runs = tuple(dataclasses.replace(run, environment=run.environment + self.rehearsal.environment)
                     for run in self.runs)
        return dataclasses.replace(self, arguments=self.arguments + self.rehearsal.arguments,
                                   runs=runs, served=False, rehearsal=None)


def probe(name, **how):
    return Program('probe', name, **how)


def compat(name, served=True, **how):
    return Program('compat', name, same=True, served=served, **how)


STATIC = "NVIDIA's static runtime runs on cards only"
# Sizes of the benchmarks go up to a gibibyte; nothing there is looked at.
ROOM = 'memory:64G,guard:off'

PROBES = (
    probe('lookup'),
    # It preloads the library into a process of its own.
    probe('bindings', file='probe/bindings.py', runs=(BARE,)),
    probe('reach_shared', nvcc=True, runs=(PRELOADED,)),
    probe('reach_static', nvcc=True, runs=(PRELOADED,), card_only=STATIC),
    probe('events'),
    probe('barrier', runs=(BARE,)),
    probe('order', runs=(BARE,)),
    probe('memory', runs=(BARE,)),
    probe('vmm', runs=(BARE,)),
    probe('capture'),
    probe('overhead', nvcc=True),
)

COMPATIBILITY = (
    compat('loop', runs=VARIED),
    compat('overlap', runs=PAGED, plan='memory:256M'),
    compat('threads', runs=VARIED),
    compat('pinned', runs=PAGED),
    compat('errors', served=False),
    compat('contexts', runs=PAGED),
    compat('graphs', runs=PAGED),
    compat('ipc', runs=PAGED, served=False),
    compat('fork'),
    compat('forever', seconds=20, runs=PAGED),
    compat('full', runs=PAGED, plan='memory:2G'),
    compat('managed'),
    compat('mapped', runs=PAGED),
    compat('pools', runs=PAGED),
    compat('runtime_shared', nvcc=True, runs=PAGED),
    compat('runtime_static', nvcc=True, card_only=STATIC),
    compat('runtime_streams', nvcc=True),
    compat('thrust', nvcc=True, runs=PAGED),
    compat('nvrtc', nvcc=True),
    compat('cublas', nvcc=True, runs=PAGED),
    compat('cufft', nvcc=True),
)

BENCHES = (
    Program('bench', 'pairs', arguments=('sync',), runs=PAGED, plan=ROOM),
    Program('bench', 'pairs async', file='gpu_bench_pairs', arguments=('async',), runs=(BARE,),
            plan=ROOM),
    Program('bench', 'cub', nvcc=True, runs=(BARE,), plan=ROOM),
    # Start-up varies: both by turns.
    Program('bench', 'first', runs=tuple(
        dataclasses.replace(run, name=f'{run.name} {turn}')
        for turn in range(1, 4) for run in (BARE, PRELOADED))),
)

# PyTorch's own allocator; without it, each request to the driver; the same under us.
UNCACHED = (('PYTORCH_NO_CUDA_MEMORY_CACHING', '1'),)
# What deterministic products of matrices need.
WORKSPACE = (('CUBLAS_WORKSPACE_CONFIG', ':4096:8'),)
TORCH_RUNS = (
    Run('PyTorch', environment=WORKSPACE),
    Run('no cache', environment=UNCACHED + WORKSPACE),
    Run('cudamem', preloaded=True, environment=UNCACHED + WORKSPACE),
    Run('pages', preloaded=True, environment=PAGES.environment + UNCACHED + WORKSPACE),
)


ON_CPU = Rehearsal(('--device', 'cpu'))


def torch(model):
    return Program('torch', f'torch {model}', file='clients/torch_train.py', arguments=(model,),
                   runs=TORCH_RUNS, same=True, served=True,
                   rehearsal=Rehearsal((*ON_CPU.arguments, '--warm', '0', '--steps', '2')))


JAX = (('XLA_PYTHON_CLIENT_ALLOCATOR', 'platform'), ('XLA_PYTHON_CLIENT_PREALLOCATE', 'false'),
       ('XLA_FLAGS', '--xla_gpu_deterministic_ops=true'))

CLIENTS = (
    torch('conv'),
    torch('transformer'),
    Program('torch', 'torch pairs', file='clients/torch_pairs.py', runs=TORCH_RUNS[:1],
            rehearsal=ON_CPU),
    Program('torch', 'cupy', file='clients/cupy_client.py', same=True, served=True, rehearsal=ON_CPU),
    # JAX 0.10 maps its memory itself, in segments that it keeps, whatever allocator it is given: the
    # cache may have nothing to serve.
    Program('torch', 'jax', file='clients/jax_client.py', same=True,
            runs=(Run('bare', environment=JAX), Run('cudamem', preloaded=True, environment=JAX)),
            rehearsal=Rehearsal(('--steps', '12'), (('JAX_PLATFORMS', 'cpu'),))),
    # Numba has a simulator of its own, which plays each thread in Python.
    Program('torch', 'numba', file='clients/numba_client.py', same=True, served=True,
            rehearsal=Rehearsal(('--turns', '1'), (('NUMBA_ENABLE_CUDASIM', '1'),))),
)

ALL = PROBES + COMPATIBILITY + BENCHES + CLIENTS

# What the suite's own test plans: each ends as its name says.
PLANNED = (
    # So long that it comes to its first word on a machine that is busy.
    Program('planned', 'hang', runs=(BARE,), seconds=5),
    Program('planned', 'fail', file='gpu_planned_odd', arguments=('fail',)),
    Program('planned', 'crash', file='gpu_planned_odd', arguments=('crash',)),
    Program('planned', 'differ', file='gpu_planned_odd', arguments=('differ',), same=True),
    Program('planned', 'unserved', file='gpu_planned_odd', arguments=('silent',), served=True),
    Program('planned', 'skip', file='gpu_planned_odd', arguments=('skip',)),
    Program('planned', 'silent', file='gpu_planned_odd', arguments=('silent',), same=True),
    Program('planned', 'missing', file='gpu_planned_nobody'),
)
