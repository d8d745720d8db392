# SPDX-License-Identifier: MIT
"""Chromium without a window, told what to do by its own protocol over two pipes."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from kit import Skip

PATIENCE = 240  # seconds; a browser has much to do before its first page
NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')


class Refused(AssertionError):
    """What the browser answers where it can't do what it is asked."""


class Browser:
    """One page. Use as a context manager."""

    def __init__(self, width=1500, height=850):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise Skip('chromium is not installed')
        self.folder = tempfile.TemporaryDirectory(prefix='cudamem-browser-',
                                                  ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.frm, from_write = os.pipe()
        command = [program, '--headless', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
                   '--disable-extensions', '--disable-background-networking',
                   '--disable-dev-shm-usage', f'--user-data-dir={self.folder.name}',
                   f'--window-size={width},{height}', '--remote-debugging-pipe', 'about:blank']
        if os.geteuid() == 0:
            command.insert(1, '--no-sandbox')  # it refuses to run as root otherwise

        # The protocol's pipes are descriptors 3 and 4 of the browser, whatever they are here.
        script = f'exec 3<&{to_read} 4>&{from_write} {to_read}<&- {from_write}>&-; exec "$@"'
        if {to_read, from_write} & {3, 4}:
            script = f'exec 13<&{to_read} 14>&{from_write}; exec 3<&13 4>&14 13<&- 14>&-; exec "$@"'
        self.process = subprocess.Popen(['bash', '-c', script, 'bash', *command],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, pass_fds=(to_read, from_write),
                                        start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        self.buffer = b''
        self.number = 0
        self.session = None
        self.complaints = []

    def __enter__(self):
        try:
            page = self.find_page()
        except EOFError:
            self.__exit__()
            raise Skip('chromium does not start here') from None
        self.session = self.ask('Target.attachToTarget', targetId=page, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log'):
            self.ask(f'{domain}.enable')
        return self

    def __exit__(self, *_):
        # Its helpers outlive it by a moment and still write into the folder.
        self.process.terminate()
        self.process.wait()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.to)
        os.close(self.frm)
        end = time.monotonic() + 10
        while os.path.exists(self.folder.name) and time.monotonic() < end:
            shutil.rmtree(self.folder.name, ignore_errors=True)
        self.folder.cleanup()

    def find_page(self):
        """The first one may not be there yet when the pipes are."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for info in self.ask('Target.getTargets')['targetInfos']:
                if info['type'] == 'page':
                    return info['targetId']
        raise AssertionError('the browser never had a page')

    def read(self):
        while b'\0' not in self.buffer:
            part = os.read(self.frm, 1 << 16)
            if not part:
                raise EOFError
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b'\0')
        return json.loads(text)

    def ask(self, method, **parameters):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.read()
            if answer.get('id') == self.number:
                if 'error' in answer:
                    raise Refused(method, answer)
                return answer['result']
            self.note(answer)

    def note(self, event):
        """What the page complains of: none of it is to be."""
        if event.get('method') == 'Runtime.exceptionThrown':
            self.complaints.append(event['params']['exceptionDetails'])
        if event.get('method') == 'Runtime.consoleAPICalled' and \
                event['params']['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(event['params'])
        if event.get('method') == 'Log.entryAdded' and \
                event['params']['entry']['level'] in ('error', 'warning'):
            self.complaints.append(event['params']['entry'])

    def evaluate(self, expression):
        result = self.ask('Runtime.evaluate', expression=expression, awaitPromise=True,
                          returnByValue=True)
        assert 'exceptionDetails' not in result, result['exceptionDetails']
        return result['result'].get('value')

    def open(self, path):
        """Opens a page of plots and waits until it has drawn."""
        url = path.resolve().as_uri()
        self.ask('Page.navigate', url=url)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                ready = self.evaluate(f'location.href === {json.dumps(url)} &&'
                                      ' document.documentElement?.dataset.ready || ""')
            except Refused:
                continue  # between the old page and the new one there is none
            if ready:
                assert ready == 'yes', self.complaints
                self.settle()
                return
        raise AssertionError('the page was never ready')

    def settle(self):
        """Until what was asked for has been drawn."""
        self.evaluate('new Promise(done => requestAnimationFrame(() => requestAnimationFrame('
                      '() => setTimeout(() => done(1), 0))))')

    def mouse(self, kind, x, y, **more):
        self.ask('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse('mouseMoved', x, y)
        self.settle()

    def click(self, x, y):
        self.mouse('mouseMoved', x, y)
        for kind in ('mousePressed', 'mouseReleased'):
            self.mouse(kind, x, y, button='left', clickCount=1)
        self.settle()

    def wheel(self, x, y, amount):
        self.mouse('mouseWheel', x, y, deltaX=0, deltaY=amount)
        self.settle()

    def screenshot(self, path):
        data = self.ask('Page.captureScreenshot', format='png')['data']
        path.write_bytes(base64.b64decode(data))

    def text(self, selector):
        return self.evaluate(f'document.querySelector({json.dumps(selector)}).innerText')

    def box(self, selector):
        """x, y, width and height of an element, in the window."""
        return self.evaluate('(() => { const b = document.querySelector('
                             f'{json.dumps(selector)}).getBoundingClientRect();'
                             'return [b.x, b.y, b.width, b.height]; })()')

    def colors(self):
        """How many different colours the picture has: one is a blank page."""
        return self.evaluate('(() => { const c = document.querySelector(".tab:not([hidden]) .stage canvas");'
                             'const d = new Uint32Array(c.getContext("2d").getImageData(0, 0,'
                             'c.width, c.height).data.buffer); return new Set(d).size; })()')
