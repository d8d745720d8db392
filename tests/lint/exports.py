#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the built library shows to every process it is loaded into, and what it and the tool ask of
the C library: exports.py LIBRARY [TOOL]"""

import re
import subprocess
import sys

import tree

# Neither would load where the C library has not all that it asks for. What is shipped is built
# against this one, the oldest that is promised; other builds need that of their machine.
OLDEST_GLIBC = (2, 28)
# What that one has, too: in libpthread.so.0, or as __fxstat64 and its like behind the header.
THERE_BEFORE = re.compile(r'pthread_(attr_setstacksize|create|key_(create|delete)|'
                          r'mutex_(timed|try)lock|setname_np|setspecific|sigmask)|[fl]?stat(at)?64|'
                          r'dl(open|sym|error)|__libc_start_main')
# interpose/symbols/asan_options.c
ASAN_QUESTION = '__asan_default_options'
# The compiler's own, and the one that asks which file the standard error is (interpose/core/log.c).
CONSTRUCTORS = {'frame_dummy', 'remember_stderr'}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def promised_names():
    hooks = re.findall(r'^CM_HOOK\((\w+),', tree.text('interpose/symbols/hooks.def'), re.MULTILINE)
    api = [name for header in ('interpose/cudamem.h', 'interpose/stacks/nvtx.h')
           for name in re.findall(r'^CUDAMEM_API [^(]*?\b(\w+)\(', tree.text(header), re.MULTILINE)]
    naming = re.findall(r'^CM_NAMING\(\w+, (\w+), "([^"]*)"', tree.text('interpose/symbols/naming.def'),
                        re.MULTILINE)
    versions = {'CUDAMEM_PRIVATE', *(version for _, version in naming if version)}
    return {'dlsym', 'dlvsym', ASAN_QUESTION, *hooks, *api, *versions,
            *(f'{name}@{version}'.rstrip('@') for name, version in naming)}


def symbol_complaints(exported):
    promised = promised_names()
    for name in sorted(exported - promised):
        yield f'exports {name}, which neither hooks.def, naming.def nor a header names'
    for name in sorted(promised - exported):
        yield f'does not export {name}'


def dynamic_complaints(dynamic):
    needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic))
    if needed != {'libc.so.6'}:
        yield f'needs {", ".join(sorted(needed))}, and may need libc.so.6 alone'
    if 'TEXTREL' in dynamic:
        yield 'has relocations in its text'
    for flag in ('NOW', 'NODELETE'):
        if not re.search(rf'\(FLAGS_1\).*\b{flag}\b', dynamic):
            yield f'is not linked with -z {flag.lower()}'


def import_complaints(imported):
    for kind, name, version in re.findall(r'(\w) (\w+)@GLIBC_([\d.]+)', imported):
        newer = tuple(int(part) for part in version.split('.')) > OLDEST_GLIBC
        if newer and kind not in 'wv' and not THERE_BEFORE.fullmatch(name):
            yield f'asks for {name} of glibc {version}'
    for name in re.findall(r'\b(\w+)@GLIBC_PRIVATE', imported):
        yield f'asks for {name}, which the C library keeps to itself'


def relocation_complaints(relocations, exported):
    """A name that we export may be bound to somebody else's function of that name."""
    named = re.findall(r'R_\w+ +[0-9a-f]+ +(\w+)(?:@\S+)? \+', relocations)
    for name in sorted({name.split('@')[0] for name in exported}.intersection(named)):
        yield f'binds its own call of {name} by name'


def constructor_complaints(sections, relocations, symbols):
    place = re.search(r' \.init_array +INIT_ARRAY +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)', sections)
    start, size = (int(field, 16) for field in place.groups())
    functions = dict(re.findall(r'^0*([0-9a-f]+) [tT] (\S+)$', symbols, re.MULTILINE))
    for address, target in re.findall(r'^([0-9a-f]+) .*R_\w+_RELATIVE +([0-9a-f]+)$', relocations,
                                      re.MULTILINE):
        if start <= int(address, 16) < start + size:
            name = functions.get(target.lstrip('0'))
            if name not in CONSTRUCTORS:
                yield f'runs {name or target} in every process, before main'


def complaints_of(library):
    exported = set(re.findall(r'^[0-9a-f]+ [A-Z] (\S+)$',
                              output_of('nm', '-D', '--defined-only', library), re.MULTILINE))
    relocations = output_of('readelf', '-rW', library)
    yield from symbol_complaints(exported)
    yield from dynamic_complaints(output_of('readelf', '-dW', library))
    imported = output_of('nm', '-D', '--undefined-only', library)
    yield from import_complaints(imported)
    if '__tls_get_addr' in imported:
        yield 'calls for its thread-local words: not of the initial-exec model'
    yield from relocation_complaints(relocations, exported)
    yield from constructor_complaints(output_of('readelf', '-SW', library), relocations,
                                      output_of('nm', library))
    if re.search(r'GNU_STACK .* RWE ', output_of('readelf', '-lW', library)):
        yield 'makes the stack executable'


if __name__ == '__main__':
    complaints = [f'{sys.argv[1]} {what}' for what in complaints_of(sys.argv[1])]
    for tool in sys.argv[2:]:
        complaints += [f'{tool} {what}' for what in
                       import_complaints(output_of('nm', '-D', '--undefined-only', tool))]
    sys.exit(tree.report(complaints))
