# SPDX-License-Identifier: MIT
"""From the figures of the ensemble's programs to its goals, each with the programs that miss it most."""

import dataclasses
import statistics
from typing import Callable

KINDS = FAILS, FILLS, GOES_ON = 0, 1, 2
PASSES = (1, 2, 3, 4)
# A page of 2 MiB is much of a program that has little: what pages come to is told of those that have more.
LARGE_BYTES = 1 << 30
OURS, WITHOUT, PAGED, EXACT = 'default', 'no-exchange', 'pages', 'exact'
DRIVER, TORCH, TORCH_PAGES = 'driver', 'torch', 'torch-pages'


def parse_line(line):
    """name=value words; all but the program's and the system's are numbers."""
    words = dict(word.split('=', 1) for word in line.split())
    return {name: value if name in ('program', 'system') else int(value)
            for name, value in words.items()}


class Case:
    """A program on one device, under each system."""

    def __init__(self, name, busy):
        self.name, self.busy, self.by = name, busy, {}
        self.family, seed = name.split(':')
        self.held_back = int(seed) % 2 == 1

    def __str__(self):
        return f'{self.name}{" busy" if self.busy else ""}'

    def get(self, system, figure):
        """None where the system has not been played, or has no such figure."""
        return self.by.get(system, {}).get(figure)

    @property
    def kind(self):
        return self.any('kind')

    @property
    def roomy(self):
        return self.any('card') >= 2 * self.any('live')

    @property
    def large(self):
        return self.any('live') >= LARGE_BYTES

    def any(self, figure):
        return next(iter(self.by.values()))[figure]

    def ended(self, *systems):
        """Whether the program came to the end of its last pass, with nothing refused."""
        return self.kind == FAILS and all(self.get(system, 'done') == len(PASSES) for system in systems)

    def ratio(self, figure, system, other):
        """Of one system's figure to another's, where both have it."""
        mine, its = self.get(system, figure), self.get(other, figure)
        return mine / its if mine is not None and its else None

    def total(self, figure, system, passes=PASSES):
        values = [self.get(system, f'{figure}{n}') for n in passes]
        return None if None in values else sum(values)

    def a_request(self, figure, system, passes):
        """Of passes, a request."""
        count, requests = (self.total(name, system, passes) for name in (figure, 'requests'))
        return count / requests if requests else None


def read(lines):
    cases = {}
    for line in lines:
        figures = parse_line(line)
        key = figures.pop('program'), figures.pop('busy')
        case = cases.setdefault(key, Case(*key))
        case.by[figures.pop('system')] = figures
    return list(cases.values())


# --- what is measured of one case; None: it says nothing of it --------------------------------------

def blocks_got(system):
    return lambda case: case.ratio('served1', system, DRIVER) if case.family == 'growing' else None


def most_held(system):
    return lambda case: case.ratio('held1', system, DRIVER) if case.family == 'vectors' else None


def served(system):
    def of(case):
        mine, its = case.total('served', system), case.total('served', DRIVER)
        return min(mine, its) / its if case.kind == GOES_ON and mine is not None and its else None
    return of


def smallest(system, other, busy=None, large=False):
    def of(case):
        if busy not in (None, case.busy) or (large and not case.large):
            return None
        return case.ratio('smallest', system, other)
    return of


def fails(system, without):
    """1 where the program comes further without."""
    def of(case):
        mine, its = case.get(system, 'done'), case.get(without, 'done')
        if case.kind != FAILS or mine is None or its is None:
            return None
        return int(mine < its)
    return of


def fails_on_smaller(system, without):
    """1 where there is a card on which it fails that will do without; the search has some play."""
    def of(case):
        ratio = case.ratio('smallest', system, without)
        return None if ratio is None else int(ratio > 1.005)
    return of


def reserved(n, system, other, busy=None):
    def of(case):
        if not case.ended(system, other) or busy not in (None, case.busy):
            return None
        return case.ratio(f'reserved{n}', system, other)
    return of


def reserved_to_live(n, system, busy):
    def of(case):
        if case.busy != busy or not case.large or not case.ended(system):
            return None
        return case.get(system, f'reserved{n}') / case.any('live')
    return of


def warm(figure, system, passes, busy=None, roomy=False):
    def of(case):
        if case.kind != FAILS or not case.ended(system) or busy not in (None, case.busy):
            return None
        return None if roomy and not case.roomy else case.a_request(figure, system, passes)
    return of


