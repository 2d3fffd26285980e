#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summarize.py -- what a run achieved, read from its log: test error, speed, bytes sent. Usage: summarize.py LOG [--model FILE]"""
import argparse
import re
import sys

NUMBER = r'[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?'
UNITS = {'B': 1, 'kB': 1e3, 'MB': 1e6, 'GB': 1e9, 'TB': 1e12}
EPOCH = re.compile(rf'Finished Epoch\[ *(\d+) of (\d+)\]: \[Training\] .*totalSamplesSeen = (\d+);.*epochTime=({NUMBER})s')
FINAL = re.compile(r'Final Results: Minibatch\[\d+-\d+\]: (.*)')
RESULT = re.compile(rf'([^;=]+?) = ({NUMBER})(%?) \* (\d+)')
EXCHANGE = re.compile(rf'Exchange of Epoch\[.*\]: ({NUMBER}) (\w+) sent by this rank of (\d+), ({NUMBER}) bits per value')


def read(lines):
    """Epochs as (samples, seconds), the last test's results as (name, value, percent, count), exchanges as (bytes, bits, ranks)."""
    epochs, results, exchanges, totals = [], [], [], []
    for line in lines:
        if match := EPOCH.search(line):
            total = int(match.group(3))
            # A resumed run adds to the log: an epoch that it repeats counts once.
            while totals and totals[-1] >= total:
                totals.pop()
                epochs.pop()
            epochs.append((total - (totals[-1] if totals else 0), float(match.group(4))))
            totals.append(total)
            del exchanges[len(epochs) - 1:]
        elif match := FINAL.search(line):
            results = [(n.strip(), float(v), p == '%', int(c)) for n, v, p, c in RESULT.findall(match.group(1))]
        elif match := EXCHANGE.search(line):
            exchanges.append((float(match.group(1)) * UNITS[match.group(2)], float(match.group(4)), int(match.group(3))))
    return epochs, results, exchanges


def size(n):
    for unit in ('B', 'kB', 'MB', 'GB'):
        if n < 1000:
            return f'{n:.1f} {unit}' if unit != 'B' else f'{n:.0f} B'
        n /= 1000
    return f'{n:.1f} TB'


def summary(lines, log, model):
    epochs, results, exchanges = read(lines)
    rows = []
    for name, value, percent, count in results:
        if percent:
            rows.append(('Test error', f'{value:.2f} % of {count:,} samples that were not trained on ({name})'))
        else:
            rows.append(('Test criterion', f'{value:.4f} ({name})'))
    if epochs:
        # The first epoch warms caches up; with more than one it is left out of the rate.
        counted = epochs[1:] or epochs
        rate = sum(s for s, _ in counted) / max(sum(t for _, t in counted), 1e-9)
        ranks = f' on {exchanges[0][2]} ranks' if exchanges else ''
        rows.append(('Training speed', f'{rate:,.0f} samples/s{ranks} ({len(epochs)} epochs, {sum(t for _, t in epochs):.1f} s)'))
    if exchanges:
        sent = sum(b for b, _, _ in exchanges)
        full = sum(b * 32 / bits for b, bits, _ in exchanges)
        rows.append(('Sent by each rank', f'{size(sent)}; as float32 it would be {size(full)}, {full / sent:.1f} times as much'))
    if model:
        rows.append(('Model', model))
    rows.append(('Log', log))
    width = max(len(k) for k, _ in rows)
    return '\n'.join(f'  {k:<{width}}  {v}' for k, v in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('log')
    parser.add_argument('--model')
    arguments = parser.parse_args()
    try:
        with open(arguments.log, encoding='utf-8', errors='replace') as f:
            print(summary(f, arguments.log, arguments.model))
    except OSError as e:
        print(f'error: cannot read the log: {e}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
