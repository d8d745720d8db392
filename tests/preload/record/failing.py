# SPDX-License-Identifier: MIT
"""Functions without dynamic symbols in out of memory: failing.py MODULE PROGRAM TOOL

The library reads names and lines from the program's file, also if the program exits at once. Without
a symbol table it says where to look. The region stays after the program's end, and the tool finds
the same names.
"""

import os
import re
import subprocess
import sys
import tempfile


def main():
    module, program, tool = sys.argv[1:]
    # Without libdw there are no lines.
    if 'libdw' in subprocess.run([tool, '--version'], stdout=subprocess.PIPE, text=True,
                                             check=True).stdout:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, 'LD_PRELOAD': module, 'CUDASIM': 'memory:64M',
                       'CUDAMEM_CONF': f'region_dir:{folder},stacks:state'}
        said = subprocess.run([program], env=environment, stderr=subprocess.PIPE, text=True,
                              check=True).stderr
        assert re.search(r'48\.00 +1 hold_most failing\.c:10 < main failing\.c:2\d', said), said
        assert re.search(r'at ask_for_more failing\.c:17 < main failing\.c:2\d', said), said
        advice = re.search(r'when it has ended: cudamemstat (.*)', said)[1]
        found = subprocess.run([tool, *advice.split()], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
        assert re.search(r'48\.0.*hold_most failing\.c:10', found), found
        assert re.search(r'at\s+ask_for_more failing\.c:17', found), found
        # Without them, offsets.
        bare = os.path.join(folder, 'bare')
        if subprocess.run(['strip', '-o', bare, program], check=False).returncode == 0:
            said = subprocess.run([bare], env=environment, stderr=subprocess.PIPE, text=True,
                                  check=True).stderr
            assert re.search(r'at bare\+0x[0-9a-f]+', said), said


if __name__ == '__main__':
    main()
