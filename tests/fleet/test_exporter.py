#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the exporter answers, to whom, at what cost: test_exporter.py TOOL PUPPET"""

import contextlib
import os
import pathlib
import re
import resource
import select
import socket
import subprocess
import sys
import time

import stage
from stage import OPENMETRICS, Page

GIB = 1 << 30
GPU = 'GPU-01000000-0000-0000-0000-000000000000'
SCRAPE_SECONDS = 0.1
SCRAPE_BYTES = 10 << 20
# What Prometheus sets itself, or relabels Kubernetes' targets to.
OWNED = {'job', 'instance', 'pod', 'namespace', 'container', 'node'}


def a_page_has_the_figures_of_each_process(kit):
    puppet = kit.puppet(allocated=3 * GIB, reserved=5 * GIB, held=GIB, ooms=2)
    page = kit.exporter().page()
    key = {'pid': puppet.pid, 'gpu_uuid': GPU}
    assert page.get('allocated_bytes', **key) == 3 * GIB
    assert page.get('reserved_bytes', **key) == 5 * GIB
    assert page.get('fragmented_bytes', **key) == GIB
    assert page.get('releasable_bytes', **key) == GIB
    assert page.get('ooms_total', **key) == 2
    assert page.get('process_info', pid=puppet.pid, comm='puppet', uid=os.getuid()) == 1
    assert page.get('device_info', gpu_uuid=GPU, model='Puppet', simulated='true') == 1
    assert page.get('device_total_bytes', gpu_uuid=GPU) == 80 * GIB
    assert page.get('regions', state='running') == 1
    assert page.get('region_dir_free_bytes', dir=str(kit.folder)) > 0


def the_form_is_the_one_that_is_asked_for(kit):
    kit.puppet(ooms=1)
    exporter = kit.exporter()
    answer, text = exporter.ask(Accept=OPENMETRICS)
    assert answer.headers['Content-Type'].startswith('application/openmetrics-text; version=1.0.0')
    assert text.endswith('# EOF\n') and '# TYPE cudamem_ooms counter\n' in text
    answer, text = exporter.ask()
    assert answer.headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8'
    assert '# EOF' not in text and '# TYPE cudamem_ooms_total counter\n' in text
    assert '_created' not in text


def counters_say_since_when_they_count(kit):
    before = time.time()
    puppet = kit.puppet(ooms=1)
    page = kit.once('--format', 'openmetrics')
    created = page.get('ooms_created', pid=puppet.pid)
    assert before - 1 < created < time.time() + 1, created
    for name in page.family:
        if name.endswith('_total'):
            assert name.removesuffix('_total') + '_created' in page.family, name


def promtool_finds_nothing_to_say(kit):
    promtool = stage.unpacked('promtool')
    kit.puppet(ooms=1)
    for words in ((), ('--group-by', 'container'), ('--max-series', '1')):
        text = kit.once(*words).text
        run = subprocess.run([promtool, 'check', 'metrics'], input=text, text=True,
                             capture_output=True, check=False)
        assert run.returncode == 0 and not run.stderr and not run.stdout, run


def a_strict_parser_reads_the_page(kit):
    python = stage.venv_python('prometheus_client')
    kit.puppet(ooms=1)
    kit.puppet(comm='a"b\\c', allocated=-5, ooms=-1)
    script = ('import sys\n'
              'from prometheus_client.openmetrics.parser import text_string_to_metric_families\n'
              'print(len(list(text_string_to_metric_families(sys.stdin.read()))))')
    for words in ((), ('--group-by', 'user'), ('--group-by', 'comm'), ('--max-series', '1')):
        text = kit.once('--format', 'openmetrics', *words).text
        run = subprocess.run([python, '-c', script], input=text, text=True, capture_output=True,
                             check=False)
        assert run.returncode == 0 and int(run.stdout) > 30, run.stderr


def no_label_is_one_that_prometheus_sets(kit):
    kit.puppet()
    for word in ('pid', 'container', 'job', 'user', 'comm'):
        for family in kit.once('--group-by', word).family.values():
            for labels in family:
                assert not OWNED & set(dict(labels)), labels


