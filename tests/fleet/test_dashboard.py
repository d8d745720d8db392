#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The dashboard is what its source makes, and asks for what the exporter serves: test_dashboard.py"""

import json
import re
import subprocess
import sys

import stage
from kit import run_cases

FOLDER = stage.ROOT / 'deploy' / 'grafana'


def read():
    return json.loads((FOLDER / 'cudamem.json').read_text(encoding='utf-8'))


def panels():
    return [panel for panel in read()['panels'] if panel['type'] != 'row']


def expressions():
    """As Prometheus would be asked, everything chosen."""
    for panel in panels():
        for target in panel['targets']:
            yield re.sub(r'\$(instance|gpu_uuid)', '.*', target['expr']).replace(
                '$__rate_interval', '1m')


def it_is_what_its_source_makes():
    run = subprocess.run([sys.executable, FOLDER / 'dashboard.py', '--check'],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def every_panel_says_what_it_shows():
    assert len(panels()) >= 15 and len(read()['uid']) <= 40
    numbers = [panel['id'] for panel in read()['panels']]
    assert len(numbers) == len(set(numbers))
    for panel in panels():
        assert panel['title'] and panel['description'].endswith('.'), panel
        assert panel['fieldConfig']['defaults']['unit'], panel
        assert all(target['legendFormat'] and target['expr'] for target in panel['targets']), panel


def no_panel_lies_on_another():
    taken = set()
    for panel in read()['panels']:
        place = panel['gridPos']
        assert place['x'] + place['w'] <= 24, panel
        cells = {(x, y) for x in range(place['x'], place['x'] + place['w'])
                 for y in range(place['y'], place['y'] + place['h'])}
        assert not cells & taken, panel
        taken |= cells


def legends_show_what_is_summed_by():
    """A label that the sum has taken away would show as nothing."""
    for panel in panels():
        for target in panel['targets']:
            kept = re.findall(r'by \(([^)]*)\)', target['expr'])
            assert kept, f'not summed: {target["expr"]}'
            shown = set(re.findall(r'\{\{(\w+)\}\}', target['legendFormat']))
            for labels in kept:
                assert shown <= set(labels.split(', ')), (panel['title'], shown, labels)


def every_metric_is_exported():
    table = (stage.ROOT / 'tools/exporter/metrics.def').read_text(encoding='utf-8')
    suffix = {'INFO': '_info', 'COUNTER': '_total', 'GAUGE': ''}
    exported = {f'cudamem_{name}{suffix[kind]}' for kind, name in re.findall(
        r'^CM_METRIC\(\w+, (\w+), \w+, \w+, "(\w+)"', table, re.MULTILINE)}
    asked = set(re.findall(r'\bcudamem_\w+', ' '.join(expressions())))
    asked |= set(re.findall(r'\bcudamem_\w+', json.dumps(read()['templating'])))
    assert len(asked) > 12 and asked <= exported, asked - exported


def every_expression_is_parsed():
    python = stage.venv_python('promql_parser')
    script = 'import sys, promql_parser\nfor line in sys.stdin: promql_parser.parse(line)'
    run = subprocess.run([python, '-c', script], input='\n'.join(expressions()), text=True,
                         capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


if __name__ == '__main__':
    sys.exit(run_cases([it_is_what_its_source_makes, every_panel_says_what_it_shows,
                        no_panel_lies_on_another, legends_show_what_is_summed_by,
                        every_metric_is_exported, every_expression_is_parsed]))
