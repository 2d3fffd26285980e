#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulator_page.py -- docs/results/simulator.md and its plot: runs `trainer simulate` for 16 to 1,024 ranks with an MLP of
10 million weights, and takes the cases of scripts/check_simulator.py --rows.

  scripts/simulator_page.py build/trainer --rows rows.jsonl

Writes docs/results/simulator.md and docs/results/simulator.svg of this source tree; what was written by hand between the marks stays.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / 'scripts' / 'reproduce'))

from page import END_OF_SEEN, SEEN, commit, processor, written_by_hand  # noqa: E402  (the folder must be on the path first)

RANKS = [16, 32, 64, 128, 256, 512, 1024]
LINKS = ['1gbit', '10gbit', '100gbit']
PER_RANK = 128
LATENCY = '10us'
CONFIG = f'''
command = Train
numCPUThreads = 1
Train = [
    action = "train"
    modelPath = "net.dnn"
    SimpleNetworkBuilder = [
        layerSizes = 784:2048:2048:2048:10
        layerTypes = "RectifiedLinear"
        trainingCriterion = "CrossEntropyWithSoftmax"
        evalCriterion = "ClassificationError"
    ]
    SGD = [ epochSize = {PER_RANK * max(RANKS) * 1000} ; minibatchSize = {2 * PER_RANK} ; learningRatesPerSample = 0.00001 ; maxEpochs = 1 ]
    reader = [ readerType = "SyntheticReader" ; kind = "random" ; samples = 60000 ]
]
'''
# What fails first when a method is used on many ranks, though the simulation says that it goes well.
ASSUMPTIONS = {
    'DataParallelSGD': 'all ranks are equally fast in every step: each step waits for the slowest, and with 1,024 of them one is always late; '
                       'then that the network carries P − 1 messages to every rank at once',
    'DataParallelSGD, late': 'as DataParallelSGD; a rank may be late by one step’s computing before others wait',
    'ASA': 'as DataParallelSGD',
    'ModelAveragingSGD': 'the mean of so many ranks still learns: blocks of the same length per rank move it no further than one rank moves',
    'BlockMomentumSGD': 'there are enough blocks: block momentum needs about P of them before it works',
    'EASGD': 'the moving rate 0.9/P still ties the ranks together; then equal speed, as all meet',
    'EASGD, async': 'servers share cores and links with workers evenly: one slow rank holds a shard that all wait for',
    'DataParallelASGD': 'staleness does no harm: with P workers a push misses about P − 1 others; then equal servers, as for asynchronous EASGD',
}
COLORS = ['#1f77b4', '#ff7f0e', '#2ca02c', '#d62728', '#9467bd', '#8c564b', '#e377c2', '#7f7f7f', '#bcbd22', '#17becf', '#000000', '#5fa2ce']


