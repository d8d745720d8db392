#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages name what the tables hold, and no command-line option that they do not."""

import re
import sys

import tree

STRING = r'"((?:[^"\\]|\\.)*)"'
# Which row of which table names what, how it is written, and the pages that must say it.
TABLES = (
    ('stats/options.def', rf'CM_OPTION\((\w+), \w+, {STRING}', '{}', ['libcudamem.7']),
    ('stats/counters.def', rf'CM_STAT\(\w+, {STRING}', '{}', ['cudamemstat.1']),
    ('stats/counters.def', rf'CM_STAT\(\w+, {STRING}, "(\w+)"', '{1}', ['cudamemstat.1']),
    ('stats/counters.def', rf'CM_STAT1\(\w+, {STRING}', '{}', ['cudamemstat.1']),
    ('stats/counters.def', r'CM_SCALAR\((\w+)', '{}', ['cudamemstat.1']),
    ('tools/columns.def', rf'CM_COLUMN\(\w+, {STRING}', '{}', ['cudamemstat.1']),
    ('tools/options.def', rf'CM_OPT\(\w+, [^,]+, {STRING}', '--{}', ['cudamemstat.1']),
    ('tools/verbs.h', r'^int cm_verb_(\w+)\(', '{}', ['cudamemstat.1']),
)
COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)


def page_text(page):
    """The source of a page without scdoc's escapes and emphasis."""
    source = tree.text(f'docs/{page}.scd')
    return re.sub(r'\\(.)', r'\1', source).replace('*', ' ')


def says(text, word):
    return re.search(rf'(?<![\w-]){re.escape(word)}(?![\w-])', text) is not None


def names_of(table, row, form):
    content = COMMENT.sub('', tree.text(table))
    for match in re.finditer(row, content, re.MULTILINE):
        name = form.format(*match.groups())
        yield name.replace('_', '-') if table == 'tools/verbs.h' else name


def main():
    complaints = []
    options = set()
    for table, row, form, pages in TABLES:
        names = list(names_of(table, row, form))
        if not names:
            complaints.append(f'{table}: no row looks like {row}')
        if table == 'tools/options.def':
            options.update(names)
        for page in pages:
            text = page_text(page)
            complaints += [f'docs/{page}.scd: does not name {name} of {table}'
                           for name in names if not says(text, name)]
    for option in sorted(set(re.findall(r'(?<![\w-])--[a-z][a-z-]*', page_text('cudamemstat.1')))):
        if option not in options:
            complaints.append(f'docs/cudamemstat.1.scd: {option} is not in tools/options.def')
    return tree.report(complaints)


if __name__ == '__main__':
    sys.exit(main())
