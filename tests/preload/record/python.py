# SPDX-License-Identifier: MIT
"""The stacks of a Python program: real CPython, the driver by ctypes, as its frames are recorded.

  python.py MODULE DRIVER PRINT_HISTORY
"""

import ctypes
import gc
import inspect
import os
import random
import re
import subprocess
import sys
import tempfile
import threading

# Sizes tell the requests apart.
INNER, RELEASED, THREAD, PENDING, DEEP, METHOD, LAMBDA, AGAIN = range(1000, 9000, 1000)


class Program:
    """What runs under the library. PyDLL keeps the interpreter's lock during a call, CDLL lets go."""

    def __init__(self, driver):
        self.keeping = ctypes.PyDLL(driver)
        self.letting_go = ctypes.CDLL(driver)
        self.lines = {}
        context = ctypes.c_void_p()
        assert self.keeping.cuInit(0) == 0
        assert self.keeping.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.keeping.cuCtxSetCurrent(context) == 0
        self.context = context

    def alloc(self, size, driver=None):
        address = ctypes.c_uint64()
        result = (driver or self.keeping).cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        assert result == 0, result

    def inner(self, size):
        self.lines[size] = inspect.currentframe().f_lineno + 1
        self.alloc(size)

    def outer(self):
        self.inner(INNER)

    def deep(self, depth):
        if depth:
            self.deep(depth - 1)
        else:
            self.alloc(DEEP)

    def in_thread(self):
        assert self.keeping.cuCtxSetCurrent(self.context) == 0
        self.alloc(THREAD)

    def with_error_pending(self):
        """A request during the handling of an error leaves the error as it is."""
        try:
            raise KeyError('kept')
        except KeyError:
            self.alloc(PENDING)
            kind, error, _ = sys.exc_info()
            assert kind is KeyError and error.args == ('kept',)

    def run(self):
        self.outer()
        self.alloc(RELEASED, self.letting_go)
        thread = threading.Thread(target=self.in_thread)
        thread.start()
        thread.join()
        self.with_error_pending()
        self.deep(100)
        (lambda: self.alloc(LAMBDA))()
        for _ in range(3):
            self.alloc(AGAIN)
        assert gc.isenabled()
        gc.disable()
        self.alloc(METHOD)
        assert not gc.isenabled()
        gc.enable()
        # Many more frames than are remembered, and with the collector at work all the time.
        gc.set_threshold(1)
        for number in range(300):
            code = compile('\n' * number + 'alloc(100)', f'made {number}', 'exec')
            exec(code, {'alloc': self.alloc})


class Request:
    def __init__(self, line):
        _, size, stack, native, cut, self.order = line.split()
        self.size, self.stack, self.native, self.cut = map(int, (size, stack, native, cut))
        self.frames = []

    def names(self):
        return [name for _, name, _ in self.frames]


def read_history(command):
    requests = []
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines():
        if line.startswith('alloc'):
            requests.append(Request(line))
        else:
            number, name, file = line.strip().split('\t')
            requests[-1].frames.append((int(number), name, file))
    return requests