def simulate(trainer):
    """Lines of JSON: the head of the output, and a row per case."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'net.cntk').write_text(CONFIG, encoding='utf-8')
        words = [trainer, 'simulate', '--ranks', f'{RANKS[0]}:{RANKS[-1]}', '--links', ','.join(LINKS), '--latency', LATENCY, '--per-rank', str(PER_RANK),
                 '--json', 'table.jsonl', 'configFile=net.cntk']
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1',
                              OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1'))
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return [json.dumps({'head': done.stdout.splitlines()[:3]}), *(Path(folder) / 'table.jsonl').read_text(encoding='utf-8').splitlines()]


def read_table(lines):
    """The head of the output, and samples per second and speed-up by (link, method, bits, ranks)."""
    head, *rows = [json.loads(line) for line in lines]
    return head['head'], {(r['link'], r['method'], r['bits'], r['ranks']): r['measures'] for r in rows}


def methods_of(table):
    seen = []
    for _, method, bits, _ in table:
        if (method, bits) not in seen:
            seen.append((method, bits))
    return seen


def name(method, bits):
    return f'{method}, {bits} bit{"" if bits == "1" else "s"}'


def plot(table):
    """Efficiency (speed-up divided by ranks) by ranks, a panel per link."""
    width, height, left, top, gap = 250, 220, 46, 30, 40
    methods = methods_of(table)
    parts = []
    for i, link in enumerate(LINKS):
        x0 = left + i * (width + gap)
        parts.append(f'<text x="{x0}" y="{top - 10}" font-weight="bold">{link}</text>')
        for share in (0, 0.25, 0.5, 0.75, 1):
            y = top + height * (1 - share)
            parts.append(f'<line x1="{x0}" y1="{y}" x2="{x0 + width}" y2="{y}" stroke="#ddd"/><text x="{x0 - 4}" y="{y + 4}" text-anchor="end">{100 * share:.0f} %</text>')
        for k, ranks in enumerate(RANKS):
            parts.append(f'<text x="{x0 + width * k / (len(RANKS) - 1)}" y="{top + height + 16}" text-anchor="middle">{ranks}</text>')
        for color, (method, bits) in zip(COLORS, methods):
            points = ' '.join(f'{x0 + width * k / (len(RANKS) - 1):.1f},{top + height * (1 - min(1.0, table[link, method, bits, ranks]["speed_up"] / ranks)):.1f}'
                              for k, ranks in enumerate(RANKS))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    for k, (color, (method, bits)) in enumerate(zip(COLORS, methods)):
        x, y = left + (k % 4) * 215, top + height + 44 + 18 * (k // 4)
        parts.append(f'<rect x="{x}" y="{y - 9}" width="12" height="10" fill="{color}"/><text x="{x + 17}" y="{y}">{name(method, bits)}</text>')
    full_width, full_height = left + 3 * (width + gap), top + height + 60 + 18 * math.ceil(len(methods) / 4)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width} {full_height}" font-family="sans-serif" font-size="11">'
            f'<rect width="100%" height="100%" fill="white"/>\n' + '\n'.join(parts) + '\n</svg>\n')


def error(row):
    return row['simulated'] / row['measured'] - 1


def validation(rows):
    """Residuals: a table with a column per number of hosts and link."""
    cases = {(r['method'], r['bits'], r['hosts'], r['link']): error(r) for r in rows}
    columns = sorted({(h, k) for _, _, h, k in cases}, key=lambda c: (c[0], ['none', '1gbit', '100mbit'].index(c[1])))
    errors = [abs(e) for e in cases.values()]
    text = [f'{len(errors)} cases: median error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %; '
            f'{sum(e <= 0.05 for e in errors)} within 5 %, {sum(e <= 0.15 for e in errors)} within 15 %.', '',
            'Simulated samples per second against measured ones, error in percent, by hosts and link:', '',
            '| | ' + ' | '.join(f'{h}, {k}' for h, k in columns) + ' |', '|---|' + '--:|' * len(columns)]
    for method, bits in dict.fromkeys((m, b) for m, b, _, _ in cases):
        text.append(f'| {name(method, bits)} | ' + ' | '.join(f'{100 * cases[method, bits, *c]:+.1f}' if (method, bits, *c) in cases else '' for c in columns) + ' |')
    text += ['', 'Median of the absolute errors: ' + '; '.join(
        f'{h} hosts {100 * statistics.median([abs(e) for (_, _, hh, _), e in cases.items() if hh == h]):.1f} %' for h in sorted({c[0] for c in columns})) + '.']
    return text


def measured_table(rows):
    text = ['| hosts, link | ' + ' | '.join(['method', 'simulated', 'measured', 'error']) + ' |', '|---|---|--:|--:|--:|']
    for r in sorted(rows, key=lambda r: -abs(error(r)))[:10]:
        text.append(f'| {r["hosts"]}, {r["link"]} | {name(r["method"], r["bits"])} | {r["simulated"]:.0f} | {r["measured"]:.0f} | {100 * error(r):+.1f} % |')
    return text


def scaling(table, link):
    text = [f'### {link}', '', '| samples/s, thousands | ' + ' | '.join(map(str, RANKS[::2])) + ' |', '|---|' + '--:|' * len(RANKS[::2])]
    for method, bits in methods_of(table):
        cells = []
        for ranks in RANKS[::2]:
            row = table[link, method, bits, ranks]
            cells.append(f'{row["samples_per_second"] / 1e3:.1f} ({100 * row["speed_up"] / ranks:.0f} %)')
        text.append(f'| {name(method, bits)} | ' + ' | '.join(cells) + ' |')
    return text + ['']


NO_TABLE = ['## 16 to 1,024 ranks', '', 'Not computed yet for this page. This computes it, and adds the tables and a plot:', '',
            '    scripts/simulator_page.py build/trainer --rows rows.jsonl', '']


def page(head, table, rows, notes):
    model, isa, cores = processor()
    where = f'{cores} cores of {model} ({isa}), {datetime.date.today()}, commit {commit()}'
    text = ['# Simulated and measured', '',
            'What [trainer simulate](../simulate.md) predicts, beside runs on emulated hosts, and for clusters that are not there.', '',
            f'Machine: {where}.', '', '## Against runs', '',
            'MLP 784-512-512-10, 512 samples per minibatch of all ranks, epochs of 24 minibatches (96 at 1 Gbit/s, 240 without a limit), random data; model averaging every 6 '
            'minibatches, block momentum every 12, EASGD every 8, a push after 256 samples of a worker. The hosts of `scripts/cluster.sh` share '
            'two cores, on links without a limit, of 1 Gbit/s and of 100 Mbit/s. Measured: the median of the epochs that begin after six seconds.', '',
            '    sudo scripts/check_simulator.py build/trainer --rows rows.jsonl', '']
    text += validation(rows) + ['', 'The ten largest errors, samples per second:', ''] + measured_table(rows) + ['', *(notes or [SEEN, END_OF_SEEN]), '']
    text += ['Latency of links cannot be emulated there, so `--latency` is not part of this comparison.', '']
    text += many_ranks(head, table) if table else NO_TABLE
    text += ['## What breaks first', '', 'The assumption that fails first on many real hosts, by method:', '']
    text += [f'- **{method}**: {what}.' for method, what in ASSUMPTIONS.items()]
    return '\n'.join(wrap(line) for line in text) + '\n'


def many_ranks(head, table):
    text = ['## 16 to 1,024 ranks', '',
            f'MLP 784-3x2048-10, {PER_RANK} samples per rank and minibatch, one thread per rank, a latency of {LATENCY}; periods are the defaults: '
            'model averaging every 40,000 samples of a rank, block momentum every 120,000, EASGD every 10 minibatches, a push every 256 samples. '
            'In brackets: the speed-up as a share of the number of ranks. This is no measurement.', '',
            '    scripts/simulator_page.py build/trainer --rows rows.jsonl', '', '![efficiency by ranks](simulator.svg)', '']
    text += ['```', *(part for line in head for part in textwrap.wrap(line, 118, subsequent_indent='  ')), '```', '']
    for link in LINKS:
        text += scaling(table, link)
    return text


def wrap(line):
    """Text at 120 characters; tables, code and what was written by hand stay."""
    if len(line) <= 120 or '\n' in line or line.startswith(('|', '    ', '```', 'measured:')):
        return line
    indent, lines, now = '  ' if line.startswith('- ') else '', [], ''
    for word in line.split(' '):
        if now and len(now) + 1 + len(word) > 120:
            lines.append(now)
            now = indent + word
        else:
            now = f'{now} {word}' if now else word
    return '\n'.join([*lines, now])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trainer', type=Path)
    parser.add_argument('--rows', type=Path, required=True, help='from check_simulator.py')
    parser.add_argument('--table', type=Path, help='keeps the simulation in this file, or takes it from there')
    parser.add_argument('--only-rows', action='store_true', help='writes no tables of many ranks')
    options = parser.parse_args()
    if options.only_rows:
        lines = [json.dumps({'head': []})]
    elif options.table and options.table.exists():
        lines = options.table.read_text(encoding='utf-8').splitlines()
    else:
        lines = simulate(options.trainer.resolve())
        if options.table:
            options.table.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    head, table = read_table(lines)
    rows = [json.loads(line) for line in options.rows.read_text(encoding='utf-8').splitlines()]
    rows = list({(r['method'], r['bits'], r['hosts'], r['link']): r for r in rows}.values())  # of several runs the last one
    folder = SOURCE / 'docs/results'
    notes = written_by_hand(folder / 'simulator.md')
    if table:
        (folder / 'simulator.svg').write_text(plot(table), encoding='utf-8')
    (folder / 'simulator.md').write_text(page(head, table, rows, notes), encoding='utf-8')


if __name__ == '__main__':
    main()
