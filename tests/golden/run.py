#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what cudamemstat prints about made-up regions with what it printed when a person read it.

  run.py TOOL MAKE_REGION LIBRARY NVML MANUAL [--update]

Each case is a command line with its exit code; expected/NAME.txt holds command, output, complaints
and exit code as one transcript. --update writes the transcripts anew and shows what changed.
JSON is compared as data, and CSV and NDJSON must be read by Python's own modules.
"""

import contextlib
import csv
import difflib
import io
import json
import os
import pathlib
import pwd
import re
import shlex
import struct
import subprocess
import sys
import tempfile

import checks

EXPECTED = pathlib.Path(__file__).resolve().parent / 'expected'
# Beyond the largest pid that Linux gives out: processes that are surely not there.
PIDS = {'healthy': 5000001, 'torn': 5000002, 'future-minor': 5000003, 'hostile': 5000004,
        'empty': 5000005, 'exited': 5000006, 'other-major': 5000007, 'truncated': 5000008,
        'wild-table': 5000009, 'starting': 5000010}
# What took services away from them.
SERVED = {'served': 5000011, 'stopped': 5000012, 'old-driver': 5000013, 'wild-causes': 5000014}
LIVE = {'live': 'healthy', 'deaf': 'deaf', 'mute': 'mute'}
LIVE_PIDS = [name + '_pid' for name in LIVE]

# name, command line. {good}: folder with one region; {all}: one of each kind; {none}: empty folder;
# {KIND}: a region's file; {live}, {deaf}, {mute}: folders of processes that run.
CASES = [
    ('ls', 'ls --dir {good} -o +TOTAL'),
    ('ls-default', '--dir {good} -o +TOTAL'),
    ('ls-cards', 'ls --dir {live}'),
    ('ls-columns', 'ls --dir {good} -o pid,GPU,LARGEST,frag%,HIT%,UUID'),
    ('ls-more-columns', 'ls --dir {good} -o +HOST,MODEL -n -b'),
    ('ls-twice', 'ls --dir {good} -o GPU,PID,gpu --csv'),
    ('ls-old-names', 'ls --dir {good} -o PID,HELD,other,WAITING --sort held --where "OTHER > 100M"'),
    ('ls-old-keys', 'ls --dir {good} -o PID,FRAGMENTED,UNCACHED,PENDING --ndjson'),
    ('ls-column-help', 'ls --dir {all} -o help'),
    ('ls-column-unknown', 'ls --dir {good} -o PID,ALOC'),
    ('ls-sort', 'ls --dir {all} -o PID,STATE,GPU,ALLOC --sort alloc --reverse'),
    ('ls-csv', 'ls --dir {all} --csv'),
    ('ls-pairs', 'ls --dir {hostile_dir} --pairs'),
    ('ls-raw', 'ls --dir {hostile_dir} --raw'),
    ('ls-ndjson', 'ls --dir {good} --ndjson'),
    ('ls-json', 'ls --dir {good} --json'),
    ('ls-json-columns', 'ls --dir {good} --json -o PID'),
    ('ls-json-csv', 'ls --dir {good} --json --csv'),
    ('ls-all', 'ls --dir {all} -o PID,STATE,GPU,ALLOC,COMMAND'),
    ('ls-none', 'ls --dir {none}'),
    ('ls-no-folder', 'ls --dir {none}/nothing'),
    ('ls-region-pid', 'ls --region {healthy} -p 5000001'),
    ('ls-region-dir', 'ls --region {healthy} --dir {good}'),
    ('ls-none-json', 'ls --dir {none} --json'),
    ('ls-pattern', 'ls --dir {good} -p config -o PID,GPU'),
    ('ls-pattern-slash', 'ls --dir {good} -p ./train -o PID,GPU'),
    ('ls-pattern-suffix', 'ls --dir {good} -p .cudamem -o PID,GPU'),
    ('ls-pattern-none', 'ls --dir {good} -p solver'),
    ('ls-device-none', 'ls --dir {good} -d 7'),
    ('ls-device-none-json', 'ls --dir {good} -d 7 --json'),
    ('ls-device', 'ls --dir {good} -d 1 -o PID,GPU,ALLOC'),
    ('ls-device-uuid', 'ls --dir {good} -d GPU-00010203 -o PID,GPU,ALLOC'),
    ('ls-where', 'ls --dir {all} -o PID,GPU,ALLOC --where "(ALLOC > 1.5G || GPU == 7) && STATE != running"'),
    ('ls-where-text', 'ls --dir {all} -o PID,STATE --where "command =~ \\"config|nobody\\" && !(STATE == exited)"'),
    ('ls-where-costly', 'ls --dir {good} --raw -o PID,GPU --where "LARGEST >= 1M && FRAG% < 99.5"'),
    ('ls-where-none', 'ls --dir {good} --where "PEAK > 100T"'),
    ('ls-where-column', 'ls --dir {good} --where "ALOC > 0"'),
    ('ls-where-number', 'ls --dir {good} --where "PID == python"'),
    ('ls-where-regex', 'ls --dir {good} --where \'USER =~ "["\''),
    ('ls-where-short', 'ls --dir {good} --where "(PID > 4 && "'),
    ('ls-where-long', 'ls --dir {good} --where "PID > 4 OOM"'),
    ('ls-where-sign', 'ls --dir {good} --where "PID = 4"'),
    ('ls-where-quote', 'ls --dir {good} --where \'USER == "alice\''),
    ('ls-where-json', 'ls --dir {good} --json --where "PID > 4"'),
    ('ls-giving', 'ls --dir {good} --csv -o PID,GPU,DECAYED,GIVEN,GOT'),
    ('ls-reverse-alone', 'ls --dir {all} --reverse'),
    ('ls-top', 'ls --dir {all} -o PID,ALLOC --sort alloc --reverse --top 2'),
    ('ls-top-none', 'ls --dir {good} --top 0'),
    ('ls-watch-json', 'ls --dir {good} --watch --json'),
    ('ls-watch-short', 'ls --dir {good} --watch=0.01'),
    ('ls-unmanaged', 'LD_LIBRARY_PATH={nvml} NVML_PIDS="5000021:3072 {live_pid}:77 5000022" ls --all --dir {live} -o PID,STATE,GPU,ALLOC,UNCACHED,TOTAL'),
    ('ls-unmanaged-json', 'LD_LIBRARY_PATH={nvml} NVML_PIDS=5000021:3072 ls --all --dir {none} --json'),
    ('ls-unmanaged-where', 'LD_LIBRARY_PATH={nvml} NVML_PIDS=5000021:3072 ls --all --dir {none} -n -o PID,UNCACHED --where "UNCACHED > 3G"'),
    ('ls-color', 'ls --dir {good} -o PID,STATE,OOM --color always'),
    ('show', 'show --dir {good} 5000001'),
    ('show-map', 'show --dir {good} 5000001 -d 0 --map --ascii'),
    ('show-json', 'show --region {healthy} --json'),
    ('show-torn', 'show --region {torn} -d 0'),
    ('show-future-minor', 'show --region {future-minor} -d 0'),
    ('show-hostile', 'show --region {hostile} --map'),
    ('show-empty', 'show --region {empty}'),
    ('show-exited', 'show --region {exited} -d 1'),
    ('show-served', 'show --region {served}'),
    ('show-served-json', 'show --region {served} --json'),
    ('show-stopped', 'show --region {stopped} -d 1'),
    ('show-old-driver', 'show --region {old-driver} -d 1'),
    ('show-wild-causes', 'show --region {wild-causes} -d 1'),
    ('show-two', 'show --dir {good} 5000001 77 -d 1'),
    ('show-both', 'show --dir {all} 5000003 5000006 -d 1'),
    ('show-region-pid', 'show --region {healthy} 77 78 -d 1'),
    ('show-program', 'show /usr/bin/env'),
    ('show-empty-word', 'show --dir {good} ""'),
    ('memory-stats-device-none', 'memory-stats --dir {good} 5000001 -d 7'),
    ('memory-stats-device-none-json', 'memory-stats --dir {good} 5000001 -d 7 --json'),
    ('trim-empty-word', 'trim --dir {good} 5000001 ""'),
    ('show-nobody', 'show 4294967'),
    ('show-not-there', 'show --dir {good} 77'),
    ('show-other-major', 'show --region {other-major}'),
    ('show-truncated', 'show --region {truncated}'),
    ('show-wild-table', 'show --region {wild-table}'),
    ('show-starting', 'show --region {starting}'),
    ('show-link', 'show --region {link}'),
    ('show-pipe', 'show --region {pipe}'),
    ('show-folder', 'show --region {none}'),
    ('show-missing', 'show --region {none}/nothing'),
    ('show-no-argument', 'show'),
    ('memory-stats', 'memory-stats --dir {good} 5000001 -d 0'),
    ('memory-stats-json', 'memory-stats --dir {good} 5000001 --json'),
    ('memory-stats-host', 'memory-stats --dir {good} 5000001 --host'),
    ('memory-stats-host-device', 'memory-stats --dir {good} 5000001 --host -d 0'),
    ('stat-csv', 'stat --region {healthy} --csv'),
    ('stat-short', 'stat -p 5000001 0.05'),
    ('stat-no-number', 'stat 5x'),
    ('stat-count', 'stat 1 0'),
    ('stat-none', 'stat --dir {none}'),
    ('stat-where-none', 'stat --dir {good} -p 5000001 --where "ALLOC > 100T"'),
    ('stat-device-none', 'stat --dir {good} -p 5000001 -d 7'),
    ('stat-skip-all', 'stat --dir {good} -p 5000001 -y'),
    ('stat-skip-first-only', 'stat --dir {good} -p 5000001 -d 0 -y 0.1 2'),
    ('stat-skip-first-device', 'stat --dir {good} -p 5000001 -d 7 -y 0.1 2'),
    ('stat-region-interval', 'stat --region {healthy} 0.1 1 7'),
    ('stat-live', 'stat --dir {live} -y -o GPU,ALLOC,RESERVED,ALLOC/S,FREE/S,HIT%,OOMS 0.1 2'),
    ('stat-until', 'stat --dir {live} --until "GPU == 1" -o GPU,RESERVED 0.1'),
    ('stat-until-never', 'stat --dir {live} --until "OOMS ++ 1" 0.1'),
    ('stat-until-growth', 'stat --from {recording} -p 5000001 --until "OOMS > 0" -o PID,GPU,OOMS'),
    ('stat-where', 'stat --dir {live} --where "GPU == 1" -o GPU,RESERVED 0.1 1'),
    ('stat-record-text', 'stat --dir {good} --record {text} 0.1 1'),
    ('stat-record-again', 'stat --from {recording} --record {recording}'),
    ('stat-from', 'stat --from {recording} -p 5000001 -o PID,GPU,ALLOC,RESERVED,OOMS'),
    ('stat-from-count', 'stat --from {recording} -p 5000001 -y -o PID,GPU,ALLOC,OOMS 0.1 1'),
    ('stat-from-nobody', 'stat --from {recording} -p 4000000'),
    ('stat-from-text', 'stat --from {text}'),
    ('stat-from-cut', 'stat --from {cut_recording} -p 5000001 -o PID,GPU,ALLOC'),
    ('stat-from-damaged', 'stat --from {bad_recording}'),
    ('ls-from', 'ls --from {recording} --csv'),
    ('ls-from-at', 'ls --from {recording} --at +0 -p 5000001 --raw -o PID,GPU,ALLOC'),
    ('ls-from-time', 'ls --from {recording} --at noon'),
    ('ls-from-watch', 'ls --from {recording} --watch=0.1 --speed 100 -p 5000001 --raw -o PID,GPU,LARGEST'),
    ('ls-from-outside', 'ls --from {recording} --at "2020-01-01 00:00"'),
    ('stat-record-stdout', 'stat --dir {good} --record -'),
    ('ls-from-largest', 'ls --from {recording} -p 5000001 -o PID,GPU,LARGEST'),
    ('ls-from-json', 'ls --from {recording} --json'),
    ('ls-from-dir', 'ls --from {recording} --dir {good}'),
    ('ls-from-nobody', 'ls --from {recording} -p nobody'),
    ('ls-from-nowhere', 'ls --from {none}/no-such-file'),
    ('ls-at-alone', 'ls --at +5m'),
    ('export-uncached-csv', 'export --to csv --uncached 1'),
    ('top-from-delay', 'top -b --from {recording} -d 1'),
    ('top-from-speed', 'top -b --from {recording} --speed 0'),
    ('history-status', 'history status --dir {good} 5000001'),
    ('history-status-json', 'history status --dir {good} 5000001 --json'),
    ('history-status-hostile', 'history status --region {hostile}'),
    ('history-device', 'history start --region {live_file} -d 1'),
    ('history-device-unknown', 'history status --dir {good} 5000001 -d 9'),
    ('show-device-unknown', 'show --dir {good} 5000001 -d 9'),
    ('history-start', 'history start --region {live_file}'),
    ('history-start-options', 'history start --region {live_file} --enabled=all --context alloc '
                              '--stacks python --max-entries 10 --clear'),
    ('history-stop', 'history stop --region {live_file}'),
    ('history-clear', 'history clear --region {live_file}'),
    ('history-dead', 'history start --dir {good} 5000001'),
    ('history-mute', 'history stop --region {mute_file} --timeout 0.2'),
    ('history-action', 'history stort 5000001'),
    ('history-action-strange', 'history 5000001'),
    ('history-nobody', 'history start'),
    ('history-bad-context', 'history start 5000001 --context some'),
    ('history-stop-clear', 'history stop 5000001 --clear'),
    ('history-status-stacks', 'history status 5000001 --stacks all'),
    ('history-bad-entries', 'history start 5000001 --max-entries 0'),
    ('history-region-pid', 'history --region {healthy} status 5000001'),
    ('plot-region-pid', 'plot --region {healthy} timeline 5000001 -O x.html'),
    ('plot-no-kind', 'plot'),
    ('plot-recording-svg', 'plot --svg {recording} -O x.svg'),
    ('plot-nobody', 'plot timeline -O x.html'),
    ('diff-region', 'diff --region {healthy} {healthy}'),
    ('diff-one', 'diff {healthy}'),
    ('report-nobody', 'report'),
    ('snapshot-nobody', 'snapshot'),
    ('export-nobody', 'export --to csv'),
    ('check', 'check --dir {good} --fail-on oom,fragmented,leak --for 0.2'),
    ('check-live', 'check --dir {live} --fail-on oom --warning "STATE == running && ALLOC > 1G"'),
    ('check-where', 'check --dir {good} --critical "RESERVED > 1K || PID == 1" --where "GPU == 1 && STATE == crashed"'),
    ('check-both', 'check --region {healthy} --critical "ALLOC > 1G" --warning "ALLOC > 0"'),
    ('check-for', 'check --dir {good} --warning "FRAGMENTED% > 0 && STATE == crashed" --for 0.3'),
    ('check-ended', 'check --dir {good} --warning "FRAGMENTED% > 0"'),
    ('check-none', 'check --dir {none} --fail-on oom'),
    ('check-damaged', 'check --dir {all} --critical "PID == 1"'),
    ('check-pid-missing', 'check --dir {good} -p 77 --fail-on oom'),
    ('check-preset-unknown', 'check --fail-on om'),
    ('check-column-unknown', 'check --critical "ALOC > 1"'),
    ('check-column-help', 'check -o help'),
    ('check-nothing', 'check'),
    ('check-option', 'check --nothing'),
    ('conf', 'conf --dir {good} 5000001'),
    ('conf-region-pid', 'conf --region {healthy} 5000001'),
    ('conf-where-none', 'conf --dir {good} 5000001 --where "OPTION == x"'),
    ('conf-where-nobody', 'conf --dir {good} 77 --where "OPTION == x"'),
    ('conf-option-unknown', 'conf --dir {good} 5000001 decay_second:5'),
    ('conf-option-alone', 'conf --dir {good} stacks'),
    ('conf-option-beside', 'conf --dir {good} 5000001 memory_limit_mb'),
    ('conf-option-recorded', 'conf --dir {good} 5000001 stacks:all'),
    ('conf-option-none-such', 'conf --dir {good} 5000001 foo:5'),
    ('conf-json', 'conf --dir {good} 5000001 --json'),
    ('conf-mistakes', 'CUDAMEM_CONF=max_splt:512,reuse:now conf -o OPTION,VALUE,FROM'),
    ('trim-dead', 'trim --dir {good} 5000001'),
    ('trim-dead-json', 'trim --dir {good} 5000001 --json'),
    ('trim-live', 'trim --region {live_file} -d 0'),
    ('trim-live-busy', 'trim --region {live_file}'),
    ('trim-live-json', 'trim --region {live_file} -d 0 --json'),
    ('trim-deaf', 'trim --region {deaf_file}'),
    ('trim-mute', 'trim --region {mute_file} --timeout 0.2'),
    ('trim-no-device', 'trim --region {live_file} -d 7'),
    ('reset-live', 'reset --region {live_file} -d 0'),
    ('reset-both', 'reset --region {live_file} -d 1 --peak --accumulated'),
    ('reset-json', 'reset --region {live_file} -d 1 --peak --accumulated --json'),
    ('show-fresh', 'show --region {live_file} -d 1 --fresh'),
    ('show-fresh-dead', 'show --dir {good} 5000001 -d 1 --fresh'),
    ('show-fresh-mute', 'show --region {mute_file} -d 1 --fresh --timeout 0.2'),
    ('reset-dead', 'reset --dir {good} 5000001 --accumulated'),
    ('run-dry', 'CUDAMEM_CONF=events:0 run -c sync:free --limit 12.5% --dry-run -- ./a.out "b c"'),
    ('run-dry-leaks', 'run --leaks --dry-run ./a.out'),
    ('run-leaks-forgotten', 'run --leak-exit-code 3 -- true'),
    ('run-oom-nowhere', 'run --oom ./no/such/folder/oom.cudamem -- true'),
    ('run-suppressions-alone', 'run --suppressions x -- true'),
    ('run-limit', 'run --limit 2G --dry-run ./a.out'),
    ('run-limit-no-unit', 'run --limit 50 ./a.out'),
    ('run-limit-too-small', 'run --limit 512K ./a.out'),
    ('run-nvtx', 'run --nvtx --dry-run ./a.out'),
    ('run-nvtx-taken', 'NVTX_INJECTION64_PATH=/opt/tool.so run --nvtx --dry-run ./a.out'),
    ('run-strict-variable', 'CUDAMEM_COMF=sync:free run -c strict:on true'),
    ('run-strict', 'run -c strict:on,reuse:now true'),
    ('run-musl', 'run --dry-run {musl} x'),
    ('run-static', 'run --dry-run {static} x'),
    ('run-wrapper', 'run --dry-run env -i true'),
    ('run-missing', 'run -- ./no/such/program'),
    ('run-not-executable', 'run {healthy}'),
    ('run-status', 'run -- sh -c "exit 42"'),
    ('run-library', 'run --library ./no/such/library.so true'),
    ('run-options-end', 'run sh -c "exit 7" --json'),
    ('help', '--help'),
    ('help-ls', 'ls --help'),
    ('version', '--version'),
    ('version-of-verb', 'show -V'),
    ('no-verb', '5000001'),
    ('verb-forgotten', '{static} x'),
    ('verb-of-file', '{healthy}'),
    ('verb-unknown', 'stats'),
    ('verb-strange', 'frobnicate'),
    ('option-unknown', 'ls --jsn'),
    ('option-letter', 'ls -Z'),
    ('option-no-value', 'ls --dir'),
    ('option-end-for-value', 'run --oom -- true'),
    ('plot-unknown', 'plot timelin {healthy} -O x.html'),
    ('option-bad-value', 'trim 1 --timeout never'),
    ('watch-apart', 'ls -w 0.5'),
    ('argument-unexpected', 'ls 5000001'),
    ('exporter', 'exporter --once --dir {live}'),
    ('exporter-openmetrics', 'exporter --once --dir {live} --format openmetrics --group-by comm'),
    ('exporter-dead', 'exporter --once --dir {all} --max-series 1'),
    ('exporter-public', 'exporter --listen 0.0.0.0:9475'),
    ('exporter-both', 'exporter --listen :9475 --once'),
    ('exporter-group', 'exporter --once --group-by pod'),
    ('completion-shell', 'completion tcsh'),
]
# Which columns have room in 80 depends on the pid and on the user's name, so -o names one in 'ls';
# of 'ls-cards' the transcript has the cards alone, which -o leaves out.
CARDS = {'ls-cards'}
COLLAPSED = {'ls', 'ls-cards', 'ls-unmanaged', 'ls-default', 'ls-more-columns', 'show', 'show-map'}  # widths follow the user's name


def make(make_region, kind, folder, pid):
    run = subprocess.run([make_region, kind, folder, str(pid)], stdout=subprocess.PIPE, text=True,
                         check=True)
    return run.stdout.strip()


def make_program(path, loader):
    """A program of this machine, for which the kernel would run that loader; '': a static one."""
    machine = pathlib.Path(sys.executable).read_bytes()[:20]
    header = machine + struct.pack('<IQQQIHHHHHH', 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    part = struct.pack('<IIQQQQQQ', 3 if loader else 4, 4, 120, 0, 0, len(loader) + 1, 0, 1)
    path.write_bytes(header + part + loader.encode() + b'\0')
    path.chmod(0o755)
    return str(path)


def make_all(make_region, root):
    places = {}
    for name in ('good', 'all', 'none', 'served_dir', 'hostile_dir', 'live', 'deaf', 'mute'):
        places[name] = str(root / name)
        os.mkdir(places[name])
    for kind, pid in PIDS.items():
        places[kind] = make(make_region, kind, places['all'], pid)
    places['healthy'] = make(make_region, 'healthy', places['good'], PIDS['healthy'])
    make(make_region, 'hostile', places['hostile_dir'], PIDS['hostile'])
    for kind, pid in SERVED.items():
        places[kind] = make(make_region, kind, places['served_dir'], pid)
    places['link'] = str(root / 'link')
    os.symlink(places['healthy'], places['link'])
    places['pipe'] = str(root / 'pipe')
    os.mkfifo(places['pipe'])
    places['musl'] = make_program(root / 'musl', '/lib/ld-musl-x86_64.so.1')
    places['static'] = make_program(root / 'static', '')
    return places


def make_recordings(tool, places, root):
    """Of the regions in {all}: whole, without the last sample's end, and with a changed byte."""
    places['recording'], places['text'] = str(root / 'day.rec'), str(root / 'notes.txt')
    pathlib.Path(places['text']).write_text('notes\n', encoding='utf-8')
    # The samples lie further apart than a busy machine may delay the first one.
    subprocess.run([tool, 'stat', '--dir', places['all'], '--record', places['recording'], '0.8',
                    '2'], stdout=subprocess.DEVNULL, check=True)
    data = pathlib.Path(places['recording']).read_bytes()
    for name, content in (('cut_recording', data[:-3]),
                          ('bad_recording', data[:160] + bytes([data[160] ^ 1]) + data[161:])):
        places[name] = str(root / f'{name}.rec')
        pathlib.Path(places[name]).write_bytes(content)


