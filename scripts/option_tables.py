#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""option_tables.py -- writes the options of the program into the pages of docs/, from what `trainer help NAME` prints.

A page names a block between two comments; what stands between them is replaced:

    <!-- options: EASGD -->
    <!-- end -->

A block that no page names is listed inside the one around it, so the page of SGD brings every option into some page. With
--check nothing is written, and a difference is an error.

Usage: option_tables.py [--check] [--docs FOLDER] TRAINER
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import textwrap

WIDTH = 120
MARKED = re.compile(r'<!-- options: (\w+) -->\n(.*?)<!-- end -->\n', re.DOTALL)
ROOT_BLOCK = 'SGD'


class Option:
    def __init__(self, key, kind, text):
        also = re.findall(r' \(also: (\w+)\)', text)
        self.key, self.kind, self.members = key, kind, []
        self.text = re.sub(r' \(also: \w+\)', '', text) + (f' (also: {", ".join(f"`{a}`" for a in also)})' if also else '')

    @property
    def block(self):
        return self.kind == '= [ ... ]'


def parse(name, help_text):
    """The options below 'NAME:', nested by indentation."""
    lines = help_text.split('\n')
    # Upper and lower case are one; a second name of a block has a heading of its own.
    start = next((i for i, line in enumerate(lines) if line.lower() == f'{name}:'.lower()), None)
    if start is None:
        raise SystemExit(f"option_tables.py: 'help {name}' describes no block")
    levels = [(0, [])]
    top = levels[0][1]
    for line in lines[start + 1:]:
        if not line.strip():
            break
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith('accepted without effect:'):
            continue
        key, kind, *text = re.split(r' {2,}', line.strip(), maxsplit=2)
        while levels[-1][0] >= indent:
            levels.pop()
        option = Option(key, kind, text[0] if text else '')
        levels[-1][1].append(option)
        levels.append((indent, option.members))
    return top


class Pages:
    def __init__(self, trainer, docs):
        self.trainer, self.docs, self.known = trainer, docs, {}
        self.pages = {p: p.read_text(encoding='utf-8') for p in sorted(docs.rglob('*.md'))}
        self.page_of = {m.group(1): p for p, text in self.pages.items() for m in MARKED.finditer(text)}

    def options(self, name):
        if name not in self.known:
            done = subprocess.run([self.trainer, 'help', name], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"option_tables.py: '{self.trainer} help {name}' fails:\n{done.stderr.rstrip()}")
            self.known[name] = parse(name, done.stdout)
        return self.known[name]

    def lines(self, options, page, around, indent=''):
        """One item of a list per option; a block with a page of its own is a link, others are listed inside."""
        for o in options:
            kind = o.kind.replace('|', ' | ')
            words = re.fullmatch(r'(.+?) = (.+)', kind)
            kind = 'block' if o.block else f'{words.group(1)}, default {words.group(2)}' if words else kind
            kind = re.sub(r'^(\w+(?: \| \w+)+)', r'`\1`', kind)
            text = o.text
            repeats = o.block and {m.key for m in o.members} <= {a.key for a in around}
            if repeats:
                text += '; the same keys again'
            elif o.block and o.key in self.page_of:
                target = self.page_of[o.key]
                text += f'; keys: [{o.key}]({os.path.relpath(target, page.parent)}#options)' if target != page else '; keys: below'
            elif o.block:
                text += '; its keys:'
            yield from textwrap.wrap(f'- `{o.key}` ({kind}): {text}', WIDTH, initial_indent=indent, subsequent_indent=indent + '  ',
                                     break_long_words=False, break_on_hyphens=False)
            if o.block and not repeats and o.key not in self.page_of:
                yield from self.lines(o.members, page, options, indent + '  ')

    def fill(self, page, text):
        def replaced(match):
            options = self.options(match.group(1))
            listed = '\n'.join(self.lines(options, page, options))
            return f'<!-- options: {match.group(1)} -->\n\n{listed}\n\n<!-- end -->\n'
        return MARKED.sub(replaced, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--check', action='store_true', help='change nothing; fail where a page differs from the program')
    parser.add_argument('--docs', type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / 'docs')
    parser.add_argument('trainer')
    arguments = parser.parse_args()
    pages = Pages(arguments.trainer, arguments.docs)
    problems = [] if ROOT_BLOCK in pages.page_of else [f'no page in {arguments.docs} has <!-- options: {ROOT_BLOCK} -->']
    for page, text in pages.pages.items():
        filled = pages.fill(page, text)
        if filled == text:
            continue
        if arguments.check:
            problems.append(f'{page}: the options differ from those of the program')
        else:
            page.write_text(filled, encoding='utf-8')
            print(f'{page}: written')
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems and arguments.check:
        print(f'fix: scripts/option_tables.py {arguments.trainer}', file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
