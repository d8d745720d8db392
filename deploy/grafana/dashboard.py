#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes cudamem.json, a dashboard for Grafana 9 and later: dashboard.py [--check]

The table below is the source; the JSON is committed, and --check fails where it is another.
"""

import json
import pathlib
import sys

OUT = pathlib.Path(__file__).with_name('cudamem.json')
GPU = 'instance=~"$instance",gpu_uuid=~"$gpu_uuid"'
NODE = 'instance=~"$instance"'
RATE = '[$__rate_interval]'
WHO = 'instance, gpu_uuid, pid, container_id, slurm_job_id, user, comm'
NAME = '{{pid}}{{container_id}}{{slurm_job_id}}{{user}}{{comm}} on {{instance}}'

# Row: (title, kind, unit, legend, expression, description). Every expression sums by the labels that
# its legend shows: a target that moves would else be drawn twice for a while.
ROWS = {
    'Fleet': [
        ('Memory that lies idle', 'timeseries', 'bytes', '{{instance}}',
         f'topk(10, sum by (instance) (cudamem_reserved_bytes{{{GPU}}} - cudamem_allocated_bytes{{{GPU}}}))',
         'Reserved from the driver and not allocated: the ten nodes with most of it.'),
        ('Processes', 'timeseries', 'short', '{{state}}',
         f'sum by (state) (cudamem_regions{{{NODE}}})',
         'Processes under libcudamem. A crashed one leaves its region for a day.'),
        ('Out of memory', 'timeseries', 'short', '{{instance}}',
         f'sum by (instance) (increase(cudamem_ooms_total{{{GPU}}}{RATE}))',
         'Requests that failed for lack of memory.'),
        ('Who wastes most', 'table', 'bytes', NAME,
         f'topk(10, sum by ({WHO}) (cudamem_reserved_bytes{{{GPU}}} - cudamem_allocated_bytes{{{GPU}}}))',
         'Processes or groups with most idle memory now.'),
    ],
    'GPU': [
        ('Allocated', 'timeseries', 'bytes', '{{instance}} {{gpu_uuid}}',
         f'sum by (instance, gpu_uuid) (cudamem_allocated_bytes{{{GPU}}})',
         'Bytes in blocks that programs hold.'),
        ('Reserved', 'timeseries', 'bytes', '{{instance}} {{gpu_uuid}}',
         f'sum by (instance, gpu_uuid) (cudamem_reserved_bytes{{{GPU}}})',
         'Bytes got from the driver.'),
        ('Stuck between live blocks', 'timeseries', 'bytes', '{{instance}} {{gpu_uuid}}',
         f'sum by (instance, gpu_uuid) (cudamem_fragmented_bytes{{{GPU}}})',
         'Free bytes that a trim cannot return.'),
        ('Free', 'timeseries', 'bytes', '{{instance}} {{gpu_uuid}}',
         f'max by (instance, gpu_uuid) (cudamem_device_free_bytes{{{GPU}}})',
         'What the driver had when a process last asked.'),
    ],
    'Process or group': [
        ('Allocated by each', 'timeseries', 'bytes', NAME,
         f'sum by ({WHO}) (cudamem_allocated_bytes{{{GPU}}})', 'Bytes in blocks that it holds.'),
        ('Reserved by each', 'timeseries', 'bytes', NAME,
         f'sum by ({WHO}) (cudamem_reserved_bytes{{{GPU}}})', 'Bytes that it got from the driver.'),
        ('Requests', 'timeseries', 'ops', NAME,
         f'sum by ({WHO}) (rate(cudamem_allocations_total{{{GPU}}}{RATE}))', 'Requests served.'),
        ('Driver calls', 'timeseries', 'ops', NAME,
         f'sum by ({WHO}) (rate(cudamem_driver_allocations_total{{{GPU}}}{RATE}) '
         f'+ rate(cudamem_driver_frees_total{{{GPU}}}{RATE}))',
         'Driver allocations and frees: what the cache is there to avoid.'),
        ('Cache hits', 'timeseries', 'percentunit', NAME,
         f'sum by ({WHO}) (rate(cudamem_cache_hits_total{{{GPU}}}{RATE})) / '
         f'(sum by ({WHO}) (rate(cudamem_cache_hits_total{{{GPU}}}{RATE})) + '
         f'sum by ({WHO}) (rate(cudamem_cache_misses_total{{{GPU}}}{RATE})))',
         'Share of the requests that needed no driver allocation.'),
        ('Waiting for the device', 'timeseries', 'percentunit', NAME,
         f'sum by ({WHO}) (rate(cudamem_device_wait_seconds_total{{{GPU}}}{RATE}))',
         'Share of the time that the host waited for the device to reuse memory.'),
    ],
    'Trouble': [
        ('Out of memory by each', 'timeseries', 'short', NAME,
         f'sum by ({WHO}) (increase(cudamem_ooms_total{{{GPU}}}{RATE}))',
         'Requests that failed for lack of memory.'),
        ('Regions that cannot be read', 'timeseries', 'short', '{{instance}} {{reason}}',
         f'sum by (instance, reason) (cudamem_regions_unreadable{{{NODE}}})',
         'Rights, versions and damage that make the exporter blind.'),
        ('Space for regions', 'timeseries', 'bytes', '{{instance}} {{dir}}',
         f'min by (instance, dir) (cudamem_region_dir_free_bytes{{{NODE}}})',
         'A region takes 3 MiB and more; without space a crash leaves no record.'),
        ('Cost of a scrape', 'timeseries', 's', '{{instance}}',
         f'max by (instance) (cudamem_exporter_scrape_seconds{{{NODE}}})',
         'Time that the exporter took to read all regions.'),
    ],
}

SOURCE = {'type': 'prometheus', 'uid': '${datasource}'}


def panel(number, place, row):
    title, kind, unit, legend, expression, description = row
    return {
        'id': number, 'title': title, 'type': kind, 'description': description,
        'datasource': SOURCE,
        'gridPos': {'x': 12 * (place % 2), 'y': 8 * (place // 2), 'w': 12, 'h': 8},
        'fieldConfig': {'defaults': {'unit': unit}, 'overrides': []},
        'targets': [{'refId': 'A', 'expr': expression, 'legendFormat': legend,
                     'datasource': SOURCE, 'instant': kind == 'table',
                     'format': 'table' if kind == 'table' else 'time_series'}],
    }


def panels():
    found, top = [], 0
    for title, rows in ROWS.items():
        found.append({'id': len(found) + 1, 'type': 'row', 'title': title, 'collapsed': False,
                      'gridPos': {'x': 0, 'y': top, 'w': 24, 'h': 1}, 'panels': []})
        for place, row in enumerate(rows):
            made = panel(len(found) + 1, place, row)
            made['gridPos']['y'] += top + 1
            found.append(made)
        top += 1 + 8 * ((len(rows) + 1) // 2)
    return found


def choice(name, metric):
    query = f'label_values({metric}, {name})'
    return {'name': name, 'type': 'query', 'datasource': SOURCE, 'query': query,
            'definition': query, 'multi': True, 'includeAll': True, 'allValue': '.*', 'refresh': 2,
            'current': {'text': 'All', 'value': '$__all'}}


def dashboard():
    return {
        'uid': 'cudamem', 'title': 'cudamem', 'tags': ['gpu', 'memory'], 'schemaVersion': 37,
        'editable': True, 'refresh': '30s', 'time': {'from': 'now-6h', 'to': 'now'},
        'templating': {'list': [
            {'name': 'datasource', 'type': 'datasource', 'query': 'prometheus'},
            choice('instance', 'cudamem_build_info'),
            choice('gpu_uuid', 'cudamem_device_info')]},
        'panels': panels(),
    }


def main():
    text = json.dumps(dashboard(), indent=1) + '\n'
    if '--check' not in sys.argv[1:]:
        OUT.write_text(text, encoding='utf-8')
    elif OUT.read_text(encoding='utf-8') != text:
        print(f'{OUT.name} is not what {pathlib.Path(__file__).name} makes')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
