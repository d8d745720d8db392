#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lets one call fail at a time, under whole programs: the driver's or the C library's.

faults.py driver PROOF LIBRARY TOOLKIT_INCLUDE RUNS    each call, each error that cuda.h names for it
faults.py pairs PROOF LIBRARY TOOLKIT_INCLUDE RUNS     such a call, and another soon after it
faults.py libc PROOF LIBRARY LIBC_FAULTS RUNS          each call of ours, each errno of libc_faults.def
faults.py killed PROOF LIBRARY LIBC_FAULTS RUNS        the process dies at a call of ours instead

All of these are spread over RUNS runs; 0: every one; pairs are drawn by chance, 0: as many as there
are single ones. The program may hear the error, or not; nothing else may come of it: no crash, no
hang, no early reuse, no wrong contents or counters, no memory of the driver that nobody knows of. An
error that passes, as EINTR does, costs nothing at all: the library warns of nothing.
"""

import concurrent.futures
import errno
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
SECONDS = 60
COMPLAINTS = 5  # are enough
TRIES = 10
SOON = 12  # calls of the second one's function, at most, until it fails

# Programs that reach all there is: several contexts and captures, barriers, memory that is out, blocks
# that are cut and segments that are exchanged on a small card, threads with a shard each, between which
# segments move, and pages that are moved and taken. The last one is for the calls that move pages,
# which no program makes by itself, and for those that end a context.
MACHINE = 'devices:2,cuEventQuery:100us'
CUT = 'placement:split'
SHARDS = f'{CUT},shards:always'
PAGES = 'placement:split,expandable_segments:on'
PROGRAMS = (
    (['run', '3', '150', 'c3'], MACHINE, ''),
    (['run', '4', '150', 'c1'], MACHINE, ''),
    (['run', '5', '150', 'c1'], f'{MACHINE},memory:64M', ''),
    (['run', '11', '150', 'c1'], f'{MACHINE},memory:64M', CUT),
    (['run', '3', '150', 'c3'], MACHINE, SHARDS),
    (['run', '9', '150', 'c1'], f'{MACHINE},memory:64M', SHARDS),
    (['run', '11', '150', 'c1p'], f'{MACHINE},memory:64M', PAGES),
    (['play', str(HERE / 'pages.ops')], f'{MACHINE},memory:64M', PAGES),
)
# Under an error that passes, any warning is a complaint.
LOUD = 'log:warning,oom_report:off'
OF_PAGES = ('cuMemAddressReserve', 'cuMemAddressFree', 'cuMemCreate', 'cuMemRelease', 'cuMemMap',
            'cuMemUnmap', 'cuMemSetAccess')
ENDS = ('cuCtxDestroy_v2', 'cuDevicePrimaryCtxReset_v2', 'cuDevicePrimaryCtxRelease_v2')
# Calls that may cost what they name, one allocation or page, if they fail. What cuda.h lists for them
# says that it is there no more: gone with its context, or freed past the library. Asked for once
# more its addresses could be those of somebody else's new memory, and used again they could be
# nobody's. The program without the library would have heard the error, and had lost it, too.
COSTLY = ('cuMemFree_v2', 'cuMemFreeHost', 'cuMemUnmap', 'cuMemRelease',
          # Nothing can be freed in a context that can't be made current: it has ended.
          'cuCtxPushCurrent_v2')
# Errors of earlier work, which any call may bring where cuda.h has \\notefnerr.
STICKY = ('CUDA_ERROR_ILLEGAL_ADDRESS', 'CUDA_ERROR_LAUNCH_FAILED', 'CUDA_ERROR_ECC_UNCORRECTABLE')
# Not for the library to bear: without these the program itself can't begin.
FIRST = ('cuInit',)

# What the library imports and what can't fail: it computes, or reads what is there.
SURE = set('''
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __assert_fail __cxa_finalize __environ
    __errno_location __gmon_start__ __isoc99_sscanf __libc_single_threaded __progname
    _r_debug environ free dirfd
    dl_iterate_phdr geteuid getpid memcmp memcpy memmove memset program_invocation_short_name
    pthread_attr_destroy pthread_attr_setdetachstate pthread_key_delete pthread_mutex_init
    pthread_mutex_lock pthread_once pthread_mutex_trylock pthread_mutex_unlock
    pthread_setcancelstate pthread_sigmask qsort sched_yield
    secure_getenv sigaddset sigemptyset sigfillset sigismember sigpending snprintf strchr strcmp
    strcspn strerror strerror_r strerrordesc_np strlen strncmp strrchr strspn strtok_r strtoul
    strtoull strchrnul vsnprintf getauxval
    __tls_get_addr __stack_chk_fail abort getenv pthread_self strtol strtod strstr strnlen
    get_nprocs
'''.split())


def read_header(include):
    """The errors of each function, as its description lists them, and all numbers."""
    text = (pathlib.Path(include) / 'cuda.h').read_text(errors='replace')
    numbers = {name: int(value) for name, value in
               re.findall(r'^\s*(CUDA_(?:ERROR_\w+|SUCCESS))\s*=\s*(\d+)', text, re.M)}
    errors = {}
    for match in re.finditer(r'/\*\*((?:(?!\*/).)*)\*/\s*CUresult\s+CUDAAPI\s+(\w+)\(', text, re.S):
        listed = re.search(r'\\return(.*?)(?:\\note|\\sa|$)', match[1], re.S)
        if listed:
            names = re.findall(r'CUDA_ERROR_\w+', listed[1])
            if 'notefnerr' in match[1]:
                names += STICKY
            errors[match[2]] = sorted({numbers[name] for name in names if name in numbers})
    return errors


def base_name(symbol):
    return re.sub(r'(_v\d+)?(_ptsz|_ptds)?$', '', symbol)


class Machine:
    def __init__(self, proof, library):
        self.proof = proof
        self.library = library

    def run(self, program, plan, conf, more, preload=''):
        with tempfile.TemporaryDirectory(prefix='faults.') as folder:
            environment = dict(os.environ, CUDASIM=plan + ',check:stop', REGIONS=folder,
                               LD_PRELOAD=(preload + ' ' + self.library).strip(),
                               CUDAMEM_CONF=f'region_dir:{folder},log:off,{conf}'.rstrip(','),
                               CM_RING_CLOCK='machine',
                               ASAN_OPTIONS='verify_asan_link_order=0:detect_leaks=0', **more)
            try:
                run = subprocess.run([self.proof, *program], env=environment, capture_output=True,
                                     timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return 'hang', 'hangs', []
            left = [name for name in os.listdir(folder) if name.startswith('cudamem.')]
            return run.returncode, run.stderr.decode(errors='replace')[-1500:].strip(), left

    def counts(self, program, plan, conf, variable, preload=''):
        """How often each function was called: what the report in `variable` says."""
        with tempfile.NamedTemporaryFile('r') as file:
            code, said, _ = self.run(program, plan, conf, {variable: file.name}, preload)
            if code:
                raise SystemExit(f'without a fault: {code}: {said}')
            rows = (line.split() for line in file.read().splitlines())
            return {row[0]: int(row[1]) for row in rows if len(row) >= 2 and row[1].isdigit()}


def spread(cases, runs):
    if not runs or len(cases) <= runs:
        return cases
    return [cases[i * len(cases) // runs] for i in range(runs)]


def driver_cases(machine, include):
    errors = read_header(include)
    if len(errors) < 100:
        raise SystemExit('cuda.h has no descriptions to read')
    for program, plan, conf in PROGRAMS:
        counts = machine.counts(program, plan, conf, 'CUDASIM_REPORT')
        for name, calls in sorted(counts.items()):
            if base_name(name) not in errors or name in FIRST:
                continue
            if program[0] == 'play' and name not in OF_PAGES + ENDS:
                continue
            lost = str(int(name in COSTLY))
            for code in errors[base_name(name)]:
                for call in range(1, calls + 1):
                    yield (program, f'{plan},fail:{name}@{call}={code}', conf,
                           {'PROOF_TOLERATE': str(code), 'PROOF_LOST': lost}, '')


def pair_cases(machine, include, runs):
    """A second call fails after the first one: mostly in what the library does about that."""
    single = list(driver_cases(machine, include))
    chance = random.Random(1)
    of_program = {}
    for case in single:
        of_program.setdefault((*case[0], case[2]), []).append(case)
    for _ in range(runs or len(single)):
        program, plan, conf, more, _ = chance.choice(single)
        _, other, _, more_of_other, _ = chance.choice(of_program[(*program, conf)])
        name, call, code = re.search(r'fail:(\w+)@(\d+)=(\d+)', other).groups()
        after = chance.randint(1, min(SOON, int(call)))
        lost = int(more['PROOF_LOST']) + int(more_of_other['PROOF_LOST'])
        yield (program, f'{plan},then:{name}@{after}={code}', conf,
               {'PROOF_TOLERATE': f'{more["PROOF_TOLERATE"]},{code}', 'PROOF_LOST': str(lost)}, '')


def libc_cases(machine, shim, kill):
    text = (HERE / 'libc_faults.def').read_text()
    rows = re.findall(r'^FAULT\([^,]+, (\w+),.*?"([A-Z ]+)",', text, re.S | re.M)
    imported = subprocess.run(['nm', '-D', '--undefined-only', machine.library], check=True,
                              capture_output=True, text=True).stdout
    imported = {line.split()[-1].split('@')[0] for line in imported.splitlines()}
    # Those that count what tests reach bring a part of the C library's files along.
    if b'__gcov_' in pathlib.Path(machine.library).read_bytes():
        imported = set()
    unknown = sorted(name for name in imported - SURE - {name for name, _ in rows}
                     if not name.startswith(('__asan', '__ubsan', '__tsan', '__sanitizer', 'cudasim')))
    if unknown:
        raise SystemExit(f'neither made to fail nor known not to: {" ".join(unknown)}')
    for program, plan, conf in PROGRAMS:
        counts = machine.counts(program, plan, conf, 'LIBC_FAULT_REPORT', shim)
        for name, texts in rows:
            for error in [-9] if kill else [getattr(errno, text) for text in texts.split()]:
                loud = f'{conf},{LOUD}'.lstrip(',') if error == errno.EINTR else conf
                for call in range(1, counts.get(name, 0) + 1):
                    yield (program, plan, loud, {'LIBC_FAULT': f'{name}@{call}={error}',
                                           'PROOF_TOLERATE': '2'}, shim)


def finds_losses(machine, cases):
    """A free of the library's own that fails does cost what it names: that must be noticed."""
    frees = [case for case in cases if re.search(r'fail:cuMemFree_v2@\d+=1$', case[1])]
    for program, plan, conf, more, preload in spread(frees, TRIES):
        complaint = judge(machine, (program, plan, conf, {**more, 'PROOF_LOST': '0'}, preload))
        if complaint and 'are lost' in complaint:
            return True
    return False