def driver_time(system, passes):
    """To native's; of programs that get as much under both."""
    def of(case):
        mine, its = case.total('ns', system, passes), case.total('ns', DRIVER, passes)
        same = case.total('served', system, passes) == case.total('served', DRIVER, passes)
        return mine / its if same and mine is not None and its else None
    return of


# --- what they come to together ----------------------------------------------------------------------

def share_within(bound):
    """In percent: of how many the value is at most so much."""
    return lambda values: 100 * sum(value <= bound for value in values) / len(values)


def percent(values):
    return 100 * statistics.fmean(values)


@dataclasses.dataclass(frozen=True)
class Row:
    """A goal: `of` a case, `come` to one number together, and its limit from above or below."""
    mode: str
    name: str
    of: Callable
    come: Callable
    most: float = None
    least: float = None

    def measure(self, cases):
        """The number, how many cases there were, and the worst of them first."""
        found = [(value, case) for value, case in ((self.of(case), case) for case in cases)
                 if value is not None]
        found.sort(key=lambda pair: pair[0], reverse=self.most is not None or 'within' in self.name)
        values = [value for value, _ in found]
        return (self.come(values) if values else None), len(found), found

    def is_met(self, value):
        return value <= self.most if self.most is not None else value >= self.least

    def verdict(self, values):
        """It must be met on both halves; what could not be measured is no success."""
        if None in values:
            return 'not measured'
        return 'met' if all(map(self.is_met, values)) else 'missed'

    @property
    def bound(self):
        return f'<= {self.most:g}' if self.most is not None else f'>= {self.least:g}'


mean, median = statistics.fmean, statistics.median


def rows(ours=OURS, paged=PAGED):
    """The two tables of goals; `ours` may be another system, to see that it is found out."""
    def of_ours(*arguments, **limit):
        return Row('default', *arguments, **limit)

    def of_pages(*arguments, **limit):
        return Row('pages', *arguments, **limit)

    yield of_ours('growing: blocks got, of native, least', blocks_got(ours), min, least=0.99)
    yield of_ours('growing vectors: most held, of native, least', most_held(ours), min, least=0.99)
    yield of_ours('half-freed, crowded: requests that native serves, %', served(ours), percent,
                  least=99.5)
    small = smallest(ours, TORCH)
    yield of_ours("smallest card, to PyTorch's: within 1.01, %", small, share_within(1.01), least=99.5)
    yield of_ours("smallest card, to PyTorch's: worst", small, max, most=1.05)
    yield of_ours("smallest card, to PyTorch's: mean", small, mean, most=1.0)
    yield of_ours('exchange makes it fail, on its card', fails(ours, WITHOUT), sum, most=0)
    yield of_ours('exchange makes it fail, on another card', fails_on_smaller(ours, WITHOUT), sum, most=0)
    for n, name in ((1, 'first'), (4, 'fourth')):
        of = reserved(n, ours, TORCH)
        yield of_ours(f"reserved, {name} pass, to PyTorch's: within 1.01, %", of, share_within(1.01),
                      least=99)
        yield of_ours(f"reserved, {name} pass, to PyTorch's: mean", of, mean, most=0.95)
    yield of_ours('driver allocations and frees a request, warm: mean', warm('calls', ours, (3, 4)), mean,
                  most=0.01)
    for passes, name in (((1,), 'first pass'), (PASSES, 'four passes')):
        of = driver_time(ours, passes)
        yield of_ours(f'driver time, to native, {name}: worst', of, max, most=1)
        yield of_ours(f'driver time, to native, {name}: mean', of, mean, most=0.2)
    idle = warm('events', ours, (3, 4), busy=0)
    yield of_ours('events and barriers a request, idle, warm: median', idle, median, most=0.1)
    yield of_ours('events and barriers a request, idle, warm: worst', idle, max, most=0.25)

    of = warm('maps', paged, (3, 4), roomy=True)
    yield of_pages('map and unmap calls a request, warm, roomy card: mean', of, mean, most=0.002)
    yield of_pages('map and unmap calls a request, warm, roomy card: worst', of, max, most=0.02)
    for n, name, limits in ((1, 'first', (1.02, 1.04)), (4, 'fourth', (1.04, 1.04))):
        for busy, device in ((0, 'idle'), (1, 'busy')):
            yield of_pages(f'reserved to live, {name} pass, {device}: mean',
                           reserved_to_live(n, paged, busy), mean, most=limits[busy])
        yield of_pages(f"reserved, {name} pass, to PyTorch's expandable: worst",
                       reserved(n, paged, TORCH_PAGES), max, most=1.01)
    of = driver_time(paged, (1,))
    yield of_pages('driver time, to native, first pass: mean', of, mean, most=0.5)
    yield of_pages('driver time, to native, first pass: worst', of, max, most=1)
    for busy, device in ((0, 'idle'), (1, 'busy')):
        of = smallest(paged, DRIVER, busy, large=True)
        yield of_pages(f'smallest card, to native, {device}: mean', of, mean, most=1.006)
        yield of_pages(f'smallest card, to native, {device}: worst', of, max, most=1.03)
    yield of_pages('growing: blocks got, of native, least', blocks_got(paged), min, least=1)
    yield of_pages('growing vectors: most held, of native, least', most_held(paged), min, least=1)
    yield of_pages('half-freed, crowded: requests that native serves, %', served(paged), percent,
                   least=100)


