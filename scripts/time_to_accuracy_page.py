# SPDX-License-Identifier: Apache-2.0
"""time_to_accuracy_page.py -- the runs of time_to_accuracy.py as tables (Markdown) and as a drawing (SVG)."""
import os
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'reproduce'))
import svg  # noqa: E402

NONE = '–'
NOTES = '## What the tables say'  # by a person, kept when the page is written anew

PAGE = '''# Time to accuracy

Seconds until a network is good enough on the test data, in the manner of MLPerf: the clock starts before the program
and never pauses, so it includes the start of the ranks, reading, evaluation after each epoch, and saving of models.
The first evaluation that reaches the target stops it. A seed decides initial weights and order of the data. Each
figure is the mean over the seeds without the best and the worst (from three seeds on: one that misses the target is
the worst). In brackets: the epochs of these runs.

    scripts/time_to_accuracy.py --write    # all of it; finished runs are kept, and not repeated

Hosts are those of `scripts/cluster.sh` ([cluster](../cluster.md)), with one rank and one core each. They share the
cores of the machine: four hosts have no more of them than two, so four hosts cannot be faster here. Files were in the
page cache.

{parts}

## Settings

The learning rates have the unit of the config (`learningRatesPerMB`; for ATIS `learningRatesPerSample`), and the
minibatch is that of all ranks together. Everything else is as in the config. The rates fall earlier than in the
samples, as a run ends at the target.

- Sums of gradients, and servers: the rate per sample of one rank. With 1 bit one rank does the first epoch, because
  large first gradients would leave large residuals.
- Weights that are averaged: P times the rate, as in `samples/methods`, for each of P ranks learns from a P-th of the
  data; block momentum half as much again on MNIST.
'''


def link_order(link):
    if link == 'none':
        return float('-inf')
    number, unit = re.fullmatch(r'(\d+)([kmg])bit', link).groups()
    return -int(number) * {'k': 1, 'm': 10**3, 'g': 10**6}[unit]


def link_name(link):
    return 'no limit' if link == 'none' else re.sub(r'(\d+)([kmg])bit', lambda f: f'{f[1]} {f[2].upper() if f[2] != "k" else "k"}bit/s', link)


def part_of(page, title):
    """From this title to the next one; None without it."""
    found = re.search(rf'^{re.escape(title)}\n.*?(?=^## )', page, re.DOTALL | re.MULTILINE)
    return found and found[0].rstrip()


