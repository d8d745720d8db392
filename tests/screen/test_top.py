#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The full screen of cudamemstat in a terminal that types and clicks: test_top.py TOOL PUPPET LIBRARY

Each case starts `top` from a shell in tmux, waits for what the screen must show, and looks whether
the terminal is afterwards as it was before.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'fleet'))
from stage import Puppet, Skip, run_cases  # noqa: E402 pylint: disable=wrong-import-position

GIB = 1 << 30
PATIENCE = 30  # seconds, on a machine that has other work


class Terminal:
    """A shell in a terminal of tmux, with a server of its own."""

    def __init__(self, folder, width=100, height=24, **environment):
        self.socket = folder / 'tmux'
        self.commands = 0
        self.run('-f', '/dev/null', 'new-session', '-d', '-x', str(width), '-y', str(height),
                 'env', 'PS1=ready> ', 'LC_ALL=C.UTF-8', 'TERM=screen-256color', 'HISTFILE=',
                 *(f'{name}={value}' for name, value in environment.items()),
                 'bash', '--norc', '--noprofile')
        self.wait('ready>')

    def run(self, *words):
        return subprocess.run(['tmux', '-S', str(self.socket), *words], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def text(self, *options):
        return self.run('capture-pane', '-p', *options)

    def wait(self, pattern, absent=False):
        end = time.monotonic() + PATIENCE
        while bool(re.search(pattern, self.text(), re.MULTILINE)) == absent:
            assert time.monotonic() < end, f'no {pattern!r} on\n{self.text()}'
            time.sleep(0.05)
        return self.text()

    def keys(self, *keys):
        self.run('send-keys', *keys)

    def type(self, text):
        self.run('send-keys', '-l', text)

    def command(self, line):
        """Runs a line of the shell, and returns what it prints."""
        self.commands += 1
        self.type(f'status=$?; clear; {line}; echo command $(({self.commands})) has ended')
        self.keys('Enter')
        text = self.wait(f'^command {self.commands} has ended')
        return text[:text.index(f'command {self.commands} has ended')]

    def click(self, y, x, button=0):
        for state in [button] if button else [button, 3]:  # a wheel is not released
            code = [0x1b, 0x5b, 0x4d, 0x20 + state, 0x21 + x, 0x21 + y]
            self.keys('-H', *(f'{byte:02x}' for byte in code))

    def settings(self):
        return self.command('stty -a')

    def close(self):
        subprocess.run(['tmux', '-S', str(self.socket), 'kill-server'], check=False,
                       stderr=subprocess.DEVNULL)


class Kit:
    def __init__(self, stack, folder, tool, puppet, library):
        self.stack, self.folder = stack, folder
        self.tool, self.program, self.library = tool, puppet, library

    def puppet(self, **figures):
        puppet = Puppet(self.program, self.folder)
        self.stack.callback(puppet.end)
        puppet.set(**figures)
        return puppet

    def terminal(self, **options):
        terminal = Terminal(self.folder, **options)
        self.stack.callback(terminal.close)
        return terminal

    def start(self, terminal, *words):
        terminal.type(' '.join(['clear;', str(self.tool), 'top', '--dir', str(self.folder), *words]))
        terminal.keys('Enter')
        terminal.wait(r'^.. +PID')
        return terminal

    def pid_of_top(self, terminal):
        shell = terminal.run('display-message', '-p', '#{pane_pid}').strip()
        children = pathlib.Path(f'/proc/{shell}/task/{shell}/children').read_text('ascii').split()
        return int(children[0])


def lines_with(text, word):
    return [line for line in text.splitlines() if word in line]


def keys_move_sort_and_quit(kit):
    small, large = kit.puppet(allocated=GIB, reserved=GIB), kit.puppet(allocated=9 * GIB,
                                                                      reserved=9 * GIB)
    terminal = kit.terminal()
    before = terminal.settings()
    kit.start(terminal)
    text = terminal.wait(f'{small.pid}')
    assert text.index(str(large.pid)) < text.index(str(small.pid)), text
    terminal.keys('r')
    terminal.wait(rf'(?s){small.pid}.*{large.pid}')
    terminal.keys('End')
    terminal.wait(rf'^> +{large.pid}')
    terminal.keys('q')
    terminal.wait(r'^ready>')
    assert terminal.settings() == before


def keys_of_another_terminal_are_known(kit):
    """TERM says xterm, and tmux sends End in its own way; one key nobody knows."""
    small = kit.puppet(allocated=GIB, reserved=GIB)
    kit.puppet(allocated=9 * GIB, reserved=9 * GIB)
    terminal = kit.start(kit.terminal(TERM='xterm-256color'))
    terminal.wait(f'{small.pid}')
    terminal.keys('End')
    terminal.wait(rf'^> +{small.pid}')
    terminal.keys('-H', *(f'{byte:02x}' for byte in b'\033[1;99q'))
    terminal.keys('Home')
    terminal.wait(rf'^ +{small.pid}')
    terminal.keys('Escape')
    terminal.wait('^ready>')


def figures_move(kit):
    puppet = kit.puppet(allocated=GIB, reserved=2 * GIB)
    terminal = kit.start(kit.terminal(), '-d', '0.1')
    terminal.wait(rf'{puppet.pid}.* 1\.0G')
    puppet.set(allocated=2 * GIB)
    terminal.wait(rf'{puppet.pid}.* 2\.0G +2\.0G')


def a_process_that_is_killed_is_told(kit):
    puppet = kit.puppet(allocated=GIB, reserved=GIB)
    terminal = kit.start(kit.terminal(), '-d', '0.1')
    terminal.wait(f'{puppet.pid}')
    puppet.process.kill()
    puppet.process.wait()
    terminal.wait(rf'C +{puppet.pid}')
    assert '1 crashed' in terminal.text()


def clicks_and_the_wheel_work(kit):
    first = kit.puppet(allocated=GIB, reserved=GIB)
    second = kit.puppet(allocated=2 * GIB, reserved=2 * GIB)
    terminal = kit.start(kit.terminal())
    text = terminal.wait(f'{second.pid}').splitlines()
    y = next(i for i, line in enumerate(text) if re.match(r'.. +PID', line))
    terminal.click(y, text[y].index('PID'))
    terminal.wait(r'vPID')
    terminal.click(y, text[y].index('PID'))
    terminal.wait(r'\^PID')
    terminal.click(y + 1, 20)
    terminal.wait(rf'^> +{first.pid}')
    terminal.click(y + 1, 20)
    terminal.wait(rf'pid {first.pid} .*Esc: back')
    terminal.keys('Escape')
    terminal.wait('Esc: back', absent=True)
    terminal.click(y + 1, 20, button=65)  # the wheel
    terminal.wait(rf'^> +{second.pid}')
    text = terminal.text().splitlines()
    last = max(i for i, line in enumerate(text) if 'help' in line)
    terminal.click(last, text[last].index('help'))
    terminal.wait('Keys +Esc: back')


def details_have_what_show_prints(kit):
    puppet = kit.puppet(allocated=GIB, reserved=2 * GIB)
    terminal = kit.start(kit.terminal(height=40))
    terminal.wait(f'{puppet.pid}')
    terminal.keys('Enter')
    terminal.wait('contexts, libraries, others')
    terminal.wait('POOL +SEGS .* LARGEST')


def actions_are_asked_twice_and_done(kit):
    puppet = kit.puppet(allocated=GIB)
    terminal = kit.start(kit.terminal())
    terminal.wait(f'{puppet.pid}')
    terminal.keys('T')
    terminal.wait('Release the cached memory')
    terminal.keys('y')
    terminal.wait('Really release')
    terminal.keys('y')
    terminal.wait('^trim: .*does not take this command')  # a puppet answers none
    terminal.keys('X')
    terminal.wait('Send SIGTERM')
    terminal.keys('n')
    terminal.wait('nothing was done')
    assert puppet.process.poll() is None
    terminal.keys('X')
    terminal.wait('Send SIGTERM')
    terminal.keys('y')
    terminal.wait('Really send')
    terminal.keys('y')
    terminal.wait('sent SIGTERM')
    assert puppet.process.wait(PATIENCE) == -signal.SIGTERM


def actions_are_answered(kit):
    """By the made-up machine, each in the line that says what was done."""
    demo = subprocess.Popen([kit.tool, 'demo', '--dir', kit.folder], stdout=subprocess.PIPE)
    kit.stack.callback(demo.wait)
    kit.stack.callback(demo.terminate)
    kit.stack.callback(demo.stdout.close)
    demo.stdout.readline()
    terminal = kit.start(kit.terminal(), '-p', 'solver')
    for key, answer in (('R', r'GPU \d: peaks set'), ('H', r'^recording +events off')):
        terminal.wait('solver')
        terminal.keys(key, 'y', 'y')
        terminal.wait(answer)


def read_only_offers_no_actions(kit):
    puppet = kit.puppet(allocated=GIB)
    terminal = kit.start(kit.terminal(width=160), '--readonly')
    terminal.wait(f'{puppet.pid}')
    assert 'X end' not in terminal.text()
    terminal.keys('X')
    terminal.wait('--readonly: actions are switched off')


def the_screen_follows_its_size(kit):
    kit.puppet(allocated=GIB)
    terminal = kit.start(kit.terminal())
    terminal.run('resize-window', '-x', '39', '-y', '10')
    terminal.wait('too small: want 40x6')
    terminal.run('resize-window', '-x', '140', '-y', '30')
    terminal.wait(r'^.. +PID USER +STATE')


def no_color_means_none(kit):
    kit.puppet(allocated=GIB, ooms=1)
    terminal = kit.start(kit.terminal(NO_COLOR=1))
    terminal.wait('PID')
    assert not re.search('\033\\[[0-9;]*3[0-7]m', terminal.text('-e')), terminal.text('-e')
    terminal.keys('q')
    terminal.wait('^ready>')
    terminal.command('unset NO_COLOR')
    kit.start(terminal)
    terminal.wait('PID')
    assert re.search('\033\\[[0-9;]*3[0-7]m', terminal.text('-e')), terminal.text('-e')


def ascii_draws_with_ascii(kit):
    kit.puppet(allocated=40 * GIB, reserved=50 * GIB)
    terminal = kit.start(kit.terminal(), '--ascii')
    assert terminal.wait('####').isascii(), terminal.text()


def ends(kit, end, status):
    kit.puppet(allocated=GIB)
    terminal = kit.terminal()
    before = terminal.settings()
    kit.start(terminal)
    end(terminal)
    terminal.wait(r'^ready>')
    assert f'code {status}' in terminal.command('echo code $status'), terminal.text()
    assert terminal.settings() == before


def the_terminal_is_restored_after_control_c(kit):
    ends(kit, lambda terminal: terminal.keys('C-c'), 128 + signal.SIGINT)


def the_terminal_is_restored_after_sigterm(kit):
    ends(kit, lambda terminal: os.kill(kit.pid_of_top(terminal), signal.SIGTERM),
         128 + signal.SIGTERM)


def the_terminal_is_restored_after_sighup(kit):
    ends(kit, lambda terminal: os.kill(kit.pid_of_top(terminal), signal.SIGHUP),
         128 + signal.SIGHUP)


def it_stops_and_comes_back(kit):
    kit.puppet(allocated=GIB)
    terminal = kit.terminal()
    before = terminal.command('stty sane; stty -a')
    for stop in ('C-z', 'SIGSTOP'):
        kit.start(terminal)
        if stop == 'C-z':
            terminal.keys('C-z')
        else:
            os.kill(kit.pid_of_top(terminal), signal.SIGSTOP)
        terminal.wait('Stopped')
        terminal.command('stty sane')
        terminal.type('fg')
        terminal.keys('Enter')
        terminal.wait(r'^.. +PID')
        terminal.keys('q')
        terminal.wait('^ready>')
        assert terminal.settings() == before


def the_end_of_its_terminal_ends_it(kit):
    kit.puppet(allocated=GIB)
    terminal = kit.start(kit.terminal())
    pid = kit.pid_of_top(terminal)
    terminal.close()
    end = time.monotonic() + PATIENCE
    while pathlib.Path(f'/proc/{pid}').exists():
        assert time.monotonic() < end, 'it runs on without a terminal'
        time.sleep(0.05)


def an_unknown_terminal_is_told(kit):
    terminal = kit.terminal()
    before = terminal.settings()
    for name in ('no-such', 'dumb'):
        text = terminal.command(f'TERM={name} {kit.tool} top --dir {kit.folder}; echo code $?')
        assert f"terminal type '{name}'" in text and 'code 2' in text, text
    assert terminal.settings() == before
    result = subprocess.run([kit.tool, 'top', '--dir', kit.folder], check=False,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and 'needs a terminal' in result.stderr, result.stderr


def a_recording_is_played(kit):
    """Ten samples with 1 GiB, ten with 2; then there is nothing but the recording."""
    puppet = kit.puppet(allocated=GIB, reserved=2 * GIB)
    recording = kit.folder / 'day.rec'
    for _ in range(2):
        subprocess.run([kit.tool, 'stat', '--dir', kit.folder, '--record', recording, '0.1', '10'],
                       check=True, stdout=subprocess.DEVNULL)
        puppet.set(allocated=2 * GIB)
    puppet.end()
    terminal = kit.terminal()
    before = terminal.settings()
    terminal.type(f'clear; {kit.tool} top --from {recording} --speed 0.1')
    terminal.keys('Enter')
    terminal.wait(rf'recording [0-4]?\d% x0\.1(?s:.*){puppet.pid}.* 1\.0G +2\.0G')
    terminal.keys(']')
    terminal.wait(rf'recording 100% (?s:.*){puppet.pid}.* 2\.0G +2\.0G')
    terminal.keys('+')
    terminal.wait(r'END')
    terminal.keys('[')
    terminal.wait(rf'recording [0-4]?\d% x0\.2(?s:.*){puppet.pid}.* 1\.0G +2\.0G')
    terminal.keys('Space')
    terminal.wait('PAUSED.* x0')
    terminal.keys(']')
    terminal.wait('PAUSED.*100%')
    terminal.keys('T')
    terminal.wait('a recording: there is no action')
    terminal.keys('Enter')
    terminal.wait(r'not in a recording(?s:.*)RESERVED +2\.0G')
    terminal.keys('Escape', 'q')
    terminal.wait('^ready>')
    assert terminal.settings() == before


def a_program_is_watched_while_it_runs(kit):
    """run --top, with a program that uses no card, but writes and ends."""
    log = kit.folder / 'log'
    script = kit.folder / 'program'
    script.write_text('echo working; read line || echo no input\n'
                      f'until [ -e {kit.folder}/end ]; do sleep 0.1; done; echo done\n', 'ascii')
    terminal = kit.terminal()
    before = terminal.settings()
    start = f'{kit.tool} run --library {kit.library} --top --log {log}'
    terminal.type(f'clear; {start} sh {script}')
    terminal.keys('Enter')
    terminal.wait(r'^.. +PID')
    (kit.folder / 'end').touch()
    terminal.wait('^ready>')  # the view ends with the program
    assert log.read_text('ascii') == 'working\nno input\ndone\n', log.read_text('ascii')
    assert terminal.settings() == before
    (kit.folder / 'end').unlink()
    terminal.type(f'clear; {start} sh {script}; echo code $?')
    terminal.keys('Enter')
    terminal.wait(r'^.. +PID')
    terminal.keys('q')
    terminal.wait(r'the view has ended, the program runs on(?s:.*)Ctrl-C')
    terminal.keys('C-c')
    terminal.wait('code 130')
    assert terminal.settings() == before


def frames_are_printed_as_text(kit):
    puppet = kit.puppet(allocated=GIB, reserved=2 * GIB)
    words = [kit.tool, 'top', '-b', '-n', '2', '-d', '0.1', '--size', '80x12', '--dir', kit.folder]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, 'LC_ALL': 'C.UTF-8'}).stdout
    frames = text.split('\n\n')
    assert len(text.splitlines()) == 2 * 12 + 1, text
    assert len(lines_with(text, str(puppet.pid))) == 2, frames
    text = subprocess.run([*words, '--color', 'always'], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, 'LC_ALL': 'C'}).stdout
    assert '\033[' in text and text.isascii()


def main():
    programs = [pathlib.Path(word).resolve() for word in sys.argv[1:4]]
    cases = [keys_move_sort_and_quit, keys_of_another_terminal_are_known, figures_move,
             a_process_that_is_killed_is_told, clicks_and_the_wheel_work,
             details_have_what_show_prints, actions_are_asked_twice_and_done, actions_are_answered,
             read_only_offers_no_actions,
             the_screen_follows_its_size, no_color_means_none, ascii_draws_with_ascii,
             the_terminal_is_restored_after_control_c, the_terminal_is_restored_after_sigterm,
             the_terminal_is_restored_after_sighup, it_stops_and_comes_back,
             the_end_of_its_terminal_ends_it, an_unknown_terminal_is_told,
             a_recording_is_played, a_program_is_watched_while_it_runs, frames_are_printed_as_text]

    def in_kit(case):
        def run():
            if not shutil.which('tmux'):
                raise Skip('tmux is not there: ./dev test installs it where it can')
            with contextlib.ExitStack() as stack:
                folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
                case(Kit(stack, folder, *programs))
        run.__name__ = case.__name__
        return run
    return run_cases([in_kit(case) for case in cases])


if __name__ == '__main__':
    sys.exit(main())