OFFENDERS = 3


def judge(cases, judged):
    """Each goal with what was measured on either half, and the worst offenders of both."""
    halves = [[case for case in cases if case.held_back == half] for half in (False, True)]
    for row in judged:
        (tuned, few, _), (held, many, _) = (row.measure(half) for half in halves)
        _, _, worst = row.measure(cases)
        bad = [f'{case} {value:.3g}' for value, case in worst[:OFFENDERS]]
        verdict = row.verdict([tuned, held])
        yield {'mode': row.mode, 'name': row.name, 'bound': row.bound, 'tuned': tuned, 'held_back': held,
               'cases': few + many, 'verdict': verdict, 'worst': bad if verdict == 'missed' else []}


# What is told of each family: the same figures, its cases alone.
FAMILY_FIGURES = (
    ('got', lambda case: blocks_got(OURS)(case) or most_held(OURS)(case) or served(OURS)(case), mean),
    ('smallest', smallest(OURS, TORCH), mean),
    ('worst', smallest(OURS, TORCH), max),
    ('reserved 1', reserved(1, OURS, TORCH), mean),
    ('reserved 4', reserved(4, OURS, TORCH), mean),
    ('calls', warm('calls', OURS, (3, 4)), mean),
    ('time', driver_time(OURS, PASSES), mean),
    ('events', warm('events', OURS, (3, 4), busy=0), mean),
    ('pg smallest', smallest(PAGED, DRIVER), mean),
    ('pg reserved 1', reserved(1, PAGED, TORCH_PAGES), mean),
    ('pg reserved 4', reserved(4, PAGED, TORCH_PAGES), mean),
    ('pg maps', warm('maps', PAGED, (3, 4), roomy=True), mean),
    ('pg time', driver_time(PAGED, (1,)), mean),
)


def by_family(cases):
    """Of each family, on the half that is held back, a number for each of FAMILY_FIGURES, or None."""
    told = {}
    for case in cases:
        if case.held_back:
            told.setdefault(case.family, []).append(case)
    for family, its in told.items():
        values = []
        for _, of, come in FAMILY_FIGURES:
            found = [value for value in map(of, its) if value is not None]
            values.append(come(found) if found else None)
        yield {'family': family, 'values': values}


SYSTEMS_SUMMARY = (OURS, WITHOUT, EXACT, PAGED, TORCH, TORCH_PAGES)


def by_system(cases):
    """Of each system, on the half that is held back: how often it fails where native does not, what it
    serves of the rest, what it reserves to native and what it takes of native's driver time."""
    held = [case for case in cases if case.held_back]
    for system in SYSTEMS_SUMMARY:
        def values(of, come):
            found = [value for value in map(of, held) if value is not None]
            return come(found) if found else None

        yield {'system': system, 'values': [
            values(fails(system, DRIVER), sum), values(blocks_got(system), min),
            values(most_held(system), min), values(served(system), percent),
            values(smallest(system, DRIVER), mean), values(smallest(system, DRIVER), max),
            values(reserved(1, system, DRIVER), mean), values(reserved(4, system, DRIVER), mean),
            values(warm('calls', system, (3, 4)), mean), values(warm('maps', system, (3, 4)), mean),
            values(driver_time(system, (1,)), mean), values(driver_time(system, PASSES), mean)]}


SYSTEM_HEADS = ('system', 'fails', 'grow', 'vectors', 'served %', 'smallest', 'worst', 'reserved 1',
                'reserved 4', 'calls', 'maps', 'time 1', 'time')
