# SPDX-License-Identifier: MIT
"""Python programs that meet NVIDIA's driver library on a machine without a card.

Each prints all that it can learn, with no address in it, and must print the same bare and under the
library. A program whose package is missing is left out.
"""

# name: (module that must be there, program)
PROGRAMS = {
    'cuda.bindings, driver': ('cuda.bindings.driver', '''
from cuda.bindings import driver
print(driver.cuInit(0), driver.cuDriverGetVersion(), driver.cuDeviceGetCount())
print(driver.cuMemAlloc(1 << 20)[0], driver.cuMemAllocHost(4096)[0], driver.cuCtxGetCurrent()[0])
print(driver.cuMemFree(0), driver.cuMemGetInfo()[0], driver.cuMemGetAddressRange(4096)[0])
'''),
    'cuda.bindings, runtime': ('cuda.bindings.runtime', '''
from cuda.bindings import runtime
print(runtime.cudaGetDeviceCount()[0], runtime.cudaMalloc(1 << 20)[0])
print(runtime.cudaMallocHost(64)[0], runtime.cudaFree(0), runtime.cudaGetLastError())
print(runtime.cudaMemGetInfo()[0])
print(runtime.cudaDeviceSynchronize(), runtime.cudaPeekAtLastError())
'''),
    'cuda.core': ('cuda.core', '''
from cuda.core import Device
try:
    print(Device(0).name)
except Exception as error:
    print(type(error).__name__, error)
'''),
    'numba': ('numba.cuda', '''
from numba import cuda
print(cuda.is_available())
try:
    print(cuda.device_array(4))
except Exception as error:
    print(type(error).__name__, error)
raise SystemExit(5)
'''),
    'tinygrad': ('tinygrad', '''
from tinygrad import Device
try:
    print(Device['CUDA'])
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[:1])
'''),
    'cupy': ('cupy', '''
import cupy
print(cupy.cuda.is_available())
for what in (lambda: cupy.cuda.runtime.getDeviceCount(), lambda: cupy.arange(4),
             lambda: cupy.cuda.alloc_pinned_memory(64)):
    try:
        print(what())
    except Exception as error:
        print(type(error).__name__, error)
'''),
    'jax': ('jax', '''
import jax
print(jax.default_backend(), jax.device_count(), jax.numpy.arange(8).sum())
'''),
    'tensorflow': ('tensorflow', '''
import tensorflow
print(tensorflow.config.list_physical_devices(), int(tensorflow.reduce_sum(tensorflow.range(8))))
'''),
    'torch': ('torch', '''
import torch
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.arange(8).sum())
for what in (lambda: torch.zeros(4, device='cuda'), lambda: torch.zeros(4).pin_memory()):
    try:
        print(what())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
'''),
}