def groups_are_summed(kit):
    kit.puppet(comm='train', reserved=5, ooms=1)
    kit.puppet(comm='train', reserved=7, ooms=2)
    kit.puppet(comm='serve', reserved=1)
    page = kit.once('--group-by', 'comm')
    assert page.get('reserved_bytes', comm='train') == 12
    assert page.get('ooms_total', comm='train') == 3
    assert page.get('reserved_bytes', comm='serve') == 1
    assert 'cudamem_process_info' not in page.family
    assert page.labels('reserved_bytes', 'pid') == {None}
    user = kit.once('--group-by', 'user').labels('reserved_bytes', 'user')
    assert len(user) == 1 and None not in user, user


def a_sum_does_not_fall_when_a_process_ends(kit):
    first, _ = kit.puppet(comm='train', ooms=3), kit.puppet(comm='train', ooms=2)
    exporter = kit.exporter('--group-by', 'comm')
    assert exporter.page().get('ooms_total', comm='train') == 5
    first.crash()
    page = exporter.page()
    assert page.get('ooms_total', comm='train') == 5
    assert page.get('regions', state='crashed') == 1


def the_smallest_are_one_beyond_the_bound(kit):
    for reserved in (1, 2, 3, 4):
        kit.puppet(reserved=reserved, ooms=1)
    page = kit.once('--max-series', '2')
    assert page.get('reserved_bytes', pid='other') == 3
    assert page.get('ooms_total', pid='other') is None  # its members change
    assert len(page.labels('reserved_bytes', 'pid')) == 3
    assert len(page.labels('process_info', 'pid')) == 2
    assert page.get('exporter_processes_dropped') == 4  # of two label sets each


def who_ends_is_gone_from_the_next_page(kit):
    ended, crashed, stays = kit.puppet(), kit.puppet(), kit.puppet()
    exporter = kit.exporter()
    pids = {str(puppet.pid) for puppet in (ended, crashed, stays)}
    assert exporter.page().labels('allocated_bytes', 'pid') == pids
    ended.end()
    crashed.crash()
    page = exporter.page()
    assert page.labels('allocated_bytes', 'pid') == {str(stays.pid)}
    assert page.labels('process_info', 'pid') == {str(stays.pid)}
    assert page.get('regions', state='crashed') == 1


def a_hostile_region_costs_a_metric_and_not_the_page(kit):
    good = kit.puppet(allocated=7)
    bad = kit.puppet(allocated=-1, reserved=1 << 62, ooms=-(1 << 63), comm='\t"\\\x1b[31m\xff')
    kit.puppet(major=77)
    (kit.folder / f'cudamem.{os.getuid()}.5000001.1').write_bytes(b'nothing')
    (kit.folder / f'cudamem.{os.getuid()}.5000002.1').symlink_to('/etc/passwd')
    (kit.folder / f'cudamem.{os.getuid()}.5000003.1').mkdir()
    os.mkfifo(kit.folder / f'cudamem.{os.getuid()}.5000004.1')
    page = kit.once()
    assert page.get('allocated_bytes', pid=good.pid) == 7
    assert page.get('allocated_bytes', pid=bad.pid) is None
    assert page.get('ooms_total', pid=bad.pid) is None
    assert page.get('reserved_bytes', pid=bad.pid) == 1 << 62
    assert page.get('regions_unreadable', reason='version') == 1
    assert page.get('regions_unreadable', reason='damaged') == 1
    assert '\x1b' not in page.text


def a_region_with_anothers_pid_is_not_believed(kit):
    if os.getuid():
        raise stage.Skip('only root can give a file to another user')
    puppet = kit.puppet(allocated=7)
    os.chown(puppet.region, 12345, 12345)
    page = kit.once()
    assert page.get('allocated_bytes', pid=puppet.pid) is None
    assert page.get('regions_unreadable', reason='damaged') == 1


def many_processes_cost_little(kit):
    pids = kit.crowd(150, 2)
    exporter = kit.exporter()
    page = exporter.page()
    assert page.labels('reserved_bytes', 'pid') == {str(pid) for pid in pids}
    begin, used = time.monotonic(), exporter.processor_seconds()
    for _ in range(20):
        exporter.ask(Accept=OPENMETRICS)
    seconds = (exporter.processor_seconds() - used) / 20
    waited = (time.monotonic() - begin) / 20
    _, text = exporter.ask(Accept=OPENMETRICS)
    memory = exporter.memory_bytes()
    print(f'# 150 processes on 2 GPUs: {seconds:.3f} s of a processor, {waited:.3f} s, a page of {len(text) >> 10} KiB, '
          f'{memory >> 10} KiB of memory')
    # Others may use the machine: a scrape that waits for a processor has cost nothing.
    assert seconds < SCRAPE_SECONDS, seconds
    assert memory < SCRAPE_BYTES, memory


