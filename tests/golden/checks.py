# SPDX-License-Identifier: MIT
"""What a transcript cannot show of cudamemstat: pipes, terminals, processes that end, the manual.

For run.py. `places` has the folders and files that it made.
"""

import errno
import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import termios

# Who answers does so at once, on a machine that has time for it.
PATIENT = ['--timeout', '200']


def check_streams(tool, places):
    """What can't be written is an error; a reader that goes away is none."""
    listing = [tool, 'ls', '--dir', places['good']]
    for command in (listing, [tool, 'stat', '--dir', places['good'], '-p', '5000001', '0.1']):
        with open('/dev/full', 'w', encoding='utf-8') as full:
            run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                                 timeout=300, check=False)
        assert run.returncode == 3, run
        assert 'could not be written: No space left on device' in run.stderr, run
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([tool, 'memory-stats', '--dir', places['good'], '5000001'], stdout=write,
                         stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert run.stderr == '', run


def check_death(tool, make_region, places):
    """A process that dies while it is asked is not said to be slow."""
    with subprocess.Popen([make_region, 'dying', places['none']], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        region = pathlib.Path(process.stdout.readline().strip())
        command = [tool, 'trim', '--dir', places['none'], str(process.pid)]
        # The tool waits to the end for who has died; who did not come to it in time is asked again.
        while True:
            run = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300,
                                 check=False)
            if 'did not answer' not in run.stderr:
                break
    region.unlink()
    assert run.returncode == 3 and run.stderr == (
        f'cudamemstat: trim: process {process.pid} has ended (crashed) before it answered\n'), run


def check_stat_ends(tool, make_region, places):
    """stat -p goes on until the process ends, and says so."""
    with subprocess.Popen([make_region, 'healthy', places['none']], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        command = [tool, 'stat', '--dir', places['none'], '-p', str(process.pid), '--ndjson', '0.1']
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as stat:
            first = json.loads(stat.stdout.readline())
            assert first['pid'] == process.pid and first['gpu'] == 0, first
            process.stdin.close()
            _, complaints = stat.communicate(timeout=300)
    assert stat.returncode == 0 and 'has ended' in complaints, (stat.returncode, complaints)


def check_cut(tool, make_region, places):
    """A file that becomes shorter while the tool waits for its owner is said to be."""
    with subprocess.Popen([make_region, 'mute', places['none']], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        region = pathlib.Path(process.stdout.readline().strip())
        with region.open('rb') as file:
            channel = os.pread(file.fileno(), 4096, 4096)
            trim = subprocess.Popen([tool, 'trim', '--region', region, *PATIENT], text=True,
                                    stderr=subprocess.PIPE)
            # Until it has begun to write its command.
            while os.pread(file.fileno(), 4096, 4096) == channel:
                assert trim.poll() is None, trim.stderr.read()
        region.chmod(0o600)
        os.truncate(region, 0)
        # It may sleep by now, and is woken by this; or it has met the end of the file and ended.
        os.kill(trim.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, trim.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        os.kill(trim.pid, signal.SIGCONT)
        _, said = trim.communicate(timeout=300)
    region.unlink()
    assert trim.returncode == 3 and said == (
        'cudamemstat: the file of a region was cut short while it was in use\n'), (trim, said)


def check_watch(tool, places):
    """ls --watch lists again and again until its reader goes away; CSV has one line of headings."""
    def first_lines(number, *words):
        command = [tool, 'ls', '--dir', places['good'], '-o', 'PID,GPU', '--watch=0.1', *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            lines = [watch.stdout.readline().strip() for _ in range(number)]
            watch.stdout.close()
        assert watch.returncode == -signal.SIGPIPE, watch.returncode
        return lines
    rows = ['5000001,0', '5000001,1']
    assert first_lines(7, '--csv') == ['pid,gpu', *rows, *rows, *rows]
    listing = ['PID GPU', '5000001   0', '5000001   1', '']
    assert first_lines(8) == listing + listing


def check_recording(tool, places):
    """A recording has the values of all columns but two; and what is recorded is what is printed."""
    def rows(*words):
        text = subprocess.run([tool, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
        return [json.loads(line) for line in text.splitlines()]
    columns = subprocess.run([tool, 'ls', '-o', 'help'], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    names = ','.join(name for name in re.findall(r'^[* ] (\S+)', columns, re.MULTILINE)
                     if name not in ('LARGEST', 'FRAG%', 'PCI', 'SMI'))
    words = ['--ndjson', '-p', '5000001', '-o', names]
    then = rows('ls', '--from', places['recording'], *words)
    assert then == rows('ls', '--dir', places['all'], *words) and len(then) == 2, then
    recording = pathlib.Path(places['recording']).with_name('other.rec')
    options = ['--ndjson', '-p', places['live_pid']]
    printed = rows('stat', '--dir', places['live'], '--record', recording, *options, '0.1', '3')
    played = rows('stat', '--from', recording, *options)
    assert played == printed and len(played) == 6, (played, printed)


def check_no_color(tool, places):
    run = subprocess.run([tool, 'ls', '--dir', places['good']], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, 'NO_COLOR': '1'}, check=False)
    assert '\033' not in run.stdout, run


def read_terminal(master):
    """All that was written to the terminal, of which a read may give a part. Its users have gone."""
    seen = b''
    try:
        while part := os.read(master, 4096):
            seen += part
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    return seen.decode()


def check_narrow_terminal(tool):
    """On a usual one nothing of what an option means is cut, and no line is too long."""
    words = (tool, 'conf', '-n', '--where', 'OPTION == peer_processes')
    whole = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('4H', 24, 80, 0, 0))
    subprocess.run(words, stdout=terminal, check=True)
    os.close(terminal)
    seen = read_terminal(master)
    os.close(master)
    assert seen.split() == whole and max(map(len, seen.splitlines())) <= 80, seen


COLUMN_VERBS = ('ls', 'top', 'stat', 'conf', 'check')


def listed_columns(text):
    return re.findall(r'^(?:[* ] )?(\S+)', text[:text.index('\n\n')], re.MULTILINE)


def check_verb_pages(tool, manual, verbs):
    """Each command has a page of its own, with all its options and columns, and no other's."""
    root = pathlib.Path(manual).resolve().parents[1]
    text = pathlib.Path(manual).read_text(encoding='utf-8')
    options_text = text[text.index('\n# OPTIONS\n'):text.index('\n# COLUMNS\n')]
    for verb in verbs:
        page = subprocess.run([sys.executable, root / 'docs/verb_pages.py', manual, root / 'tools/cudamemstat.c',
                               root / 'tools/cli/options.def', verb], stdout=subprocess.PIPE, text=True, check=True).stdout
        help_text = subprocess.run([tool, verb, '--help'], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = set(re.findall(r'^  (?:-\w, |    )--([a-z-]+)', help_text, re.MULTILINE))
        options = page[page.index('\n# OPTIONS\n'):page.index('\n# EXIT STATUS\n')]
        heads = re.findall(r'\*--([a-z-]+)\*', ' '.join(re.findall(r'^\*.*', options, re.MULTILINE)))
        assert len(heads) == len(set(heads)), f'twice on the page of {verb}: {sorted(heads)}'
        told = set(re.findall(r'\*--([a-z-]+)\*', options))
        assert wanted <= told, f'not on the page of {verb}: {wanted - told}'
        if verb in COLUMN_VERBS:
            listed = subprocess.run([tool, verb, '-o', 'help'], stdout=subprocess.PIPE, text=True, check=True).stdout
            columns = page[page.index('\n# COLUMNS\n'):page.index('\n# EXIT STATUS\n')]
            told = re.findall(r'^\|[\[ ] +\*(\S+)\*', columns, re.MULTILINE)
            assert told == listed_columns(listed), (verb, told)
        for section in re.findall(rf'^## {verb}\n(.*?)(?=^#)', options_text, re.MULTILINE | re.DOTALL):
            lost = [line for line in re.findall(r'^[A-Z|:].*', section, re.MULTILINE) if line not in page]
            assert not lost, f'not on the page of {verb}: {lost}'
        assert page.count('\n# DESCRIPTION\n\n\n') == 0, f'the page of {verb} says nothing'
        assert f"'{verb}'" in (root / 'docs/meson.build').read_text(encoding='utf-8'), f'no page of {verb} is made'


def check_manual(tool, manual):
    """Every command, option and column must be in the page."""
    def ask(*words):
        return subprocess.run([tool, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
    page = pathlib.Path(manual).read_text(encoding='utf-8')
    verbs = re.findall(r'^  ([a-z][a-z-]+)', ask('--help'), re.MULTILINE)
    words = {f'*{verb}*' for verb in verbs}
    for verb in verbs:
        words |= {f'*{name}*' for name in re.findall(r'--[a-z-]+', ask(verb, '--help'))}
    for verb in COLUMN_VERBS:
        words |= {f'*{name}*' for name in listed_columns(ask(verb, '-o', 'help'))}
    assert len(verbs) >= 9 and '*--json*' in words and '*FRAG%*' in words, words
    missing = sorted(word for word in words if word not in page)
    assert not missing, f'not in the manual page: {missing}'
    check_verb_pages(tool, manual, verbs)
    synopsis = page[page.index('\n# SYNOPSIS\n'):page.index('\n# DESCRIPTION\n')]
    missing = [verb for verb in verbs if f'*{verb}*' not in synopsis]
    assert not missing, f'not in its synopsis: {missing}'
    states = re.search(r'^\* STATE +\S+ +(.*)$', ask('ls', '-o', 'help'), re.MULTILINE)
    assert f':  {states[1]}' in page, f'not what the manual page says of a state: {states[1]}'
