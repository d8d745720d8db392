# SPDX-License-Identifier: MIT
"""The Python module under the library and without: module.py MODULE DRIVER TOOL PACKAGE

Each function is called in real programs, with the simulated driver by ctypes.
"""

import ast
import ctypes
import errno
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20


def fails(kind, function, *arguments):
    try:
        function(*arguments)
    except kind:
        return True
    return False


def is_typed():
    """Type checkers see all that a program does, each function with its types and a text."""
    import cudamem
    seen = set()
    for path in pathlib.Path(cudamem.__file__).parent.glob('*.py'):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == 'cudamem.memory':
                seen |= {name.asname for name in node.names}
            if isinstance(node, ast.FunctionDef) and node.name not in ('__getattr__', '__init__', '__exit__'):
                wanted = [arg for arg in node.args.args if arg.arg != 'self']
                assert node.returns is not None and all(arg.annotation for arg in wanted), (path, node.name)
                assert node.name.startswith('_') or ast.get_docstring(node), (path, node.name)
    hidden = {'_snapshot', '_dump_snapshot', '_record_memory_history'}
    assert seen == set(cudamem.memory.__all__) | hidden, seen
    assert pathlib.Path(cudamem.__file__).with_name('py.typed').exists()


def alone():
    import cudamem
    assert not cudamem.is_loaded()
    assert fails(RuntimeError, cudamem.memory_allocated)
    assert fails(RuntimeError, cudamem.empty_cache)
    assert fails(AttributeError, getattr, cudamem, 'nothing')
    is_typed()


def request(driver, size):
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


def refuse_large_files(dump):
    """Beyond the limit the kernel would end the program (SIGXFSZ). Python itself ignores that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    assert dump(b'large.region') == -errno.EFBIG
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    os.mkfifo('pipe')
    assert dump(b'pipe') in (-errno.ENXIO, -errno.EINVAL)


def under(path):
    import cudamem
    driver = ctypes.CDLL(path)
    context = ctypes.c_void_p()
    assert cudamem.is_loaded() and cudamem.memory_allocated() == 0
    assert driver.cuInit(0) == 0
    assert cudamem.memory_allocated(0) == 0 and fails(ValueError, cudamem.memory_allocated, 77)
    assert fails(RuntimeError, cudamem.get_memory_info) and fails(ValueError, cudamem.get_memory_info, 77)
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    # Before the first request: the driver's figures.
    free, total = cudamem.get_memory_info()
    assert 0 < free <= total, (free, total)
    with cudamem.range('loading'):
        with cudamem.range('weights'):
            address = request(driver, 3 * MIB)
    assert cudamem.memory_allocated() == cudamem.memory_allocated('cuda:0') == 3 * MIB
    assert cudamem.max_memory_allocated(0) == 3 * MIB
    assert cudamem.memory_reserved() == cudamem.max_memory_reserved() >= 3 * MIB
    assert cudamem.memory_stats()['allocation.all.current'] == 1
    assert cudamem.host_memory_stats()['allocations.current'] == 0
    for function in (cudamem.memory_allocated, cudamem.memory_stats, cudamem.get_memory_info,
                     cudamem.reset_peak_memory_stats):
        assert fails(ValueError, function, 77), function
    assert fails(ValueError, cudamem.memory_allocated, 'cpu')
    assert fails(ValueError, cudamem.memory_allocated, -3)
    assert fails(TypeError, cudamem.memory_allocated, 1.5)
    assert '3.00 MiB' in cudamem.memory_summary() and 'freed' in cudamem.memory_summary()
    assert 'freed' not in cudamem.memory_summary(abbreviated=True)

    cudamem._record_memory_history(stacks='python')
    assert fails(ValueError, cudamem._record_memory_history, 'everything')
    assert fails(ValueError, lambda entries: cudamem._record_memory_history(max_entries=entries), -5)
    request(driver, MIB)
    snapshot = cudamem._snapshot()
    assert sum(segment['allocated_size'] for segment in snapshot['segments']) == 4 * MIB
    events = [event for event in snapshot['device_traces'][0] if event['action'] == 'alloc']
    assert events[0]['user_metadata'] == 'weights', events[0]
    assert events[-1]['frames'][0]['name'] == 'request', events[-1]
    cudamem._dump_snapshot('dumped.pickle')
    assert os.path.getsize('dumped.pickle') > 100

    dump = ctypes.CDLL(None).cudamem_dump_snapshot
    pathlib.Path('dumped.region').write_bytes(b'old')
    os.chmod('dumped.region', 0o644)
    assert dump(b'dumped.region') == 0 and dump(b'') == -22 and dump(b'no/such/folder') == -2
    status = os.stat('dumped.region')
    assert status.st_mode & 0o777 == 0o600, oct(status.st_mode)
    assert status.st_size < 64 * MIB, status.st_size  # without what was never used
    refuse_large_files(dump)
    environment = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    text = subprocess.run([os.environ['CUDAMEMSTAT'], 'report', '--region', 'dumped.region'],
                          env=environment, check=True, stdout=subprocess.PIPE).stdout.decode()
    assert '4.00 MiB' in text and 'request module.py:' in text and 'crashed' not in text, text

    assert driver.cuMemFree_v2(address) == 0
    cudamem.reset_peak_memory_stats()
    cudamem.reset_accumulated_memory_stats()
    assert cudamem.max_memory_allocated() == MIB
    assert cudamem.memory_stats()['allocated_bytes.all.freed'] == 0
    cudamem.empty_cache()


def early_names(path):
    """A range that was opened before the library started counts from the first request on."""
    import cudamem
    with cudamem.range('early'):
        driver = ctypes.CDLL(path)
        context = ctypes.c_void_p()
        assert driver.cuInit(0) == 0
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxSetCurrent(context) == 0
        request(driver, MIB)
        request(driver, MIB)
    names = [event.get('user_metadata') for event in cudamem._snapshot()['device_traces'][0]
             if event['action'] == 'alloc']
    assert names == ['early', 'early'], names


def main():
    if sys.argv[1].startswith('--'):
        {'--alone': alone, '--under': under, '--early': early_names}[sys.argv[1]](*sys.argv[2:])
        return
    module, driver, tool, package = map(os.path.abspath, sys.argv[1:])
    if sys.version_info < (3, 7):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        packages = pathlib.Path(folder, 'packages')
        packages.mkdir()
        (packages / 'cudamem').symlink_to(package)
        pathlib.Path(folder, 'regions').mkdir()
        environment = {**os.environ, 'PYTHONPATH': str(packages), 'CUDAMEMSTAT': tool,
                       'PYTHONDONTWRITEBYTECODE': '1',
                       'CUDAMEM_CONF': f'region_dir:{folder}/regions'}
        own = [sys.executable, os.path.abspath(__file__)]
        subprocess.run([*own, '--alone'], env=environment, cwd=folder, check=True)
        environment['LD_PRELOAD'] = module
        subprocess.run([*own, '--early', driver], env=environment, cwd=folder, check=True)
        subprocess.run([*own, '--under', driver], env=environment, cwd=folder, check=True)


if __name__ == '__main__':
    main()
