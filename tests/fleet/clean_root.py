# SPDX-License-Identifier: MIT
"""Another root, entered in namespaces of its own: a Debian with nothing but its essential packages
and the libraries that the Debian packages depend on, or the files of an image."""

import os
import pathlib
import shutil
import subprocess

import stage

# What `./dev package` makes by mmdebstrap.
DEBIAN = stage.CACHE / 'roots' / 'bookworm.tar'
PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
# In new namespaces, which take mounts and processes with them.
ENTER = '''
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
mount -t proc proc "$1/proc"
exec env -i PATH="$2" HOME=/root chroot "$1" sh -euc "$3"
'''


class Root:
    """A folder that programs run in as if it were the machine's root."""

    def __init__(self, folder):
        if not shutil.which('unshare'):
            raise stage.Skip('unshare is not there (util-linux)')
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def unpack(self, tar):
        subprocess.run(['tar', '-xf', tar, '-C', self.folder, '--exclude=./dev/*',
                        '--exclude=dev/*'], check=True)
        for name in ('dev', 'proc', 'srv'):
            (self.folder / name).mkdir(exist_ok=True)

    def put(self, *paths):
        """Copies files into its /srv."""
        for path in paths:
            shutil.copy(path, self.folder / 'srv' / pathlib.Path(path).name)

    def run(self, script, check=True):
        """Runs a script of sh in it; without the rights for it, as the root of a user namespace."""
        command = ['unshare', '--mount', '--pid', '--fork', '--kill-child']
        command += [] if os.getuid() == 0 else ['--map-root-user']
        done = subprocess.run([*command, 'sh', '-euc', ENTER, 'sh', self.folder, PATH, script],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=120, check=False)
        assert not check or done.returncode == 0, f'{script}\n{done.stdout}'
        return done

    def enter(self):
        """Raises Skip where this machine forbids it."""
        done = self.run('true', check=False)
        if done.returncode:
            raise stage.Skip(f'no other root can be entered here: {done.stdout.strip()[-200:]}')


def debian(folder):
    if not DEBIAN.exists():
        raise stage.Skip('no .cache/roots/bookworm.tar: ./dev package deb makes it, '
                         'where the archive is in reach')
    root = Root(folder)
    root.unpack(DEBIAN)
    root.enter()
    return root
