#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recipes of docs/fleet.md, run as they stand there: TLS and a password by Debian's nginx in
front of the exporter, profiles sent to a server that plays Pyroscope, and the module for Lmod:
test_recipes.py TOOL PUPPET
"""

import base64
import gzip
import http.client
import http.server
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse
import warnings

import stage

RECIPE = stage.ROOT / 'deploy' / 'proxy' / 'nginx.conf'
DOCS = (stage.ROOT / 'docs' / 'fleet.md').read_text(encoding='utf-8')
PASSWORD = 'a long word'
# What a machine's own nginx.conf says, as far as it matters; all in one folder, and of one user.
FRAME = '''
daemon off;
master_process off;
pid {0}/pid;
error_log {0}/errors;
events {{}}
http {{
	access_log off;
	client_body_temp_path {0}/body;
	proxy_temp_path {0}/proxy;
	fastcgi_temp_path {0}/fastcgi;
	uwsgi_temp_path {0}/uwsgi;
	scgi_temp_path {0}/scgi;
	include {0}/cudamem.conf;
}}
'''


def openssl(*words):
    if not shutil.which('openssl'):
        raise stage.Skip('openssl is not there')
    return subprocess.run(['openssl', *map(str, words)], capture_output=True, text=True,
                          check=True).stdout.strip()


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


def write_settings(folder, exporter, port):
    """The recipe with the paths and ports of this test, each of which must be in it."""
    openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
            '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost',
            '-keyout', folder / 'key', '-out', folder / 'certificate')
    (folder / 'users').write_text(f"prometheus:{openssl('passwd', '-apr1', PASSWORD)}\n",
                                  encoding='ascii')
    text = RECIPE.read_text(encoding='utf-8')
    for old, new in (('listen 9476', f'listen 127.0.0.1:{port}'),
                     ('/etc/ssl/certs/cudamem.pem', folder / 'certificate'),
                     ('/etc/ssl/private/cudamem.key', folder / 'key'),
                     ('auth_basic_user_file /etc/nginx/cudamem.users',
                      f'auth_basic_user_file {folder}/users'),
                     ('127.0.0.1:9475', exporter.address.removeprefix('http://').partition('/')[0])):
        assert old in text, old
        text = text.replace(old, str(new))
    (folder / 'cudamem.conf').write_text(text, encoding='utf-8')
    (folder / 'nginx.conf').write_text(FRAME.format(folder), encoding='utf-8')


def start_nginx(kit, port):
    command = [stage.unpacked('nginx'), '-p', kit.folder, '-c', kit.folder / 'nginx.conf',
               '-e', kit.folder / 'errors']
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    kit.stack.callback(process.wait)
    kit.stack.callback(process.terminate)

    def answers():
        with socket.socket() as client:
            return client.connect_ex(('127.0.0.1', port)) == 0
    if not stage.wait_for(lambda: process.poll() is not None or answers(), 20) or process.poll():
        errors = kit.folder / 'errors'
        raise AssertionError(errors.read_text(encoding='utf-8') if errors.exists() else 'no nginx')


def ask(port, context, path='/metrics', method='GET', password=None):
    """Status and text that a client gets that trusts this certificate alone."""
    headers = {}
    if password is not None:
        word = base64.b64encode(f'prometheus:{password}'.encode()).decode()
        headers['Authorization'] = f'Basic {word}'
    connection = http.client.HTTPSConnection('localhost', port, context=context, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def nginx_asks_for_tls_and_a_password(kit):
    stage.unpacked('nginx')
    puppet = kit.puppet()
    exporter, port = kit.exporter(), free_port()
    write_settings(kit.folder, exporter, port)
    start_nginx(kit, port)
    context = ssl.create_default_context(cafile=kit.folder / 'certificate')
    status, text = ask(port, context, password=PASSWORD)
    assert status == 200, (status, text)
    assert str(puppet.pid) in stage.Page(text).labels('blocks', 'pid'), text
    assert ask(port, context)[0] == 401
    assert ask(port, context, password='another')[0] == 401
    assert ask(port, context, method='POST', password=PASSWORD)[0] == 403
    assert ask(port, context, path='/other', password=PASSWORD)[0] == 404
    try:
        ask(port, ssl.create_default_context(), password=PASSWORD)
        raise AssertionError('a certificate that nobody signed was believed')
    except ssl.SSLCertVerificationError:
        pass
    old = ssl.create_default_context(cafile=kit.folder / 'certificate')
    old.set_ciphers('ALL:@SECLEVEL=0')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        ask(port, old, password=PASSWORD)
        raise AssertionError('TLS 1.1 was spoken')
    except ssl.SSLError:
        pass
    plain = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    plain.request('GET', '/metrics')
    answer = plain.getresponse()
    assert answer.status == 400 and not re.search('cudamem_', answer.read().decode())
    plain.close()


def prometheus_takes_its_side_of_it(kit):
    example, = re.findall(r'^```yaml tls\n(.*?)^```', DOCS, re.MULTILINE | re.DOTALL)
    (kit.folder / 'prometheus.yml').write_text(example, encoding='utf-8')
    run = subprocess.run([stage.unpacked('promtool'), 'check', 'config', '--syntax-only',
                          kit.folder / 'prometheus.yml'], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run


def a_profile_reaches_pyroscope(kit):
    if not shutil.which('curl'):
        raise stage.Skip('curl is not there')
    got = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # pylint: disable=invalid-name
            got.append((self.path, self.rfile.read(int(self.headers['Content-Length']))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass
    server = http.server.HTTPServer(('127.0.0.1', 0), Server)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    puppet = kit.puppet()
    recipe, = re.findall(r'^```sh pyroscope\n(.*?)^```', DOCS, re.MULTILINE | re.DOTALL)
    folder = os.path.dirname(kit.tool)
    recipe = recipe.replace('export PID', f'export --region {puppet.region}')
    run = subprocess.run(['sh', '-euc', recipe], capture_output=True, text=True, check=False,
                         env={**os.environ, 'PATH': f"{folder}:{os.environ['PATH']}",
                              'PYROSCOPE': f'http://127.0.0.1:{server.server_port}'})
    if run.returncode:
        server.server_close()
    assert run.returncode == 0, run
    thread.join()
    server.server_close()
    (path, body), = got
    asked = urllib.parse.urlsplit(path)
    words = dict(urllib.parse.parse_qsl(asked.query))
    assert asked.path == '/ingest' and words['format'] == 'pprof', path
    assert words['name'] == 'train{gpu=0}' and int(words['from']) < int(words['until']), path
    assert b'inuse_space' in gzip.decompress(body)


def the_module_preloads_nothing(kit):
    lmod = pathlib.Path('/usr/share/lmod/lmod/libexec/lmod')
    if not lmod.exists():
        raise stage.Skip('lmod is not installed')
    (kit.folder / 'cudamem').mkdir()
    shutil.copy(stage.ROOT / 'deploy/slurm/cudamem.lua', kit.folder / 'cudamem/0.1.0.lua')
    run = subprocess.run([lmod, 'bash', 'load', 'cudamem'], capture_output=True, text=True,
                         check=False, env={'PATH': '/usr/bin:/bin', 'HOME': str(kit.folder),
                                           'MODULEPATH': str(kit.folder)})
    words = dict(re.findall(r'^(\w+)="?(.*?)"?;$', run.stdout, re.MULTILINE))
    assert words['PATH'] == '/opt/cudamem/bin:/usr/bin:/bin', run
    # The empty part behind it stands for the system's.
    assert re.fullmatch('/opt/cudamem/share/man:+', words['MANPATH']), run
    assert words['LIBCUDAMEM'].endswith('/libcudamem.so') and 'LD_PRELOAD' not in words, run
    # Of variables that begin so the library knows one, and calls all others mistakes.
    assert not [name for name in words if name.startswith('CUDAMEM_')], run


def a_task_is_told_whether_it_has_the_library(kit):
    def prolog(library, **wants):
        return subprocess.run(
            ['sh', stage.ROOT / 'deploy/slurm/task_prolog.sh'], text=True, check=True,
            capture_output=True, env={'PATH': '/usr/bin:/bin', 'SLURM_JOB_ID': str(os.getpid()),
                                      'LIBCUDAMEM': str(library), **wants}).stdout

    library = kit.folder / 'libcudamem.so'
    library.touch()
    assert not prolog(library)
    told = prolog(library, CUDAMEM='1')
    folder, = re.findall('region_dir:([^,]*),', told)
    os.rmdir(folder)
    assert told.startswith(f'export LD_PRELOAD={library}\n'), told
    if not list(pathlib.Path('/usr/lib').glob('*/cudamem/libcudamem.so')):
        assert prolog(library.parent / 'none', CUDAMEM='1').startswith('print cudamem: no '), told


if __name__ == '__main__':
    sys.exit(stage.main([nginx_asks_for_tls_and_a_password, prometheus_takes_its_side_of_it,
                         a_profile_reaches_pyroscope, the_module_preloads_nothing,
                         a_task_is_told_whether_it_has_the_library]))
