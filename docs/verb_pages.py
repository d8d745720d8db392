#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Divides the manual of cudamemstat into an overview and a page a command.

  verb_pages.py cudamemstat.1.scd cudamemstat.c options.def overview|COMMAND

Prints the page, for scdoc. The text is written once, in cudamemstat.1.scd: a command's page has its
paragraphs, the options that the command takes, and the tables that belong to it.
"""

import pathlib
import re
import sys

# Sections that are about some commands only.
SECTIONS = {'COLUMNS': ('ls', 'top', 'stat', 'conf', 'check'), 'COUNTERS': ('memory-stats',), 'CHECKS': ('doctor',)}


def sections(text, mark):
    """The parts between headings: (title, lines)."""
    parts = re.split(rf'^{mark} (.*)\n', text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2]))


def entries(text):
    """Paragraphs that begin at the left, each with the indented lines and tables behind it."""
    return [entry.rstrip() + '\n' for entry in re.findall(r'^\*.*\n(?:(?:[\t|:].*)?\n)*', text, re.MULTILINE)]


def verb_table(source, definitions):
    """name -> (summary, names of its options), from the table of commands."""
    macros = dict(re.findall(r'^#define (\w+_OPTS)\s+(.*(?:\\\n.*)*)', source, re.MULTILINE))
    names = dict(re.findall(r"^CM_OPT\((\w+), (?:0|'.'), \"([a-z-]+)\"", definitions, re.MULTILINE))
    table = source[source.index('verbs[] = {'):source.index('\t{0},')]
    verbs = {}
    for row in re.findall(r'^\t\{"(.*?)(?=^\t\{"|\Z)', table, re.MULTILINE | re.DOTALL):
        words = row
        for _ in range(4):
            for name, value in macros.items():
                words = re.sub(rf'\b{name}\b', value, words)
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', '"' + row)
        verbs[texts[0]] = (texts[2], [names[option] for option in re.findall(r'CM_OPT_(\w+)', words) if option in names])
    return verbs


def meant(line, verbs):
    """The commands that a line begins with, such as "*report*, *diff*:": it is for these alone."""
    told = re.match(r'\t((?:\*[a-z -]+\*(?:, | and )?)+):', line)
    return [each for each in re.findall(r'\*([a-z-]+)', told[1]) if each in verbs] if told else []


def option_entries(part, verb, verbs):
    """The paragraphs of the options that a command takes, its own first: of several those among its
    own, then those that are about no other command, then any."""
    options = verbs[verb][1]
    found, place = {}, 0
    for title, text in sections(part, '##'):
        for entry in entries(text):
            named = [name for name in re.findall(r'\*--([a-z-]+)\*', entry.splitlines()[0]) if name in options]
            lines = entry.splitlines(keepends=True)
            own = [line for line in lines[1:] if verb in (meant(line, verbs) or [verb])]
            foreign = title in verbs and title != verb and not any(verb in meant(line, verbs) for line in lines)
            if named and ''.join(own).strip():
                found.setdefault(tuple(named), []).append((2 * foreign - (title == verb), place, lines[0] + ''.join(own)))
                place += 1
    best = {named: min(several, key=lambda each: each[0]) for named, several in found.items()}
    told = {name for named, (foreign, *_) in best.items() if foreign < 2 for name in named}
    chosen = [each for named, each in best.items() if each[0] < 2 or not told.issuperset(named)]
    return [text for *_, text in sorted(chosen, key=lambda each: (each[0] >= 0, each[1]))]


def introduction(part, verb):
    """What the section of a command's own options says before the first of them."""
    text = dict(sections(part, '##')).get(verb, '')
    return re.split(r'^\*', text, maxsplit=1, flags=re.MULTILINE)[0].strip('\n')


def own_section(text, verb):
    """A section as the command's page has it: of several parts those whose headings name the command."""
    parts = sections(text, '##')
    return '\n' + '\n'.join(part.strip('\n') + '\n' for title, part in parts if verb in title.split(', ')) + '\n' if parts else text


def verb_page(page, verb, verbs):
    parts = dict(sections(page, '#'))
    synopsis = [line for line in parts['SYNOPSIS'].splitlines() if re.match(rf'\*cudamemstat\* \[?\*{verb}\*', line)]
    told = [entry for entry in entries(parts['COMMANDS']) if re.match(rf'\*{verb}\*', entry)]
    described = [re.sub(r'^\t', '', re.sub(r'^.*\n', '', entry, count=1), flags=re.MULTILINE) for entry in told]
    own = ''.join(f'# {title}\n{own_section(text, verb)}' for title, text in parts.items() if verb in SECTIONS.get(title, ()))
    general = dict(sections(parts['OPTIONS'], '##'))['General']
    return (f'cudamemstat-{verb}(1)\n\n# NAME\n\ncudamemstat-{verb} - {verbs[verb][0][0].lower()}{verbs[verb][0][1:]}\n\n'
            '# SYNOPSIS\n\n' + '\n'.join(line.removesuffix('++') for line in synopsis)
            + '\n\n# DESCRIPTION\n\n' + '\n'.join([*described, introduction(parts['OPTIONS'], verb)]).strip('\n')
            + '\n\n# OPTIONS\n\n'
            + '\n'.join(option_entries(parts['OPTIONS'], verb, verbs)) + general.rstrip() + '\n\n' + own
            + '# EXIT STATUS\n' + parts['EXIT STATUS'].rstrip()
            + '\n\n# SEE ALSO\n\n*cudamemstat*(1), which lists the commands, *libcudamem*(7)\n')


def overview(page, verbs):
    text = page.splitlines()[0] + '\n\n'
    for title, part in sections(page, '#'):
        if title in SECTIONS:
            continue
        if title == 'COMMANDS':
            part = '\n' + '\n'.join(f'*cudamemstat-{verb}*(1)\n\t{summary}.\n' for verb, (summary, _) in verbs.items()) + '\n'
        elif title == 'OPTIONS':
            general = dict(sections(part, '##'))['General']
            part = part[:part.index('## ')] + 'The page of a command describes those that it takes.\n' + general
        text += f'# {title}\n{part}'
    return text


def main():
    page, source, definitions = (pathlib.Path(path).read_text(encoding='utf-8') for path in sys.argv[1:4])
    verbs = verb_table(source, definitions)
    sys.stdout.write(overview(page, verbs) if sys.argv[4] == 'overview' else verb_page(page, sys.argv[4], verbs))


if __name__ == '__main__':
    main()
