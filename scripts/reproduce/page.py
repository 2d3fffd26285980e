# SPDX-License-Identifier: Apache-2.0
"""page.py -- the page of a source in docs/results: what ran where, tables that put published figures beside ours, plots."""
import datetime
import pathlib
import re
import shutil
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOTHING = '–'
WIDTH = 118


def table(headers, rows):
    """Markdown; the first column is text, in the others numbers stand to the right. None is a figure that was not measured."""
    cells = [[NOTHING if c is None else str(c) for c in row] for row in rows]
    numbers = [all(re.match(r'^[-+≈]?[.\d–]|^$', row[i]) for row in cells) for i in range(len(headers))]
    lines = [headers, ['--:' if n and i else '---' for i, n in enumerate(numbers)], *cells]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def processor():
    """(model, instruction set, cores) of this machine."""
    info = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8')
    model = re.search(r'^model name\s*:\s*(.*)$', info, re.MULTILINE)
    flags = re.search(r'^flags\s*:(.*)$', info, re.MULTILINE)
    flags = flags.group(1).split() if flags else []
    isa = 'AVX-512' if 'avx512f' in flags else 'AVX2' if 'avx2' in flags else 'no AVX2'
    return model.group(1).strip() if model else 'unknown processor', isa, len(re.findall(r'^processor\s*:', info, re.MULTILINE))


def commit():
    if not shutil.which('git'):
        return 'unknown'
    done = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else 'unknown'


SEEN, END_OF_SEEN = '<!-- what was seen, by hand -->', '<!-- end -->'


def written_by_hand(file):
    """[the text between the marks, with them], which a new page keeps; [] if there is none."""
    page = file.read_text(encoding='utf-8') if file.exists() else ''
    start = page.find(SEEN)
    end = page.find(END_OF_SEEN, max(start, 0))
    if start >= 0 and end < 0:
        raise RuntimeError(f"{file}: '{END_OF_SEEN}' is missing after '{SEEN}'")
    return [page[start:end + len(END_OF_SEEN)]] if start >= 0 else []


class Page:
    """Collects sections and writes them at once; tables are printed as they come."""

    def __init__(self, bench, title, intro):
        self.bench, self.title, self.intro = bench, title, intro
        self.differences, self.body = [], []
        self.file = bench.pages / f'{bench.source}.md'

    def difference(self, *lines):
        """What differs from the original set-up."""
        self.differences += lines

    def section(self, title):
        self.body.append(f'## {title}')

    def text(self, *paragraphs):
        self.body += [self.wrapped(p) for p in paragraphs]

    def items(self, lines):
        self.body.append('\n'.join(self.wrapped(line, '- ') for line in lines))

    def table(self, headers, rows):
        text = table(headers, rows)
        self.body.append(text)
        print('\n' + text + '\n', flush=True)

    def plot(self, name, drawing, alt):
        """Writes SOURCE-name.svg; `drawing` is text of svg.py."""
        file = f'{self.bench.source}-{name}.svg'
        self.bench.pages.mkdir(parents=True, exist_ok=True)
        (self.bench.pages / file).write_text(drawing, encoding='utf-8')
        self.body.append(f'![{alt}]({file})')

    def wrapped(self, text, bullet=''):
        return textwrap.fill(' '.join(text.split()), WIDTH, initial_indent=bullet, subsequent_indent=' ' * len(bullet), break_long_words=False, break_on_hyphens=False)

    def head(self):
        bench = self.bench
        model, isa, number = processor()
        most = max((n for n, _ in bench.hosts_used), default=1)
        hosts = f'up to {most} host{"s" if most > 1 else ""} of `scripts/cluster.sh`, on these cores' if bench.emulated else f'all ranks on one host without links ({bench.why_not})'
        size = f'the {"short" if bench.quick else "full"} run, at most {bench.limit / 60:g} minutes'
        minutes = f' --minutes {bench.options.minutes:g}' if bench.options.minutes else ''
        parts = f' --parts {",".join(bench.options.parts)}' if bench.options.parts else ''
        lines = [f'# {self.title}', self.wrapped(self.intro),
                 f'    scripts/reproduce.sh {bench.source}{" --quick" if bench.quick else ""}{minutes}{parts}',
                 '\n'.join(self.wrapped(line, '- ') for line in (
                     f'Machine: {model}, {number} cores, {isa}; {hosts}. No GPU is used.',
                     f'Time: {size}; {bench.used() / 60:.1f} minutes used{", interrupted and continued with `--continue`" if bench.options.resume else ""}.',
                     f'Date: {datetime.date.today().isoformat()}, commit {commit()}.'))]
        differences = [*self.differences, 'Each rank has one thread: one rank alone uses one core and leaves the others idle.']
        return [*lines, *written_by_hand(self.file), 'What differs from the original set-up:', '\n'.join(self.wrapped(d, '- ') for d in differences)]

    def write(self):
        parts = self.head() + self.body
        if self.bench.skipped:
            parts += ['## Not measured', '\n'.join(self.wrapped(s, '- ') for s in self.bench.skipped)]
        self.bench.pages.mkdir(parents=True, exist_ok=True)
        self.file.write_text('\n\n'.join(parts) + '\n', encoding='utf-8')
        self.bench.say(f'written: {self.file}')
