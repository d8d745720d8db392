#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the dashboard's panels as a picture: draw_dashboard.py TOOL PUPPET OUT

Debian's Prometheus asks the exporter over `cudamemstat demo` for SECONDS; its answers to the panels'
own queries are drawn, one panel after the other as they stand in the dashboard. It is a drawing of
the data, not what Grafana makes of it, and says so.
"""

import html
import json
import pathlib
import re
import subprocess
import sys
import time

import stage
import test_dashboard
import test_prometheus

SECONDS = 60
WIDTH, HEIGHT, LEFT, TOP = 600, 190, 70, 40
COLORS = ('#3274d9', '#e0752d', '#56a64b', '#a352cc', '#e02f44', '#8a8a8a', '#c4a000', '#1fa5a5')
STYLE = 'font-family="sans-serif" font-size="{}" fill="#24292f"'
UNITS = {'bytes': ('B', 'kB', 'MB', 'GB', 'TB'), 's': ('s',), 'short': ('', 'k', 'M'),
         'ops': ('/s', 'k/s', 'M/s')}


def number(value, unit):
    if unit == 'percentunit':
        return f'{100 * value:.0f} %'
    if unit == 's' and value < 1:
        return f'{1000 * value:.1f} ms'
    names = UNITS[unit]
    step = 0
    while value >= 1000 and step < len(names) - 1:
        value, step = value / 1000, step + 1
    return f'{value:.3g} {names[step]}'.strip()


def name_of(legend, labels):
    text = re.sub(r'\{\{(\w+)\}\}', lambda match: labels.get(match[1], ''), legend)
    return re.sub(r'GPU-[\w-]+(\w{4})', r'GPU ...\1', text).strip()


def ask(prometheus, expression, end):
    """{labels as JSON: [(time, value)]}"""
    text = prometheus.get('/api/v1/query_range', query=expression, start=end - SECONDS, end=end,
                          step='0.5')[1]
    for series in json.loads(text)['data']['result']:
        yield series['metric'], [(float(at), float(value)) for at, value in series['values']
                                 if value != 'NaN']


def write(x, y, text, size=11, **more):
    extra = ' '.join(f'{key}="{value}"' for key, value in more.items())
    return f'<text x="{x}" y="{y}" {STYLE.format(size)} {extra}>{html.escape(text)}</text>'


def draw_panel(panel, x, y, series, end):
    unit = panel['fieldConfig']['defaults']['unit']
    legend = panel['targets'][0]['legendFormat']
    if panel['type'] == 'table':
        rows = sorted(((points[-1][1], name_of(legend, labels)) for labels, points in series
                       if points), reverse=True)
        return [write(x, y + 14, panel['title'], 14),
                *(part for place, (value, name) in enumerate(rows[:7]) for part in (
                    write(x + 8, y + 38 + 20 * place, name),
                    write(x + 330, y + 38 + 20 * place, number(value, unit), **{
                        'text-anchor': 'end'})))]
    most = max([value for _, points in series for _, value in points] + [0]) or 1
    width, height = WIDTH - LEFT - 30, HEIGHT - 80
    parts = [write(x, y + 14, panel['title'], 14),
             f'<rect x="{x + LEFT}" y="{y + 24}" width="{width}" height="{height}" fill="#f6f8fa"/>',
             write(x + LEFT - 6, y + 34, number(most, unit), **{'text-anchor': 'end'}),
             write(x + LEFT - 6, y + 24 + height, number(0, unit), **{'text-anchor': 'end'})]
    place = 0
    for turn, (labels, points) in enumerate(series):
        path = ' '.join(f'{x + LEFT + width * (1 - (end - at) / SECONDS):.1f},'
                        f'{y + 24 + height * (1 - value / most):.1f}' for at, value in points)
        color = COLORS[turn % len(COLORS)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        name = name_of(legend, labels)
        if place + 6 * len(name) < width:
            parts.append(f'<rect x="{x + LEFT + place}" y="{y + height + 32}" width="9" height="9" '
                         f'fill="{color}"/>')
            parts.append(write(x + LEFT + place + 13, y + height + 41, name))
        place += 22 + 6 * len(name)
    return parts


def draw(prometheus):
    end = time.time()
    panels = test_dashboard.panels()
    parts = [write(20, 24, 'A drawing of the data of the panels of deploy/grafana/cudamem.json: not '
                           'a picture of Grafana', 13)]
    for turn, (panel, expression) in enumerate(zip(panels, test_dashboard.expressions())):
        series = list(ask(prometheus, expression.replace('[1m]', '[4s]'), end))
        assert series, f'no data: {expression}'
        parts += draw_panel(panel, 20 + WIDTH * (turn % 2), TOP + HEIGHT * (turn // 2), series, end)
    height = TOP + HEIGHT * ((len(panels) + 1) // 2)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + 20} {height}">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + '\n'.join(parts) + '\n</svg>\n')


def main(out):
    def run(kit):
        demo = subprocess.Popen([kit.tool, 'demo', '--dir', kit.folder], stdout=subprocess.DEVNULL)
        kit.stack.callback(demo.wait)
        kit.stack.callback(demo.terminate)
        prometheus = test_prometheus.Prometheus(kit, {'node1': kit.exporter().port})
        time.sleep(SECONDS + 5)
        picture = draw(prometheus).replace(str(kit.folder), '/dev/shm')
        out.write_text(picture, encoding='utf-8')
    return stage.main([run])


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[3]).resolve()))