def user_name():
    """As cudamemstat has it: the number where there is no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def mask_user(text, name):
    """The name where it is a value, behind the pid that a line begins with: it may be any word."""
    return re.sub(rf'^((?: *|pid |pid=")(?:\d{{7,}}|PID)"?(?:,| +)(?:user=")?){re.escape(name)}'
                  r'(?=[", \n])', r'\1USER', text, flags=re.MULTILINE)


def mask_page(text):
    """The same for the exporter's metrics: times, what the machine has, and who the user is."""
    text = re.sub(r'^(cudamem_(?:\w+_created|uptime_seconds|exporter_scrape_seconds|region_bytes|'
                  r'region_dir_free_bytes)(?:\{.*\})?) \S+$', r'\1 VALUE', text,
                  flags=re.MULTILINE)
    return re.sub(r'(?<=,)user="[^"]*",uid="\d+"', 'user="USER",uid="UID"',
                  re.sub(r'(container_id|pod_uid|slurm_job_id)="[^"]+"', r'\1="ID"', text))


def tidy(text, places, library):
    """Takes out what differs from machine to machine and from time to time."""
    for word, path in sorted(places.items(), key=lambda item: -len(item[1])):
        if path.startswith('/'):
            text = text.replace(path, word.upper())
    text = text.replace(str(library), 'LIBRARY')
    # Before the pids: one of them may be a year, or anybody's number.
    text = re.sub(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', 'TIME', text)
    text = re.sub(r'up \d\d:\d\d:\d\d', 'up TIME', text)
    text = re.sub(r'(cut short: \d+) of \d+ bytes', r'\1 of WHOLE bytes', text)
    text = re.sub(rf'cudamem\.{os.getuid()}\.', 'cudamem.UID.', text)
    text = mask_page(text)
    for pid in (places[name] for name in LIVE_PIDS):
        text = re.sub(rf'\b{pid}\b', 'PID', text)
    return mask_user(text, user_name())


def tidy_data(data):
    """The same for JSON: objects of any depth."""
    if isinstance(data, list):
        return [tidy_data(item) for item in data]
    if not isinstance(data, dict):
        return data
    unstable = {'time': 'TIME', 'host': 'HOST', 'uid': 'UID', 'user': 'USER'}
    return {key: unstable[key] if key in unstable else tidy_data(value)
            for key, value in data.items()}


def read_machine_form(words, text):
    """Output for programs must be what it says it is."""
    if '--json' in words and text.startswith('{'):
        return json.dumps(tidy_data(json.loads(text)), indent=1) + '\n'
    if '--ndjson' in words:
        return ''.join(json.dumps(tidy_data(json.loads(line))) + '\n'
                       for line in text.splitlines())
    if '--csv' in words and text:
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1, f'rows of different lengths: {rows}'
    return text


def transcribe(tool, name, command, places, library):
    words = shlex.split(command)
    environment = {'PATH': os.environ['PATH'], 'LC_ALL': 'C.UTF-8', 'TZ': 'UTC',
                   # A sanitized library comes second into a program that is not.
                   'ASAN_OPTIONS': 'verify_asan_link_order=0'}
    while '=' in words[0] and not words[0].startswith('-'):
        variable, _, value = words.pop(0).partition('=')
        environment[variable] = value.format(**places)
    arguments = [word.format(**places) for word in words]
    if words[0] in ('trim', 'reset', 'history') and '{live_file}' in words:
        arguments += checks.PATIENT
    run = subprocess.run([tool, *arguments], env=environment, capture_output=True, timeout=300,
                         check=False)
    # The transcripts are of a build that has everything.
    out = re.sub('^built without .*\n', '', run.stdout.decode(), flags=re.MULTILINE)
    out = read_machine_form(words, out)
    if name in CARDS:
        out = out.split('\n\n')[1]
    text = f'$ {command}\n{tidy(out, places, library)}'
    if run.stderr:
        text += f'--- complaints\n{tidy(run.stderr.decode(), places, library)}'
    if name in COLLAPSED:
        text = re.sub(r'^ *(PID|USER)\b', r'\1', re.sub(r' +', ' ', text), flags=re.MULTILINE)
    return f'{text}--- exit {run.returncode}\n'


def is_figure(pid):
    """Whether a transcript has this number, which would be masked as the pid."""
    return any(re.search(rf'\b{pid}\b', path.read_text(encoding='utf-8'))
               for path in EXPECTED.glob('*.txt'))


def start_live(stack, make_region, kind, folder):
    while True:
        # It makes its region when there is something to read.
        process = stack.enter_context(subprocess.Popen(
            ['sh', '-c', 'read go && exec "$@"', 'sh', make_region, kind, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        stack.callback(process.stdin.close)
        if not is_figure(process.pid):
            process.stdin.write('go\n')
            process.stdin.flush()
            return process


@contextlib.contextmanager
def live_processes(make_region, places):
    """Processes that have a region and run until the tests are done."""
    with contextlib.ExitStack() as stack:
        for name, kind in LIVE.items():
            process = start_live(stack, make_region, kind, places[name])
            places[name + '_file'] = process.stdout.readline().strip()
            places[name + '_pid'] = str(process.pid)
        yield


def check_masking():
    """The transcripts are the same for users of any name, and processes of any number."""
    listings = ('PID USER STATE\n5000001 {} crashed\n', 'pid 5000001  {}  ./root --live user pid\n',
                'pid,user,state\nPID,{},running\n', 'pid="5000001" user="{}" state="crashed"\n',
                '* PID        pid                      process id\n',
                '$ show --region {{live_file}}\nroot: process 5000001 has no user\n')
    for name in ('user', 'root', 'live', 'pid', 'some-one', 'a.b', '1000'):
        for listing in listings:
            masked = mask_user(listing.format(name), name)
            assert masked == listing.format('USER'), (name, masked)
    for pid in ('2031', '17', '456', '70000', str(os.getuid())):
        text = tidy(f'2031-07-17T17:17:17.456Z,{pid},\nup 17:17:17 x\ncut short: 5 of 70000 bytes\n'
                    f'cudamem.{os.getuid()}.5000001.4242\n', dict.fromkeys(LIVE_PIDS, pid), 'none')
        assert text == ('TIME,PID,\nup TIME x\ncut short: 5 of WHOLE bytes\n'
                        'cudamem.UID.5000001.4242\n'), (pid, text)


def compare(name, text, update):
    path = EXPECTED / f'{name}.txt'
    expected = path.read_text(encoding='utf-8') if path.exists() else ''
    if text == expected:
        return True
    sys.stdout.writelines(difflib.unified_diff(
        expected.splitlines(True), text.splitlines(True), f'expected/{name}.txt', 'now'))
    if update:
        EXPECTED.mkdir(exist_ok=True)
        path.write_text(text, encoding='utf-8')
    return update


def main():
    tool, make_region, library, nvml, manual = sys.argv[1:6]
    update = '--update' in sys.argv[6:]
    failures = []
    with tempfile.TemporaryDirectory(prefix='cudamem-golden-') as root:
        places = make_all(make_region, pathlib.Path(root))
        make_recordings(tool, places, pathlib.Path(root))
        places['nvml'] = str(pathlib.Path(nvml).resolve().parent)
        with live_processes(make_region, places):
            for name, command in CASES:
                text = transcribe(tool, name, command, places, pathlib.Path(library).resolve())
                if not compare(name, text, update):
                    failures.append(name)
            checks.check_recording(tool, places)
        check_masking()
        checks.check_streams(tool, places)
        checks.check_death(tool, make_region, places)
        checks.check_stat_ends(tool, make_region, places)
        checks.check_cut(tool, make_region, places)
        checks.check_watch(tool, places)
        checks.check_no_color(tool, places)
        checks.check_narrow_terminal(tool)
        checks.check_manual(tool, manual)
    stale = {path.stem for path in EXPECTED.glob('*.txt')} - {name for name, _ in CASES}
    if stale:
        failures.append(f'no case for {sorted(stale)}')
    print(f'{len(CASES) - len(failures)} of {len(CASES)} transcripts as expected', *failures)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
