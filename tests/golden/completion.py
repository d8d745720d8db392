#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Three shells offer the same: completion.py TOOL

Each shell that is installed reads its script and is asked what it would offer for a line: bash by
calling the function, fish by `complete -C`, zsh on a terminal, by what reaches compadd.
"""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 60

# What is typed, and what of that must be offered; the last word is being completed.
OFFERED = [
    ('memory-s', 'memory-stats'),
    ('reset --acc', '--accumulated'),
    ('plot ', 'timeline blocks flame sizes'),
    ('plot snap', 'snap.cudamem'),
    ('history st', 'start stop status'),
    ('export --to p', 'pickle perfetto pprof'),
    ('export --to sq', 'sqlite'),
    ('ls --color ', 'auto always never'),
    ('ls -o PID,RESER', 'RESERVED'),
    ('stat -o OO', 'OOMS'),
    ('check -o ', 'help'),
    ('check --fail-on ', 'oom fragmented leak'),
    ('check --fail-on oom,fr', 'fragmented'),
    ('run --conf sync:auto,per_p', 'per_process_memory_fraction'),
    ('run --lim', '--limit'),
    ('run --limit 2G -- frobn', 'frobnicate'),
    ('run --limit 2G frobn', 'frobnicate'),
    ('run --top frobn', 'frobnicate'),
    ('conf 1 dec', 'decay_seconds'),
    ('completion f', 'fish'),
    ('help tri', 'trim'),
]
# What must not be offered there: options behind the program that `run` starts are the program's.
NOT_OFFERED = [('run --leaks -- frobnicate --l', '--leaks'), ('run frobnicate --l', '--limit')]

BASH = 'COMP_WORDS=(cudamemstat "$@"); COMP_CWORD=$#; _cudamemstat; printf "%s\\n" "${COMPREPLY[@]}"'

ZSH = r'''
PS1=; PROMPT_EOL_MARK=; unsetopt beep
fpath=(%(folder)s $fpath); autoload -Uz compinit; compinit -u -D
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a hits; builtin compadd -A hits "$@"
  (( $#hits )) && print -rl -- $hits >> %(heard)s
  builtin compadd "$@"
}
finish() { print done >> %(heard)s }
zle -N finish; bindkey '^X^F' finish
print ready >> %(heard)s
'''


class Stage:
    """A folder with the tool and a program on PATH, a file to complete, and the scripts."""

    def __init__(self, tool, folder):
        self.folder = pathlib.Path(folder)
        self.scripts = {}
        programs = self.folder / 'bin'
        programs.mkdir()
        (programs / 'cudamemstat').symlink_to(os.path.abspath(tool))
        (programs / 'frobnicate').symlink_to('/bin/true')
        (self.folder / 'snap.cudamem').touch()
        self.environment = {'PATH': f'{programs}:/usr/bin:/bin', 'HOME': str(folder), 'TERM': 'dumb',
                            'LC_ALL': 'C.UTF-8', 'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '')}
        for shell, name in (('bash', 'cudamemstat.bash'), ('zsh', '_cudamemstat'), ('fish', 'cudamemstat.fish')):
            script = subprocess.run([tool, 'completion', shell], stdout=subprocess.PIPE, check=True).stdout
            self.scripts[shell] = self.folder / name
            self.scripts[shell].write_bytes(script)

    def ask(self, *command):
        """The lines that the shell offers. What it said of a mistake would stand on the user's screen."""
        asked = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True,
                               check=True, timeout=PATIENCE)
        assert not asked.stderr, asked.stderr
        return asked.stdout.splitlines()


def ask_bash(stage, typed):
    script = stage.scripts['bash'].read_text(encoding='utf-8')
    words = typed.split()
    offered = stage.ask('bash', '-c', script + BASH, 'bash', *words, *([''] if typed.endswith(' ') else []))
    # Where the function offers nothing, bash offers files.
    return offered if any(offered) else stage.ask('bash', '-c', f'compgen -f -- "{words[-1]}" || true')


def ask_fish(stage, typed):
    lines = stage.ask('fish', '-c', f'source {stage.scripts["fish"]}; complete -C "cudamemstat {typed}"')
    return [line.partition('\t')[0] for line in lines]


def listen(terminal, heard, word):
    """Reads what the terminal prints until the shell has written the word into the file."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 1 << 16)
        if heard.exists() and word in heard.read_text(encoding='utf-8').splitlines():
            return
    raise AssertionError(f'zsh never said {word}')


def ask_zsh(stage, typed):
    heard, setup = stage.folder / 'heard', stage.folder / 'setup'
    heard.unlink(missing_ok=True)
    setup.write_text(ZSH % {'folder': stage.folder, 'heard': heard}, encoding='utf-8')
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(stage.folder)
        os.execvpe('zsh', ['zsh', '-f', '-i'], stage.environment)
    os.write(terminal, f'source {setup}\n'.encode())
    listen(terminal, heard, 'ready')
    os.write(terminal, f'cudamemstat {typed}\t'.encode())
    os.write(terminal, b'\x18\x06')
    listen(terminal, heard, 'done')
    os.close(terminal)
    os.waitpid(pid, 0)
    return heard.read_text(encoding='utf-8').splitlines()


def check(stage, shell, ask):
    """A list's other items and the separator of a key are not part of what is offered."""
    flags = {'fish': '--no-execute'}.get(shell, '-n')
    subprocess.run([shell, flags, stage.scripts[shell]], env=stage.environment, check=True)

    def offers(typed):
        return {word.rpartition(',')[2].rstrip(' :') for word in ask(stage, typed)}
    for typed, wanted in OFFERED:
        offered = offers(typed)
        assert set(wanted.split()) <= offered, (shell, typed, wanted, sorted(offered)[:20])
    for typed, unwanted in NOT_OFFERED:
        assert unwanted not in offers(typed), (shell, typed, unwanted)


def main():
    shells = {'bash': ask_bash, 'zsh': ask_zsh, 'fish': ask_fish}
    print(f'1..{len(shells)}')
    with tempfile.TemporaryDirectory(prefix='cudamem-completion-') as folder:
        stage = Stage(sys.argv[1], folder)
        for number, (shell, ask) in enumerate(shells.items(), 1):
            if not shutil.which(shell, path='/usr/bin:/bin'):
                print(f'ok {number} - {shell} # SKIP {shell} is not installed')
                continue
            try:
                check(stage, shell, ask)
                print(f'ok {number} - {shell}', flush=True)
            except (AssertionError, subprocess.SubprocessError) as error:
                print(f'# {error}\nnot ok {number} - {shell}', flush=True)


if __name__ == '__main__':
    main()
