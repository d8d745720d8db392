#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes C strings of the files of the page: embed.py OUTPUT_C OUTPUT_H FILE..."""

import pathlib
import sys


def main():
    source, header, *files = map(pathlib.Path, sys.argv[1:])
    lines = ['/* Generated from tools/plot/page. */', '#include "tools/plot/plot_files.h"', '']
    names = []
    for path in files:
        name = 'cm_plot_' + path.name.replace('.', '_')
        names.append(name)
        data = path.read_bytes()
        assert b'</script' not in data, f'{path} would end the script that it is put into'
        numbers = ','.join(str(byte) for byte in data)
        lines.append(f'const char {name}[] = {{{numbers},0}};')
    source.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    header.write_text('/* Generated from tools/plot/page. */\n#ifndef CM_TOOLS_PLOT_PLOT_FILES_H\n'
                      '#define CM_TOOLS_PLOT_PLOT_FILES_H\n\n'
                      + ''.join(f'extern const char {name}[];\n' for name in names)
                      + '\n#endif\n', encoding='utf-8')


if __name__ == '__main__':
    main()
