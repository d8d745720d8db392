#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run with an eye on the program: leaks at exit, out of memory, the peak.

  test_guard.py TOOL MAKER PROGRAM LIBRARY SIMULATION
"""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys

import kit
import test_export

PROGRAM, LIBRARY, SIMULATION = map(os.path.abspath, sys.argv[3:6])


def start(kit_, *words, program=(PROGRAM,), conf='oom_report:off'):
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(pathlib.Path(SIMULATION).parent),
                   'ASAN_OPTIONS': 'verify_asan_link_order=0', 'CUDAMEM_CONF': conf}
    command = [kit_.tool, 'run', '--library', LIBRARY, *words, '--', *program]
    return subprocess.Popen(list(map(str, command)), env=environment, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def start_named(kit_):
    """A run whose program is ready, and its folder."""
    script = f'echo "$CUDAMEM_CONF"; exec "{PROGRAM}" plain'
    process = start(kit_, '--leaks', program=('sh', '-c', script))
    folder = re.search('region_dir:([^,]*)', process.stdout.readline())[1]
    assert process.stdout.readline() == 'ready\n'
    return process, pathlib.Path(folder)


def run(kit_, *words, program, **more):
    with start(kit_, *words, program=program, **more) as process:
        out, err = process.communicate(timeout=300)
    # A region bears the pid of the program, which is in what is said of it.
    for pid in set(re.findall(r'^==(\d+)== ', err, re.MULTILINE)):
        assert not list(pathlib.Path('/dev/shm').glob(f'cudamem-run.*/cudamem.*.{pid}.*'))
    return process.returncode, out, err


def a_growing_stack_is_told_first(kit_):
    status, _, err = run(kit_, '--leaks', program=(PROGRAM, 'leak', 60))
    assert status == 0, err
    assert re.search(r'1 stack still holds memory at exit: 9\.38 MiB in 60 blocks', err), err
    assert re.search(r'9\.38 MiB  60 blocks .* GROWING', err), err
    assert re.search(r'#\d+ remember  .*program\.c:\d+', err), err
    err = run(kit_, '--leaks', program=(PROGRAM, 'leak', 1))[2]
    assert re.search(r'at exit: .* in 1 block$', err, re.MULTILINE), err


def what_is_there_from_the_beginning_does_not_grow(kit_):
    status, _, err = run(kit_, '--leaks', program=(PROGRAM, 'oom'))
    assert status == 0 and 'GROWING' not in err.split('28.00 MiB')[1].split('\n')[0], err
    assert re.search(r'28\.00 MiB  4 blocks .*since the beginning', err), err


def a_leak_may_change_the_exit_code(kit_):
    assert run(kit_, '--leaks', '--leak-exit-code', 23, program=(PROGRAM, 'leak', 60))[0] == 23
    assert run(kit_, '--leaks', '--leak-exit-code', 23, program=('sh', '-c', 'exit 5'))[0] == 5


def a_suppressed_stack_is_not_told(kit_):
    rules = kit_.folder / 'rules'
    rules.write_text('# ours\nleak:reme*ber\n', encoding='utf-8')
    status, _, err = run(kit_, '--leaks', '--leak-exit-code', 23, '--suppressions', rules,
                         program=(PROGRAM, 'leak', 60))
    assert status == 0 and 'nothing is held' in err and 'suppressed: 1 stack, 9.38 MiB' in err, err
    rules.write_text('reme*ber\n', encoding='utf-8')
    status, _, err = run(kit_, '--leaks', '--suppressions', rules, program=(PROGRAM, 'leak', 60))
    assert status == 125 and 'line 1: want leak:PATTERN' in err, err
    status, _, err = run(kit_, '--leaks', '--suppressions', kit_.folder, program=('true',))
    assert status == 125 and 'Is a directory' in err, err


def a_snapshot_is_saved_when_memory_is_out(kit_):
    status, _, err = run(kit_, '--oom', kit_.folder / 'oom-%p.cudamem', program=(PROGRAM, 'oom'))
    saved = list(kit_.folder.glob('oom-*.cudamem'))
    assert status == 0 and len(saved) == 1 and saved[0].name in err, (err, saved)
    data = test_export.unpickle(kit_.export('pickle', saved[0]))
    test_export.check_viewer_rules(data)
    assert [event['size'] for event in data['device_traces'][0] if event['action'] == 'oom'] \
        == [1 << 45]
    assert b'out of memory' in kit_.ok('report', saved[0])


def each_process_numbers_the_files_of_its_own_name(kit_):
    """Of two processes, and of one that becomes another one: with %p, and without."""
    script = f'"{PROGRAM}" oom & one=$!; "{PROGRAM}" oom & wait; echo $one $!'
    for kind, option in (('oom', '--oom'), ('peak', '--save-peak')):
        _, out, err = run(kit_, option, kit_.folder / f'{kind}s-%p.cudamem',
                          program=('sh', '-c', script))
        saved = sorted(path.name for path in kit_.folder.glob(f'{kind}s-*'))
        assert saved == sorted(f'{kind}s-{pid}.cudamem' for pid in out.split()[-2:]), (saved, err)
        run(kit_, option, kit_.folder / f'{kind}-all.cudamem', program=('sh', '-c', script))
        saved = sorted(path.name for path in kit_.folder.glob(f'{kind}-all*'))
        assert saved == [f'{kind}-all-2.cudamem', f'{kind}-all.cudamem'], saved
    run(kit_, '--oom', kit_.folder / 'became-%p.cudamem', program=(PROGRAM, 'oom', 'oom'))
    saved = sorted(path.name.count('-') for path in kit_.folder.glob('became-*'))
    assert saved == [1, 2], saved


def what_was_there_when_memory_was_out_is_saved(kit_):
    """The program frees all of it the moment that it hears of the failure, and dies."""
    path = kit_.folder / 'gave-up.cudamem'
    status, _, err = run(kit_, '--oom', path, program=(PROGRAM, 'give-up'))
    assert status == 128 + signal.SIGKILL and path.exists(), err
    data = test_export.unpickle(kit_.export('pickle', path))
    # A copy that took too long was made again, and the first one is an event, too.
    events = [event for event in data['device_traces'][0] if event['action'] != 'snapshot']
    assert events[-1]['action'] == 'oom', events[-1]
    assert sum(segment['allocated_size'] for segment in data['segments']) == 24 * kit.MIB
    report = json.loads(kit_.ok('report', '--json', path))
    assert (report['reason'], report['state']) == ('oom', 'running'), report
    assert report['devices'][0]['allocated_bytes'] == 24 * kit.MIB


def who_crashed_or_ran_out_of_memory_is_still_read(kit_):
    """As without `run`, and as the report of out of memory says; all others leave nothing."""
    for words, state in (('oom', 'exited'), ('give-up', 'crashed'), ('leak 3', None)):
        script = f'"{PROGRAM}" {words} & wait $!; echo $!'
        _, out, err = run(kit_, '--leaks', program=('sh', '-c', script), conf='oom_report:full')
        pid = out.split()[-1]
        kept = list(pathlib.Path('/dev/shm').glob(f'cudamem.*.{pid}.*'))
        try:
            assert len(kept) == (state is not None), (words, kept)
            if state:
                found = json.loads(kit_.ok('report', '--json', pid))
                assert found['state'] == state and found['devices'], (words, found)
            if state == 'exited':
                assert f'also when it has ended: cudamemstat report {pid}' in err, err
        finally:
            for region in kept:
                region.unlink()


def a_program_that_becomes_another_is_watched(kit_):
    """Its region is another one then, with the name of the first."""
    path = kit_.folder / 'became.cudamem'
    status, _, err = run(kit_, '--oom', path, program=(PROGRAM, 'exec', 'oom'))
    assert status == 0 and 'out of memory' in err and path.exists(), err


def every_process_is_watched_however_many_were_before(kit_):
    path = kit_.folder / 'last.cudamem'
    script = f'for i in $(seq 64); do "{PROGRAM}" leak 1; done; exec "{PROGRAM}" oom'
    # All of them leave their regions, for which a container may have little room.
    status, _, err = run(kit_, '--oom', path, '--conf', 'events:16', program=('sh', '-c', script))
    assert status == 0 and 'out of memory' in err and path.exists(), err


def after_ten_files_nobody_is_copied(kit_):
    """Who fails then leaves its region behind, with no event of a copy in it."""
    path, left = kit_.folder / 'many.cudamem', kit_.folder / 'left'
    script = (f'for i in $(seq 100); do [ -e "{kit_.folder}/many-10.cudamem" ] && break; '
              f'"{PROGRAM}" fail; done; '
              'regions=${CUDAMEM_CONF##*region_dir:}; '
              f'"{PROGRAM}" oom & wait $!; mv "${{regions%%,*}}"/cudamem.*.$!.* "{left}"')
    status, _, err = run(kit_, '--oom', path, program=('sh', '-c', script))
    assert status == 0 and err.count('out of memory') == 10, err
    actions = [line.split(',')[3] for line in kit_.export('csv', './left').decode().splitlines()]
    assert 'oom' in actions and 'snapshot' not in actions, actions


def files_are_numbered_as_they_are_written(kit_):
    """Who has used no memory has no peak."""
    path = kit_.folder / 'first.cudamem'
    script = f'"{PROGRAM}" fail; exec "{PROGRAM}" leak 3'
    status, _, err = run(kit_, '--save-peak', path, program=('sh', '-c', script))
    assert status == 0 and path.exists(), err


def nobody_waits_for_an_eye_that_is_not_there(kit_):
    assert run(kit_, '--conf', 'oom_wait_ms:1', program=(PROGRAM, 'oom'))[0] == 0
    for words in (('--leaks',), ('--save-peak', kit_.folder / 'no-oom.cudamem')):
        out = run(kit_, *words, program=('sh', '-c', 'echo "$CUDAMEM_CONF"'))[1]
        assert 'oom_wait_ms' not in out, out
    assert 'oom_wait_ms:' in run(kit_, '--oom', kit_.folder / 'x.cudamem',
                                 program=('sh', '-c', 'echo "$CUDAMEM_CONF"'))[1]


def a_peak_of_a_moment_is_in_the_file(kit_):
    path = kit_.folder / 'spike.cudamem'
    status, _, err = run(kit_, '--save-peak', path, program=(PROGRAM, 'spike'))
    # A look may fall into the moment, if seldom.
    assert status == 0 and re.search(r'peak of 129\.00 MiB allocated,( which is in the events| saved)', err), err
    found = json.loads(kit_.ok('report', '--json', path))['devices'][0]
    assert found['peak_of_events']['requested_bytes'] == 129 * kit.MIB, found
    stacks = [[frame['function'] for frame in row['frames']] for row in found['stacks_at_peak']]
    assert any('burst' in stack for stack in stacks), stacks
    _, _, err = run(kit_, '--save-peak', path, '--conf', 'events:0', program=(PROGRAM, 'spike'))
    assert 'peak of 129.00 MiB allocated' in err and 'in the events' not in err, err


def a_peak_that_the_ring_has_lost_is_told(kit_):
    """The tool is stopped while the program works, so it looks when all is over."""
    path = kit_.folder / 'lost.cudamem'
    with start(kit_, '--save-peak', path, '--conf', 'events:16',
               program=('sh', '-c', f'echo $$; read go; exec "{PROGRAM}" many 3000 100')) as process:
        child = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        process.stdin.write('go\n')
        process.stdin.close()
        select.select([child], [], [])
        os.close(child)
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=300)
        err = process.stderr.read()
    assert process.returncode == 0 and 'use a longer ring (--history=N)' in err, err


def the_highest_use_is_saved(kit_):
    path = kit_.folder / 'peak.cudamem'
    status, _, err = run(kit_, '--save-peak', path, program=(PROGRAM, 'leak', 60))
    assert status == 0 and path.exists() and 'allocated' in err, err
    # What was in use then is in the file, or in its events.
    assert b'peak during the events' in kit_.ok('report', path)


def the_program_is_as_without_us(kit_):
    assert run(kit_, '--leaks', program=('sh', '-c', 'echo out; exit 3'))[:2] == (3, 'out\n')
    assert run(kit_, '--leaks', program=('sh', '-c', 'kill -9 $$'))[0] == 128 + signal.SIGKILL
    assert run(kit_, '--leaks', program=('./no/such/program',))[0] == 127
    for number in signal.SIGTERM, signal.SIGINT:
        with start(kit_, '--leaks', program=(PROGRAM, 'plain')) as process:
            assert process.stdout.readline() == 'ready\n'
            process.send_signal(number)  # goes on to the program
            process.wait(timeout=300)  # with its input still open: it would end by that too
            err = process.stderr.read()
        assert process.returncode == 128 + number, process.returncode
        assert '29.25 MiB in 8 blocks' in err, err  # and what it left is told


def a_program_without_statistics_is_told_of(kit_):
    _, _, err = run(kit_, '--leaks', program=('true',))
    assert err.startswith('cudamemstat: run: nothing to report: '), err
    # One that was not started has been told of.
    _, _, err = run(kit_, '--leaks', program=('./no/such/program',))
    assert err == 'cudamemstat: run: ./no/such/program: command not found\n', err


def what_the_loader_could_not_do_is_told_before(kit_):
    library = kit_.folder / 'two words' / 'libcudamem.so'
    library.parent.mkdir()
    shutil.copy(LIBRARY, library)
    script = kit_.folder / 'script'
    script.write_text('#!/no/such/shell\n', encoding='utf-8')
    script.chmod(0o755)
    for words, status, why in (
            (('--library', library, 'true'), 125, f"no path with a blank or a colon, .*'{library}'"),
            (('--library', LIBRARY, script), 127, f'{script}: its interpreter or loader')):
        done = kit_.run('run', *words)
        assert done.returncode == status, done
        assert re.search(why, done.stderr.decode()), done.stderr


def five_lines_report_what_the_cache_did(kit_):
    status, _, err = run(kit_, '--report', program=(PROGRAM, 'leak', 60))
    lines = re.findall(r'^==\d+== cudamem: (\S+(?: \S+)*)  +(.*)', err, re.MULTILINE)
    assert status == 0 and [name for name, _ in lines] == [
        'peak', 'driver calls', 'hit rate', 'fragmentation', 'option to try'], err
    figures = dict(lines)
    assert re.match(r'[\d.]+ MiB allocated, [\d.]+ MiB reserved \(', figures['peak']), err
    saved, got, given, asked, freed = map(int, re.fullmatch(
        r'(\d+) saved: (\d+) allocations? and (\d+) frees? in place of (\d+) and (\d+)',
        figures['driver calls']).groups())
    assert saved == asked + freed - got - given > 100, err
    assert re.fullmatch(rf'[\d.]+% of {asked} requests', figures['hit rate']), err
    assert re.match(r'[\d.]+ MiB reserved beyond the peak; at most ', figures['fragmentation']), err
    assert figures['option to try'] == 'none', err
    err = run(kit_, '--report', '-c', 'mode:stats', program=(PROGRAM, 'leak', 60))[2]
    assert 'option to try  mode:cache: the library only counted' in err, err
    err = run(kit_, '--report', '--limit', '2M', program=(PROGRAM, 'fail'))[2]
    assert 'requests refused by the cap: 1' in err, err
    err = run(kit_, '--report', program=(PROGRAM, 'many', 1, 1))[2]
    assert '0.0% of 1 request\n' in err, err
    err = run(kit_, '--report', program=('true',))[2]
    assert 'nothing to report' in err, err


def children_are_left_out_if_asked(kit_):
    script = f'"{PROGRAM}" leak 3; "{PROGRAM}" leak 4'
    for words, number in (((), 2), (('--children', 'all'), 2), (('--children', 'none'), 0)):
        err = run(kit_, '--report', *words, program=('sh', '-c', script))[2]
        assert err.count('hit rate') == number, err
    err = run(kit_, '--report', '--children', 'none', program=(PROGRAM, 'leak', 3))[2]
    assert err.count('hit rate') == 1, err
    status, _, err = run(kit_, '--children', 'none', program=('true',))
    assert status == 2 and 'has an effect only with --report' in err, err


def history_and_stacks_are_options_of_the_program(kit_):
    for words, conf in ((['--history'], 'events:1Mi'), (['--stacks'], 'stacks:alloc'),
                        (['--history=4Ki', '--stacks=all'], 'events:4Ki,stacks:all')):
        out = run(kit_, '--dry-run', *words, program=('true',))[1]
        assert f'CUDAMEM_CONF=oom_report:off,{conf} true' in out, out
    for word in ('--history=much', '--history=0', '--history=99Mi', '--stacks=some'):
        status, _, err = run(kit_, word, program=('true',))
        assert status == 2 and 'is invalid, want' in err, (word, err)
    status, _, err = run(kit_, '--top', program=('true',))
    assert status == 2 and '--log FILE' in err, err
    status, _, err = run(kit_, '--top', '--log', kit_.folder / 'log', program=('true',))
    assert status == 2 and 'needs a terminal' in err, err


def folders_of_killed_runs_are_removed(kit_):
    """But not under a program that goes on, nor that of a run which does."""
    (killed, folder), (other, others) = start_named(kit_), start_named(kit_)
    with killed, other:
        region, = folder.iterdir()
        program = os.pidfd_open(int(region.name.split('.')[2]))
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        run(kit_, '--leaks', program=('true',))
        assert region.exists() and len(list(others.iterdir())) == 1
        killed.stdin.close()
        select.select([program], [], [])
        os.close(program)
        for _ in range(20):  # a run of another test may be at it
            run(kit_, '--leaks', program=('true',))
        assert not folder.exists(), list(folder.iterdir())
        assert len(list(others.iterdir())) == 1, list(others.iterdir())
        other.communicate(timeout=300)
    assert other.returncode == 0 and not others.exists()


def who_reads_no_further_ends_nothing(kit_):
    program = ('sh', '-c', f'read go; echo "$CUDAMEM_CONF"; "{PROGRAM}" leak 3; exit 7')
    with start(kit_, '--leaks', program=program) as process:
        process.stderr.close()
        process.stdin.write('go\n')
        process.stdin.close()
        out = process.stdout.read()
        process.wait(timeout=300)
    assert process.returncode == 7, process.returncode
    folder, = re.findall('region_dir:([^,]*)', out)
    assert not os.path.exists(folder), os.listdir(folder)


if __name__ == '__main__':
    sys.exit(kit.with_kit([
        a_growing_stack_is_told_first, what_is_there_from_the_beginning_does_not_grow,
        a_leak_may_change_the_exit_code, a_suppressed_stack_is_not_told,
        a_snapshot_is_saved_when_memory_is_out, each_process_numbers_the_files_of_its_own_name,
        what_was_there_when_memory_was_out_is_saved,
        who_crashed_or_ran_out_of_memory_is_still_read,
        a_program_that_becomes_another_is_watched, every_process_is_watched_however_many_were_before,
        after_ten_files_nobody_is_copied, files_are_numbered_as_they_are_written,
        nobody_waits_for_an_eye_that_is_not_there, the_highest_use_is_saved,
        a_peak_of_a_moment_is_in_the_file, a_peak_that_the_ring_has_lost_is_told,
        the_program_is_as_without_us, a_program_without_statistics_is_told_of,
        what_the_loader_could_not_do_is_told_before,
        five_lines_report_what_the_cache_did, children_are_left_out_if_asked,
        history_and_stacks_are_options_of_the_program, folders_of_killed_runs_are_removed,
        who_reads_no_further_ends_nothing], PROGRAM))
