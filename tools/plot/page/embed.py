#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes C strings of the files of the page: embed.py FILE... --to OUTPUT_C OUTPUT_H"""

import pathlib
import sys


def main():
    at = sys.argv.index('--to')
    source, header = map(pathlib.Path, sys.argv[at + 1:])
    files = map(pathlib.Path, sys.argv[1:at])
    lines = ['/* Generated from tools/plot/page. */', '#include "tools/plot/plot_files.h"', '']
    names = []
    for path in files:
        name = 'cm_plot_' + path.name.replace('.', '_')
        names.append(name)
        data = path.read_bytes()
        assert b'</script' not in data, f'{path} would end the script that it is put into'
        numbers = ','.join(str(byte) for byte in data)
        lines.append(f'const char {name}[] = {{{numbers},0}};')
    # The page of a recording is one of its own.
    scripts = [name for name in names if name.endswith('_js') and not name.endswith('recording_js')]
    lines.append(f'const char *const cm_plot_scripts[] = {{{", ".join(scripts)}, 0}};')
    source.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    header.write_text('/* Generated from tools/plot/page. */\n#ifndef CM_TOOLS_PLOT_PLOT_FILES_H\n'
                      '#define CM_TOOLS_PLOT_PLOT_FILES_H\n\n'
                      + ''.join(f'extern const char {name}[];\n' for name in names)
                      + '/* The programs of the page of snapshots in their order; ends with NULL. */\n'
                      'extern const char *const cm_plot_scripts[];\n\n#endif\n', encoding='utf-8')


if __name__ == '__main__':
    main()
