#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hooks.def against CUDA's own table of names and versions: hooks.py INCLUDE_FOLDER."""

import collections
import re
import sys

import tree

ROW = re.compile(r'^CM_(HOOK|USE|KNOWN|ALIAS)\((\w+),\s+"(\w+)", (\d+), ([\w |]+)\)$', re.MULTILINE)
TYPE = re.compile(r'\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)')


def complaints_of(hooks, typedefs, newest, known):
    """`newest`: as far as the rows go; `known`: as far as the headers go, which may be older."""
    abis = collections.defaultdict(set)
    for base, version, per_thread in TYPE.findall(typedefs):
        if int(version) <= newest:
            abis[base].add((int(version), bool(per_thread)))
    rows = collections.defaultdict(set)
    hooked = set()
    for kind, symbol, base, version, flags in ROW.findall(hooks):
        abi = int(version), 'CM_HOOK_PTSZ' in flags
        if kind == 'ALIAS':
            if f'CM_HOOK({symbol},' not in hooks or symbol.split('_')[0] == base:
                yield f'{symbol}: an alias is another base\'s hook'
            continue
        if not re.fullmatch(rf'{base}(_v\d+)?{"_pt(sz|ds)" if abi[1] else ""}', symbol):
            yield f'{symbol}: its flags or its base do not fit its name'
        if abi not in abis[base] and int(version) <= known:
            yield f'{symbol}: CUDA has no {base} of version {version}'
        rows[base].add(abi)
        if kind == 'HOOK':
            hooked.add(base)
    for base in sorted(hooked):
        for version, per_thread in sorted(abis[base] - rows[base]):
            yield f'{base}: no row for version {version}{", per thread" if per_thread else ""}'


def version_of(headers):
    define = re.search(r'#define CUDA_VERSION (\d+)', headers)
    return int(define[1]) if define else 0


def main():
    typedefs = tree.ROOT / sys.argv[1] / 'cudaTypedefs.h'
    if not typedefs.exists():
        print(f'skipped: no {typedefs}')
        return 77
    newest = re.search(r'CM_HOOKS_VERSION (\d+)', tree.text('interpose/symbols/hooks.h'))
    hooks = tree.text('interpose/symbols/hooks.def')
    rows = len(re.findall(r'^CM_', hooks, re.MULTILINE))
    complaints = [] if len(ROW.findall(hooks)) == rows else ['a row that is not of the form']
    known = version_of(typedefs.with_name('cuda.h').read_text(encoding='utf-8'))
    complaints += complaints_of(hooks, typedefs.read_text(encoding='utf-8'), int(newest[1]), known)
    return tree.report([f'interpose/symbols/hooks.def: {what}' for what in complaints])


if __name__ == '__main__':
    sys.exit(main())
