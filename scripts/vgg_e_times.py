#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vgg_e_times.py -- the experiment of neon's multi-GPU backend: the time of forward, backward and update of VGG, configuration E, for 512
images as eight minibatches of 64, by number of ranks and by where the dense layers lie. Prints a table and writes an SVG plot.

Images are small by default, so that it ends in minutes on two cores; --side 224 is the original size. On hosts of scripts/cluster.sh: --launcher
'scripts/cluster.sh run'.

Usage: vgg_e_times.py [--side 64] [--images 512] [--minibatch 64] [--ranks 1,2,4] [--pooling 2,3] [--launcher COMMAND] [--svg FILE] [TRAINER]
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# name, ModelParallel, gradient bits
VARIANTS = [('data parallel, 32 bits', 'replicate', 32), ('data parallel, 1 bit', 'replicate', 1), ('single', 'single', 32), ('shard', 'shard', 32),
            ('shard, rest 1 bit', 'shard', 1), ('auto, 1 bit', 'auto', 1)]
COLOURS = ['#555555', '#1f77b4', '#d62728', '#2ca02c', '#9467bd', '#ff7f0e']


def seconds(options, ranks, pooling, placement, bits):
    """Seconds of all minibatches but the first, scaled to all; parts of them; megabytes per minibatch."""
    batches = options.images // options.minibatch
    with tempfile.TemporaryDirectory() as out:
        settings = (f'SGD=[minibatchSize={options.minibatch};maxEpochs=2;epochSize={options.images};numMBsToShowResult=0;'
                    f'ModelParallel=[dense={placement}];ParallelTrain=[DataParallelSGD=[gradientBits={bits}]]];reader=[samples={options.images}]')
        command = [*shlex.split(options.launcher), '-n', str(ranks), options.trainer, f'configFile={SOURCE}/samples/hybrid/vgg-e.cntk', 'command=Synthetic',
                   f'OutputDir={out}', f'stderr={out}/log', f'Side={options.side}', f'Pooling={pooling}', f'Synthetic=[{settings}]', 'numCPUThreads=1']
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = pathlib.Path(out, 'log')
        text = log.read_text(encoding='utf-8') if log.exists() else done.stdout + done.stderr
        if done.returncode != 0:
            raise SystemExit(f'{shlex.join(command)}\n{text}{done.stderr}')
    line = re.search(r'Times of Epoch\[ 2 of 2\].*', text).group()

    def part(name):  # a rank alone has no times of an exchange
        found = re.search(name + r' ([\d.]+) s', line)
        return float(found.group(1)) if found else 0.0
    compute, encode, wait, decode, update = (part(n) for n in ('compute', 'encode', 'wait for ranks', 'decode', 'update'))
    total = float(re.findall(r'Finished Epoch\[ 2 of 2\].*?epochTime=([\d.e+-]+)s', text)[0])
    sent = re.findall(r'Exchange of Epoch\[ 2 of 2\]: ([\d.]+) (\w+) sent', text)
    unit = {'B': 1e-6, 'kB': 1e-3, 'MB': 1, 'GB': 1e3}
    megabytes = float(sent[0][0]) * unit[sent[0][1]] / batches if sent else 0
    return total, compute, encode + wait + decode, update, megabytes


def plot(rows, ranks, file):
    """Grouped bars: seconds by ranks, one colour for each variant."""
    names = [v[0] for v in VARIANTS]
    most = max(r[2] for r in rows)
    left, bottom, height, width, group = 60, 40, 260, 16, 16 * len(names) + 24
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + group * len(ranks) + 220}" height="{height + bottom + 30}" font-family="sans-serif" '
           'font-size="12">', f'<text x="{left}" y="16">seconds for all images (VGG E)</text>']
    for tick in range(5):
        y = 24 + height - height * tick / 4
        svg.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{most * tick / 4:.0f}</text>'
                   f'<line x1="{left}" x2="{left + group * len(ranks)}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
    for g, n in enumerate(ranks):
        svg.append(f'<text x="{left + group * g + group / 2:.0f}" y="{24 + height + 18}" text-anchor="middle">{n} rank{"s" if n > 1 else ""}</text>')
        for k, name in enumerate(names):
            for r in rows:
                if r[0] == n and r[1] == name:
                    h = height * r[2] / most
                    svg.append(f'<rect x="{left + group * g + 8 + width * k}" y="{24 + height - h:.1f}" width="{width - 2}" height="{h:.1f}" fill="{COLOURS[k]}"/>')
    for k, name in enumerate(names):
        y = 40 + 18 * k
        svg.append(f'<rect x="{left + group * len(ranks) + 12}" y="{y - 10}" width="10" height="10" fill="{COLOURS[k]}"/>'
                   f'<text x="{left + group * len(ranks) + 28}" y="{y}">{name}</text>')
    pathlib.Path(file).write_text('\n'.join([*svg, '</svg>', '']), encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('trainer', nargs='?', default=str(SOURCE / 'build' / 'trainer'))
    parser.add_argument('--side', type=int, default=64)
    parser.add_argument('--images', type=int, default=512)
    parser.add_argument('--minibatch', type=int, default=64)
    parser.add_argument('--ranks', default='1,2,4')
    parser.add_argument('--pooling', default='2')
    parser.add_argument('--launcher', default='mpiexec --oversubscribe --bind-to none')
    parser.add_argument('--svg')
    options = parser.parse_args()
    os.environ.setdefault('OMPI_ALLOW_RUN_AS_ROOT', '1')
    os.environ.setdefault('OMPI_ALLOW_RUN_AS_ROOT_CONFIRM', '1')
    ranks = [int(n) for n in options.ranks.split(',')]
    for pooling in (int(p) for p in options.pooling.split(',')):
        rows = []
        print(f'\nVGG E, pooling {pooling}, images of {options.side} x {options.side}, {options.images} images in minibatches of {options.minibatch}\n')
        print('| ranks | dense layers | seconds | forward, backward | exchange | update | MB sent per minibatch |\n|---:|---|---:|---:|---:|---:|---:|')
        for n in ranks:
            for name, placement, bits in VARIANTS if n > 1 else VARIANTS[:1]:
                total, compute, exchange, update, megabytes = seconds(options, n, pooling, placement, bits)
                rows.append((n, name, total))
                print(f'| {n} | {name if n > 1 else "on one rank"} | {total:.1f} | {compute:.1f} | {exchange:.1f} | {update:.1f} | {megabytes:.1f} |', flush=True)
        if options.svg:
            plot(rows, ranks, options.svg if pooling == 2 else options.svg.replace('.svg', f'-{pooling}.svg'))


if __name__ == '__main__':
    sys.exit(main())
