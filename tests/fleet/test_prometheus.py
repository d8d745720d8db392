#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A real Prometheus over the exporter: test_prometheus.py TOOL PUPPET

Each alert of deploy/prometheus fires on the state that is made for it, stays silent on one that looks
like it, and ends; each panel of the dashboard has data. Its times are 150 times shorter here, so that ten minutes are four seconds.
"""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import stage
import test_dashboard

RULES = stage.ROOT / 'deploy' / 'prometheus'
FASTER = 150
SECONDS = {'s': 1, 'm': 60, 'h': 3600}
GIB = 1 << 30
GPU_OF_THE_FAILED, GPU_OF_NOBODY = 7, 8


def promtool_tests_the_rules(_kit):
    promtool = stage.unpacked('promtool')
    for words in (('check', 'rules', 'cudamem.rules.yml'),
                  ('test', 'rules', 'cudamem.rules.test.yml'),
                  ('check', 'config', 'prometheus.yml')):
        run = subprocess.run([promtool, *words], cwd=RULES, capture_output=True, text=True,
                             check=False)
        assert run.returncode == 0, (words, run.stdout, run.stderr)


def each_alert_has_a_test(_kit):
    alerts = set(re.findall(r'- alert: (\w+)',
                            (RULES / 'cudamem.rules.yml').read_text(encoding='utf-8')))
    tests = (RULES / 'cudamem.rules.test.yml').read_text(encoding='utf-8')
    assert len(alerts) == 8, alerts
    for alert in alerts:
        fires = re.findall(rf'alertname: {alert}\n    exp_alerts:', tests)
        silent = re.findall(rf'alertname: {alert}(?:\}})?\n(?!    exp_alerts:)', tests)
        assert fires and silent, alert


def amtool_reads_the_example(_kit):
    amtool = stage.unpacked('amtool')
    run = subprocess.run([amtool, 'check-config', 'alertmanager.yml'], cwd=RULES,
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


def shorten(rules):
    """The same rules in a world where time runs FASTER."""
    def milliseconds(match):
        return f'{int(match[1]) * SECONDS[match[2]] * 1000 // FASTER}ms'
    rules = re.sub(r'(?<=\[)(\d+)([smh])(?=\])', milliseconds, rules)
    rules = re.sub(r'(?<=offset )(\d+)([smh])\b', milliseconds, rules)
    rules = re.sub(r'(?<=for: )(\d+)([smh])\b', milliseconds, rules)
    return re.sub(r'interval: 30s', 'interval: 400ms', rules)


class Prometheus:
    """Debian's, unpacked, on a port of the loopback and a folder of its own."""

    def __init__(self, kit, targets):
        program = stage.unpacked('prometheus')
        self.port = free_port()
        folder = kit.root / 'prometheus'
        folder.mkdir()
        rules = (RULES / 'cudamem.rules.yml').read_text(encoding='utf-8')
        (folder / 'rules.yml').write_text(shorten(rules), encoding='utf-8')
        (folder / 'prometheus.yml').write_text(json.dumps({
            'global': {'scrape_interval': '400ms', 'scrape_timeout': '400ms',
                       'evaluation_interval': '400ms'},
            'rule_files': ['rules.yml'],
            'scrape_configs': [{
                'job_name': 'cudamem',
                'static_configs': [{'targets': [f'127.0.0.1:{port}'], 'labels': {'instance': name}}
                                   for name, port in targets.items()]}]}), encoding='utf-8')
        self.log = open(folder / 'log', 'w', encoding='utf-8')
        self.process = subprocess.Popen(
            [program, f'--config.file={folder}/prometheus.yml', f'--storage.tsdb.path={folder}/data',
             f'--web.listen-address=127.0.0.1:{self.port}', '--log.level=warn'],
            stdout=self.log, stderr=self.log)
        kit.stack.callback(self.end)
        assert stage.wait_for(self.is_ready, 30), (folder / 'log').read_text(encoding='utf-8')

    def get(self, path, **query):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        try:
            connection.request('GET', f'{path}?{urllib.parse.urlencode(query)}')
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.get('/-/ready')[0] == 200
        return False

    def query(self, expression):
        status, text = self.get('/api/v1/query', query=expression)
        assert status == 200, text
        return json.loads(text)['data']['result']

    def firing(self):
        """The alerts that fire now, as (name, whom)."""
        alerts = json.loads(self.get('/api/v1/alerts')[1])['data']['alerts']
        return {(alert['labels']['alertname'],
                 alert['labels'].get('pid', alert['labels']['instance']))
                for alert in alerts if alert['state'] == 'firing'}

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Watch(threading.Thread):
    """Moves the leak and the sawtooth, and remembers which alerts fired when."""

    def __init__(self, prometheus, leak, saw):
        super().__init__(daemon=True)
        self.prometheus, self.leak, self.saw = prometheus, leak, saw
        self.fired = {}
        self.now = set()
        self.leaks = True
        self.stopped = False
        self.error = None

    def run(self):
        step = 0
        try:
            while not self.stopped:
                step += 1
                self.leak.set(allocated=GIB + step * (GIB // 32) if self.leaks else 0)
                self.saw.set(allocated=GIB if step // 4 % 2 else 5 * GIB)
                self.now = self.prometheus.firing()
                for alert in self.now:
                    self.fired.setdefault(alert, time.monotonic())
                time.sleep(0.1)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def waits_for(self, alerts, seconds):
        """Until each of them has fired; those that have not."""
        return stage.wait_for(lambda: self.error or set(alerts) <= set(self.fired), seconds), \
            set(alerts) - set(self.fired)

    def waits_for_silence(self, seconds):
        stage.wait_for(lambda: self.error or not self.now, seconds)
        return self.now

    def end(self):
        self.stopped = True
        self.join()


def small_folder(kit):
    """An exporter on a folder of 32 MiB in a mount namespace of its own, and how to enlarge it."""
    folder, grow = kit.root / 'small', kit.root / 'grow'
    folder.mkdir()
    script = ('mount -t tmpfs -o size=32m small "$1" || exit 1\n'
              '(while [ ! -e "$2" ]; do sleep 0.1; done; mount -o remount,size=200m "$1") &\n'
              'exec "$3" exporter --dir "$1" --listen 127.0.0.1:"$4"')
    port = free_port()
    process = subprocess.Popen(['unshare', '-m' if os.getuid() == 0 else '-rm', 'sh', '-c', script,
                                'sh', folder, grow, kit.tool, str(port)],
                               stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    if 'listening' not in said:
        process.wait()
        process.stderr.close()
        print(f'# no small folder can be mounted here: {said.strip()}')
        return None, grow

    def end():
        grow.touch()
        process.terminate()
        process.wait()
        process.stderr.close()
    kit.stack.callback(end)
    return port, grow


def start_silent_ones(kit):
    """Processes that no alert is about."""
    # A fifth of its memory is fragmented.
    kit.puppet(allocated=GIB, reserved=10 * GIB, held=2 * GIB)
    # Most of it is, but it is little.
    kit.puppet(allocated=1, reserved=9 * 10**8, held=8 * 10**8)
    # It is idle, but nobody fails on its GPU.
    kit.puppet(allocated=GIB, reserved=5 * GIB, gpu=GPU_OF_NOBODY)


def each_panel_has_data(prometheus):
    for expression in test_dashboard.expressions():
        asked = expression.replace('[1m]', '[4s]')
        assert prometheus.query(asked), f'no data: {asked}'


def each_alert_fires_where_it_should_and_ends(kit):
    stage.unpacked('prometheus')
    start_silent_ones(kit)
    failed_before = kit.puppet(ooms=5, gpu=6)
    saw, ends = kit.puppet(reserved=6 * GIB, gpu=2), kit.puppet()
    # Those that must be told of.
    leak = kit.puppet(allocated=GIB, reserved=900 * GIB, gpu=3)
    stuck = kit.puppet(allocated=4 * GIB, reserved=10 * GIB, held=5 * GIB, gpu=4)
    idle = kit.puppet(allocated=GIB, reserved=5 * GIB, gpu=GPU_OF_THE_FAILED)
    fails = kit.puppet(ooms=0, gpu=GPU_OF_THE_FAILED)
    crashes, stranger = kit.puppet(), kit.puppet()
    targets = {'main': kit.exporter().port}
    empty = kit.root / 'empty'
    empty.mkdir()
    down = stage.Exporter(kit.tool, empty)
    targets['down'] = down.port
    small, grow = small_folder(kit)
    if small:
        targets['small'] = small

    prometheus = Prometheus(kit, targets)
    watch = Watch(prometheus, leak, saw)
    watch.start()
    kit.stack.callback(watch.end)
    # A failure that is older than the first page is new to Prometheus, for as long as the window.
    old = ('CudamemOutOfMemory', str(failed_before.pid))
    assert stage.wait_for(lambda: old in watch.fired, 20), watch.error
    assert stage.wait_for(lambda: old not in watch.now, 20), watch.error
    del watch.fired[old]

    each_panel_has_data(prometheus)
    fails.set(ooms=1)
    begins = kit.puppet(ooms=1, gpu=5)
    crashes.crash()
    ends.end()
    stranger.set(major=77)
    down.end()
    expected = {('CudamemOutOfMemory', str(fails.pid)), ('CudamemOutOfMemory', str(begins.pid)),
                ('CudamemFragmented', str(stuck.pid)), ('CudamemGrowing', str(leak.pid)),
                ('CudamemIdleWhileOthersFail', str(idle.pid)), ('CudamemCrashed', 'main'),
                ('CudamemExporterBlind', 'main'), ('CudamemDown', 'down')}
    if small:
        expected.add(('CudamemRegionDirFull', 'small'))
    _, missing = watch.waits_for(expected, 60)
    assert not missing, (missing, watch.error)
    assert set(watch.fired) == expected, set(watch.fired) - expected

    stuck.set(held=0)
    idle.set(allocated=5 * GIB)
    watch.leaks = False
    stranger.end()
    grow.touch()
    again = stage.Exporter(kit.tool, empty, listen=f'127.0.0.1:{down.port}')
    kit.stack.callback(again.end)
    left = watch.waits_for_silence(30)
    assert not left and not watch.error, (left, watch.error)
    if not small:
        raise stage.Skip('all but CudamemRegionDirFull: no folder of its own can be mounted here')


if __name__ == '__main__':
    sys.exit(stage.main([
        promtool_tests_the_rules,
        each_alert_has_a_test,
        amtool_reads_the_example,
        each_alert_fires_where_it_should_and_ends,
    ]))