def requests_are_refused_with_a_reason(kit):
    exporter = kit.exporter()
    for method, path, status in (('GET', '/', 200), ('GET', '/-/healthy', 200),
                                 ('GET', '/-/ready', 200), ('HEAD', '/metrics', 200),
                                 ('GET', '/nothing', 404), ('POST', '/metrics', 405)):
        answer, text = exporter.ask(path, method)
        assert answer.status == status, (method, path, answer.status)
        assert bool(text) == (method != 'HEAD'), text
    for request, status in ((b'\r\n\r\n', 400), (b'GET / HTTP/3.0\r\n\r\n', 505),
                            (b'GET /' + b'a' * 9000, 431)):
        assert exporter.raw(request).startswith(b'HTTP/1.1 %d ' % status), request


def who_sends_slowly_or_nothing_is_left_behind(kit):
    exporter = kit.exporter()
    idle = [socket.create_connection(('127.0.0.1', exporter.port)) for _ in range(40)]
    idle[0].sendall(b'GET /metrics HTTP/1.1\r\n')
    begin = time.monotonic()
    assert 'cudamem_build_info' in exporter.page().text
    waited = time.monotonic() - begin
    for client in idle:
        client.close()
    # Sixteen at a time, each for five seconds.
    assert waited < 25, waited


def it_waits_where_it_has_no_descriptor_for_a_client(kit):
    exporter = kit.exporter()
    pid = exporter.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f'/proc/{pid}/fd'))
    # Room for two, where it would have places for sixteen.
    limit = used + 2
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    with contextlib.ExitStack() as clients:
        for _ in range(limit - used + 1):
            client = clients.enter_context(
                socket.create_connection(('127.0.0.1', exporter.port), timeout=30))
        client.sendall(b'GET /-/healthy HTTP/1.0\r\n\r\n')
        seconds = exporter.processor_seconds()
        time.sleep(2)
        seconds = exporter.processor_seconds() - seconds
        assert not select.select([client], [], [], 0)[0], 'it had a descriptor'
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert client.recv(65536).startswith(b'HTTP/1.1 200 ')
    assert seconds < 0.5, seconds


def a_lack_of_descriptors_is_no_damage(kit):
    kit.puppet()
    exporter = kit.exporter()
    pid = exporter.process.pid
    # One for the client and one for the folder.
    limit = len(os.listdir(f'/proc/{pid}/fd')) + 2
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    page = exporter.page()
    assert page.get('regions_unreadable', reason='resources') == 1
    assert page.get('regions_unreadable', reason='damaged') == 0


def it_listens_on_a_socket_file(kit):
    path = kit.folder / 'socket'
    puppet = kit.puppet()
    for _ in range(2):
        exporter = stage.Exporter(kit.tool, kit.folder, listen=f'unix:{path}')
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
            got = b''
            while part := client.recv(65536):
                got += part
        assert f'pid="{puppet.pid}"'.encode() in got
        assert path.stat().st_mode & 0o007 == 0
        # One that is killed leaves the file to the next.
        exporter.process.kill()
        exporter.end()
        assert path.is_socket()
    exporter = stage.Exporter(kit.tool, kit.folder, listen=f'unix:{path}')
    assert exporter.end() == 0 and not path.exists()


def it_takes_the_sockets_of_systemd(kit):
    puppet = kit.puppet()
    with socket.create_server(('127.0.0.1', 0)) as listener:
        # Its own pid is what LISTEN_PID has to be: the shell becomes it.
        process = subprocess.Popen(
            ['sh', '-c', 'exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', 'sh',
             kit.tool, 'exporter', '--dir', kit.folder], stdin=listener.fileno(),
            stderr=subprocess.PIPE, text=True)
        assert str(listener.getsockname()[1]) in process.stderr.readline()
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
            got = b''
            while part := client.recv(65536):
                got += part
        process.terminate()
        assert process.wait(timeout=30) == 0
        process.stderr.close()
    assert f'pid="{puppet.pid}"'.encode() in got