def judge(machine, case):
    program, plan, conf, more, preload = case
    code, said, left = machine.run(program, plan, conf, more, preload)
    killed = more.get('LIBC_FAULT', '').endswith('=-9')
    what = f'{" ".join(program)} {plan} {conf} {" ".join(f"{k}={v}" for k, v in more.items())}'
    if code == -9 and killed:
        return None
    if code or said:
        return f'{what}: ended with {code}: {said}'
    # Where the file can't be removed it stays, for the next start to sweep.
    if left and not re.search(r'=(unlink|__cxa_atexit|getpid|fstat64|pthread)', what):
        return f'{what}: left {left[0]}'
    return None


def main():
    kind, proof, library, third, runs = sys.argv[1:6]
    proof, library = (str(pathlib.Path(path).resolve()) for path in (proof, library))
    machine = Machine(proof, library)
    if kind == 'driver':
        cases = list(driver_cases(machine, third))
    elif kind == 'pairs':
        cases = list(pair_cases(machine, third, int(runs)))
    else:
        cases = list(libc_cases(machine, str(pathlib.Path(third).resolve()), kind == 'killed'))
    chosen = spread(cases, int(runs))
    began = time.monotonic()
    complaints = []
    if kind == 'driver' and not finds_losses(machine, cases):
        complaints.append('memory that is lost is not noticed')
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        work = [pool.submit(judge, machine, case) for case in chosen]
        for one in concurrent.futures.as_completed(work):
            if one.result():
                complaints.append(one.result())
            if len(complaints) == COMPLAINTS:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print('\n'.join(complaints))
    print(f'{kind}: {len(chosen)} of {len(cases)} faults, {len(complaints)} failed, '
          f'{time.monotonic() - began:.0f} s')
    return 1 if complaints else 0


if __name__ == '__main__':
    sys.exit(main())
