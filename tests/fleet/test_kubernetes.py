#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manifests pass the schemas of Kubernetes, and ask for no right that is not needed; the exporter
reads with exactly these rights: test_kubernetes.py TOOL PUPPET"""

import json
import os
import re
import shutil
import subprocess
import sys

import stage

FOLDER = stage.ROOT / 'deploy' / 'kubernetes'
# Of Kubernetes itself, whose schemas the package has; the others belong to operators.
OWN = ('namespace.yaml', 'daemonset.yaml', 'example-pod.yaml')
NOBODY = 65534


def load(name):
    python = stage.venv_python('yaml')
    script = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))'
    run = subprocess.run([python, '-c', script], input=(FOLDER / name).read_text(encoding='utf-8'),
                         capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def validate(text):
    python = stage.venv_python('kubernetes_validate')
    script = ('import sys, yaml, kubernetes_validate as k\n'
              'k.validate(yaml.safe_load(sys.stdin), k.latest_version(), strict=True)')
    return subprocess.run([python, '-c', script], input=text, capture_output=True, text=True,
                          check=False)


def the_schemas_accept_the_manifests(_kit):
    for name in OWN:
        run = validate((FOLDER / name).read_text(encoding='utf-8'))
        assert run.returncode == 0, (name, run.stderr[-600:])
    text = (FOLDER / 'daemonset.yaml').read_text(encoding='utf-8')
    assert validate(text.replace('hostPID:', 'hostPid:')).returncode != 0  # it does look


def the_exporter_has_two_rights(_kit):
    pod = load('daemonset.yaml')['spec']['template']['spec']
    container, = pod['containers']
    context = container['securityContext']
    assert context['capabilities'] == {'drop': ['ALL'], 'add': ['SYS_PTRACE', 'DAC_READ_SEARCH']}
    assert context['readOnlyRootFilesystem'] and not context['allowPrivilegeEscalation']
    assert pod['hostPID'] and not pod['automountServiceAccountToken']
    assert not {'hostNetwork', 'hostIPC', 'volumes'} & set(pod)


def the_files_name_each_other(_kit):
    for name in load('kustomization.yaml')['resources']:
        assert (FOLDER / name).is_file(), name
    daemonset, monitor = load('daemonset.yaml'), load('podmonitor.yaml')
    labels = daemonset['spec']['template']['metadata']['labels']
    assert monitor['spec']['selector']['matchLabels'] == labels
    ports = daemonset['spec']['template']['spec']['containers'][0]['ports']
    assert monitor['spec']['podMetricsEndpoints'][0]['port'] == ports[0]['name']
    example, policy = load('example-pod.yaml'), load('kyverno.yaml')
    injected = policy['spec']['rules'][0]['mutate']['patchStrategicMerge']['spec']
    assert injected['initContainers'] == example['spec']['initContainers']
    cdi = json.loads((FOLDER / 'cudamem.cdi.json').read_text(encoding='utf-8'))
    assert cdi['cdiVersion'] == '0.5.0'  # podman 4.3 resolves nothing newer
    assert re.fullmatch(r'[a-z.]+/[a-z]+', cdi['kind'])


def the_exporter_takes_the_words_of_the_manifest(kit):
    container = load('daemonset.yaml')['spec']['template']['spec']['containers'][0]
    words = [word.replace(':9475', ':0') for word in container['args'][1:]]
    at = words.index('--listen')
    listen = words[at + 1]
    exporter = kit.exporter(*words[:at], *words[at + 2:], listen=listen)
    assert exporter.ask(container['readinessProbe']['httpGet']['path'])[0].status == 200


def read_as(user, tool, capabilities):
    """A page, read by a user with these capabilities and no others, as a container has them."""
    command = ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups', '--no-new-privs']
    for kind in ('bounding-set', 'inh-caps', 'ambient-caps'):
        command += [f'--{kind}', f'-all{capabilities}']
    run = subprocess.run([*command, tool, 'exporter', '--once'], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run
    return run.stdout


def these_rights_read_other_mount_namespaces(kit):
    if os.getuid() or not shutil.which('setpriv') or not shutil.which('unshare'):
        raise stage.Skip('only root can give away rights')
    # A container as far as the exporter can tell: a /dev/shm of its own.
    process = subprocess.Popen(
        ['unshare', '-m', 'sh', '-c', 'mount -t tmpfs shm /dev/shm && exec "$@"', 'sh',
         kit.puppet_program, '/dev/shm'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE)
    line = process.stdout.readline()

    def end():
        process.stdin.close()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    kit.stack.callback(end)
    if not line:
        raise stage.Skip('no mount namespace can be made here')
    pid = int(line)
    # Where nobody may read a path to the tool, it is not the rights that lack.
    tool = kit.folder / 'cudamemstat'
    shutil.copy(kit.tool, tool)
    for folder in (kit.root, kit.folder):
        folder.chmod(0o755)
    for user in (0, NOBODY):
        page = stage.Page(read_as(user, tool, ',+sys_ptrace,+dac_read_search'))
        assert str(pid) in page.labels('blocks', 'pid'), page.text
        assert f'pid="{pid}"' not in read_as(user, tool, '')


if __name__ == '__main__':
    sys.exit(stage.main([
        the_schemas_accept_the_manifests,
        the_exporter_has_two_rights,
        the_files_name_each_other,
        the_exporter_takes_the_words_of_the_manifest,
        these_rights_read_other_mount_namespaces,
    ]))