def a_text_file_is_there_as_a_whole_or_not_at_all(kit):
    puppet = kit.puppet(ooms=1)
    path = kit.folder / 'cudamem.prom'
    run = kit.run('--dir', kit.folder, '--textfile', path, '--once')
    assert run.returncode == 0, run
    assert Page(path.read_text(encoding='utf-8')).get('ooms_total', pid=puppet.pid) == 1
    assert path.stat().st_mode & 0o777 == 0o644
    process = subprocess.Popen([kit.tool, 'exporter', '--dir', kit.folder, '--textfile', path,
                                '--interval', '0.05'])
    try:
        seen = set()
        def has_changed():
            seen.add(path.stat().st_ino)
            assert path.read_text(encoding='utf-8').count('# TYPE cudamem_exporter_torn') == 1
            return len(seen) > 3
        assert stage.wait_for(has_changed, 30, every=0.01), seen
    finally:
        process.terminate()
        process.wait()
    assert not [name for name in os.listdir(kit.folder) if name.startswith('.cudamem')]
    run = kit.run('--dir', kit.folder, '--textfile', kit.folder / 'none' / 'x')
    assert run.returncode == 3 and 'No such file' in run.stderr, run


def an_address_of_other_machines_must_be_meant(kit):
    for words, status, said in (
            (('--listen', '0.0.0.0:0'), 2, 'use --listen-public'),
            (('--listen', '[::]:0'), 2, 'use --listen-public'),
            (('--listen', 'localhost:1'), 2, 'is invalid'),
            (('--listen', '127.0.0.1:70000'), 2, 'is invalid'),
            (('--listen', 'unix:'), 2, 'is invalid'),
            (('--listen', 'unix:' + 200 * 'x'), 3, 'File name too long'),
            (('--listen', ':0', '--once'), 2, 'choose one of'),
            (('--listen-public',), 2, 'has an effect only with --listen'),
            (('--dir', '/nonexistent', '--once'), 3, 'No such file')):
        run = kit.run(*words)
        assert run.returncode == status and said in run.stderr, (words, run)
    exporter = kit.exporter('--listen-public', listen='0.0.0.0:0')
    assert exporter.address.startswith('0.0.0.0:') and exporter.page()


def it_ends_when_it_is_asked_to(kit):
    exporter = stage.Exporter(kit.tool, kit.folder)
    assert exporter.page()
    assert exporter.end() == 0


def the_table_and_the_pages_about_it_agree(kit):
    """Each metric is on a page of a process that has done everything, and in docs/fleet.md."""
    table = (stage.ROOT / 'tools/exporter/metrics.def').read_text(encoding='utf-8')
    names = set(re.findall(r'^CM_METRIC\(\w+, (\w+), \w+, \w+, "(\w+)"', table, re.MULTILINE))
    assert len(names) > 40, names
    docs = pathlib.Path(stage.ROOT / 'docs/fleet.md').read_text(encoding='utf-8')
    suffix = {'INFO': '_info', 'COUNTER': '_total', 'GAUGE': ''}
    for kind, name in names:
        assert f'`{name}{suffix[kind]}`' in docs, name
    documented = set(re.findall(r'^\| `(\w+)` \| (?:device|process|GPU|node) ', docs, re.MULTILINE))
    wanted = {name + suffix[kind] for kind, name in names}
    assert documented == wanted, documented ^ wanted


if __name__ == '__main__':
    sys.exit(stage.main([
        a_page_has_the_figures_of_each_process,
        the_form_is_the_one_that_is_asked_for,
        counters_say_since_when_they_count,
        promtool_finds_nothing_to_say,
        a_strict_parser_reads_the_page,
        no_label_is_one_that_prometheus_sets,
        groups_are_summed,
        a_sum_does_not_fall_when_a_process_ends,
        the_smallest_are_one_beyond_the_bound,
        who_ends_is_gone_from_the_next_page,
        a_hostile_region_costs_a_metric_and_not_the_page,
        a_region_with_anothers_pid_is_not_believed,
        many_processes_cost_little,
        requests_are_refused_with_a_reason,
        who_sends_slowly_or_nothing_is_left_behind,
        it_waits_where_it_has_no_descriptor_for_a_client, a_lack_of_descriptors_is_no_damage,
        it_listens_on_a_socket_file,
        it_takes_the_sockets_of_systemd,
        a_text_file_is_there_as_a_whole_or_not_at_all,
        an_address_of_other_machines_must_be_meant,
        it_ends_when_it_is_asked_to,
        the_table_and_the_pages_about_it_agree,
    ]))
