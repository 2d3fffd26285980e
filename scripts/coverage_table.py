#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage_table.py -- which public configs of CNTK are accepted: writes the section "Accepted" of docs/results/coverage.md.
Usage: coverage_table.py TABLE.tsv [PAGE], a table with the columns path, class (ok, refused, excluded), cause."""
import argparse
import csv
import pathlib
import re
import textwrap

PAGE = pathlib.Path(__file__).resolve().parent.parent / 'docs/results/coverage.md'
TITLE = "# CNTK's public configs\n"
HEADING = '## Accepted\n'


def rows(path):
    with open(path, encoding='utf-8', newline='') as table:
        return [(row['path'], row['class'], row['cause']) for row in csv.DictReader(table, delimiter='\t', quoting=csv.QUOTE_NONE)]


def plain(text):
    """On one line, without names of folders that only the machine has."""
    return re.sub(r'(?<![\w.])/[\w./-]*/', '', text).replace('\n', ' ').strip()


def section(table):
    """The totals, a line for each folder, and the configs that are not accepted under their reasons."""
    count = lambda kind, among: sum(k == kind for _, k, _ in among)  # noqa: E731
    excluded, accepted = count('excluded', table), count('ok', table)
    lines = [HEADING, f'`trainer --check` accepts {accepted} of {len(table)} configs, {accepted} of the {len(table) - excluded} that a trainer can be asked to run.',
             'They run unmodified, with tiny data in place of data that are not there.', '', '| folder | configs | accepted | refused | excluded |', '|---|--:|--:|--:|--:|']
    folders = {}
    for row in table:
        folders.setdefault('/'.join(row[0].split('/')[:3]) if row[0].count('/') > 2 else row[0].rsplit('/', 1)[0], []).append(row)
    for folder, among in sorted(folders.items()):
        ok, out = count('ok', among), count('excluded', among)
        lines.append(f'| {folder} | {len(among)} | {ok} | {len(among) - ok - out} | {out} |')
    others = sorted((kind != 'excluded', path, kind, plain(cause)) for path, kind, cause in table if kind != 'ok')
    if others:
        lines += ['', 'Not accepted:', '']
        for kind, cause in dict.fromkeys((kind, cause) for _, _, kind, cause in others):
            lines += textwrap.wrap(f'- {kind}: {cause}', 118, subsequent_indent='  ', break_long_words=False, break_on_hyphens=False)
            lines += [f'  - {path}' for _, path, *why in others if why == [kind, cause]]
    return '\n'.join(lines) + '\n'


def put(page, text):
    """The page with this section in the place of the old one, or behind its title."""
    begin = page.find(HEADING)
    if begin < 0:
        return (page or TITLE).rstrip('\n') + '\n\n' + text
    end = page.find('\n## ', begin)
    return page[:begin] + text + (page[end:] if end >= 0 else '')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('table')
    parser.add_argument('page', nargs='?', default=PAGE, type=pathlib.Path)
    arguments = parser.parse_args()
    old = arguments.page.read_text(encoding='utf-8') if arguments.page.exists() else ''
    arguments.page.write_text(put(old, section(rows(arguments.table))), encoding='utf-8')


if __name__ == '__main__':
    main()
