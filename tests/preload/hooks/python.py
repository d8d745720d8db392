# SPDX-License-Identifier: MIT
"""ctypes, as numba and CuPy reach the driver. Argument: driver."""
import ctypes
import sys

driver = ctypes.CDLL(sys.argv[1])
calls = ctypes.CDLL(None).cudamem_hooks_calls
calls.argtypes = [ctypes.c_char_p]

first = driver.cuMemAlloc_v2()
assert calls(b"cuMemAlloc_v2") == 1
assert driver.cuMemAlloc_v2() == first >= 1000
assert calls(b"cuMemAlloc_v2") == 2
try:
    driver.cuNoSuchFunction()
    sys.exit(1)
except AttributeError as error:
    assert "undefined symbol: cuNoSuchFunction" in str(error)