def machine():
    found = re.search(r'^model name\s*: (.*)$', pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8'), re.MULTILINE)
    model = re.sub(r'\((?:R|TM)\)|@.*', '', found[1] if found else 'unknown processor').strip()
    return f'{len(os.sched_getaffinity(0))} cores of {model}'


class Results:
    """networks, methods: those of the script; runs: its records."""

    def __init__(self, networks, methods, runs):
        self.networks, self.methods, self.runs = networks, methods, runs
        self.cells = {}
        for r in runs:
            self.cells.setdefault((r['network'], r['hosts'], r['link'], r['method']), {})[r['seed']] = r

    def columns(self, network):
        found = {(h, l) for n, h, l, _ in self.cells if n == network and h > 1}
        return sorted(found, key=lambda c: (c[0], link_order(c[1])))

    def score(self, key):
        """Mean seconds without best and worst, epochs; None where too many seeds missed the target."""
        runs = list(self.cells.get(key, {}).values())
        if not runs:
            return None, None
        ordered = sorted(runs, key=lambda r: r['evaluations'][-1][0] if r['reached'] else float('inf'))
        kept = ordered[1:-1] if len(runs) >= 3 else ordered
        if not all(r['reached'] for r in kept):
            return None, None
        return statistics.mean(r['evaluations'][-1][0] for r in kept), statistics.mean(len(r['evaluations']) for r in kept)

    def cell(self, key):
        runs = list(self.cells.get(key, {}).values())
        if not runs:
            return NONE
        seconds, epochs = self.score(key)
        if seconds is not None:
            few = f', {len(runs)} seed{"s" if len(runs) > 1 else ""}' if len(runs) < 3 else ''
            return f'{seconds:.1f} ({epochs:.3g}{few})'
        limit = max(r['limit'] for r in runs)
        late = all(r['evaluations'] and len(r['evaluations']) >= self.networks[key[0]].epochs for r in runs if not r['reached'])
        few = ', 1 seed' if len(runs) == 1 else ''
        return f'missed in {self.networks[key[0]].epochs} epochs{few}' if late else f'> {limit:g}{few}'

    def title(self, network):
        return f'## {self.networks[network].title}, to {self.networks[network].target:g} %'

    def table(self, network):
        columns = self.columns(network)
        seeds = max(len(s) for k, s in self.cells.items() if k[0] == network)
        lines = [f'`{self.networks[network].config}`; {seeds} seed{"s" if seeds > 1 else ""}; one rank alone: **{self.cell((network, 1, "none", "one"))}** s', '']
        lines.append('| seconds (epochs), hosts | ' + ' | '.join(f'{h}, {link_name(l)}' for h, l in columns) + ' |')
        lines.append('|---|' + '--:|' * len(columns))
        for method, m in self.methods.items():
            cells = [self.cell((network, h, l, method)) for h, l in columns]
            if any(c != NONE for c in cells):
                lines.append(f'| {m.title} | ' + ' | '.join(cells) + ' |')
        return '\n'.join(lines)

    def measured(self):
        return [n for n in self.networks if any(k[0] == n for k in self.cells)]

    def tables(self):
        return '\n\n'.join(f'{self.title(n)}\n\n{self.table(n)}' for n in self.measured())

    def settings(self, network, sgd_settings):
        lines = ['| method | hosts | minibatch | learning rates | `ParallelTrain` |', '|---|--:|--:|---|---|']
        for method, m in self.methods.items():
            for hosts in sorted({k[1] for k in self.cells if (k[0], k[3]) == (network, method)}):
                text = sgd_settings(self.networks[network], m, hosts)
                minibatch, rates = (re.search(rf'\b{key}=([^;]+)', text)[1] for key in ('minibatchSize', r'learningRatesPer\w+'))
                block = re.search(r'ParallelTrain=\[parallelizationMethod=\w+;(\w+=\d+;)?\w+=\[(.*?)\]', text)
                parallel = f'`{"".join(block.groups(""))}`' if block else ''
                lines.append(f'| {m.title} | {hosts} | {minibatch} | {rates} | {parallel} |')
        return '\n'.join(lines)

    def section(self, network, sgd_settings, old):
        """Of the page: from the runs; without any, as the page had it, for networks may be measured on other machines and days."""
        title = self.title(network)
        if network not in self.measured():
            return part_of(old, title) or f'{title}\n\nNot run yet: `scripts/time_to_accuracy.py --networks {network} --write`.'
        dates = sorted({r['date'] for r in self.runs if r['network'] == network})
        when = dates[0] if len(dates) == 1 else f'{dates[0]} to {dates[-1]}'
        drawing = f'![seconds to the target](time-to-accuracy-{network}.svg)'
        return '\n\n'.join([title, f'{machine()}, {when}.', self.table(network), drawing, self.settings(network, sgd_settings)])

    def write(self, folder, sgd_settings):
        file = folder / 'time-to-accuracy.md'
        old = file.read_text(encoding='utf-8') if file.exists() else ''
        parts = [self.section(n, sgd_settings, old) for n in self.networks] + [part_of(old, NOTES)]
        file.write_text(PAGE.format(parts='\n\n'.join(filter(None, parts))), encoding='utf-8')
        for network in self.measured():
            (folder / f'time-to-accuracy-{network}.svg').write_text(self.drawing(network), encoding='utf-8')

    def drawing(self, network):
        """Bars: one rank, then a group for each number of hosts and link."""
        columns = self.columns(network)
        groups = ['one rank'] + [f'{h} hosts, {link_name(l)}' for h, l in columns]
        series = {m.title: [self.score((network, 1, 'none', method))[0] if method == 'one' else None]
                  + [self.score((network, h, l, method))[0] for h, l in columns] for method, m in self.methods.items()}
        found = [v for of_one in series.values() for v in of_one if v]
        return svg.bars(f'{self.networks[network].title}: seconds to {self.networks[network].target:g} %', 'seconds', groups, series,
                        log_y=bool(found) and max(found) > 10 * min(found))