def play(conf, module, driver, print_history, mode='--program'):
    """The requests that the program made with these options, by size; and its own word for lines."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, 'LD_PRELOAD': f'{os.environ.get("RUN_TIME", "")} {module}'.strip(),
                       'CUDAMEM_CONF': f'region_dir:{folder},{conf}',
                       'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
        command = [sys.executable, __file__, mode, driver]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as program:
            lines = program.stdout.readline()
            assert lines, 'the program failed'
            requests = read_history([print_history, folder, str(program.pid)])
            program.stdin.close()
        assert program.returncode == 0
    by_size = {}
    for request in requests:
        by_size.setdefault(request.size, []).append(request)
    return by_size, eval(lines)


def qualified(name):
    """Names are qualified from Python 3.11 on."""
    return f'Program.{name}' if sys.version_info >= (3, 11) else name


def check_all_frames(paths):
    requests, lines = play('stacks:alloc', *paths)
    request = requests[INNER][0]
    assert request.native > 3, 'C frames stand beside those of Python'
    assert request.names()[:4] == [qualified(name) for name in ('alloc', 'inner', 'outer', 'run')], \
        request.frames
    assert request.frames[1][0] == lines[INNER] and request.frames[1][2] == __file__
    assert request.names()[-1] == '<module>'

    # Python frames stand where the interpreter runs them: inside its own C frames, before main's.
    for size in (INNER, RELEASED, THREAD):
        order = requests[size][0].order
        assert re.fullmatch(r'\.n+p[np]*n+', order), order
    # Without the interpreter's lock, too.
    assert requests[RELEASED][0].native > 3
    assert requests[RELEASED][0].names()[:2] == [qualified('alloc'), qualified('run')]
    assert requests[THREAD][0].names()[:2] == [qualified('alloc'), qualified('in_thread')]
    assert requests[PENDING][0].names()[1] == qualified('with_error_pending')
    assert '<lambda>' in requests[LAMBDA][0].names()[1]
    assert len(requests[DEEP][0].frames) == 64 and requests[DEEP][0].cut
    assert len({request.stack for request in requests[AGAIN]}) == 1
    # Each made its own line and file, whatever was remembered.
    made = [request.frames[1] for request in requests[100]]
    assert made == [(number + 1, '<module>', f'made {number}') for number in range(300)], made[:3]


def check_python_alone(paths):
    requests, _ = play('stacks:all,stack_frames:python,stack_depth:2', *paths)
    assert requests[INNER][0].native == 0 and requests[INNER][0].cut
    assert requests[INNER][0].names() == [qualified('alloc'), qualified('inner')]
    assert requests[RELEASED][0].names() == [qualified('alloc'), qualified('run')]


def made_up(number):
    """The source of a function of the name f, which may call others, in generators or by map."""
    ways = ('{}', 'next(x for x in [{}])', 'list(map(lambda _: {}, [0]))', '[{} for _ in [0]]',
            'sorted([0], key=lambda _: {})')
    way = ways[number % len(ways)].format('deeper(n - 1, alloc)')
    return '\n' * (number % 50) + f"""
def f{'é' * (number % 2)}{number % 7}(n, alloc, deeper):
    if not n:
        return alloc({number % 1000 + 1})
    return {way}
"""


def random_program(driver, seed):
    """Threads define functions, call them to some depth, allocate there, and drop them."""
    program = Program(driver)
    wrong = []

    def work(seed):
        rand = random.Random(seed)
        assert program.letting_go.cuCtxSetCurrent(program.context) == 0

        def alloc(size):
            program.alloc(size, rand.choice((program.letting_go, program.keeping)))

        def deeper(depth, alloc):
            number = rand.randrange(10000)
            names = {}
            exec(compile(made_up(number), f'made {rand.randrange(5)} up', 'exec'), names)
            function, = (value for name, value in names.items() if name.startswith('f'))
            del names
            function(depth, alloc, deeper)

        try:
            for _ in range(100):
                deeper(rand.randrange(8), alloc)
                if rand.random() < 0.1:
                    gc.collect()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed + i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_random_programs(paths):
    """Each frame's name and line must be those of one of the functions."""
    seed = int(os.environ.get('SEED', '1'))
    requests, _ = play('stacks:alloc,stack_frames:python', *paths, mode=f'--random={seed}')
    seen = 0
    for size, several in requests.items():
        for request in several:
            inside = [frame for frame in request.frames if re.match('fé?[0-9]$', frame[1])]
            assert len(inside) < 9, request.frames
            for line, name, file in inside:
                assert re.match('made [0-4] up$', file) and 1 < line < 60, request.frames
            if inside:
                line, name, _ = inside[0]
                numbers = [n for n in range(size - 1, 10000, 1000)
                           if name == f"f{'é' * (n % 2)}{n % 7}"]
                assert any(line == n % 50 + 4 for n in numbers), (size, request.frames)
                seen += 1
    assert seen > 300, seen


def main():
    if sys.version_info < (3, 9):
        print('Python 3.9 brought the functions by which frames are read')
        sys.exit(77)
    if sys.argv[1].startswith('--random='):
        random_program(sys.argv[2], int(sys.argv[1].partition('=')[2]))
        print({}, flush=True)
        sys.stdin.read()
        return
    if sys.argv[1] == '--program':
        program = Program(sys.argv[2])
        program.run()
        print(program.lines, flush=True)
        sys.stdin.read()
        return
    check_all_frames(sys.argv[1:])
    check_python_alone(sys.argv[1:])
    check_random_programs(sys.argv[1:])


if __name__ == '__main__':
    main()
