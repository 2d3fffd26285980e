#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throughput.py -- training speed by number of ranks and gradient bits, and as a share of what oneDNN's own matrix product reaches.

One core per rank, the same samples per rank whatever their number, random data made by the program. All settings take turns, in an
order that rotates from turn to turn, and the product is measured on the first rank's core right before and after each of them, so that
a machine that slows down slows all of them; the table shows medians of ratios taken within a turn. The trainer's own minibatch lines
are what is measured.

  benchmarks/throughput.py                       1 and 2 ranks (as cores allow), 32 and 1 bits, from build/
  benchmarks/throughput.py --ranks 1,2,4 --bits 32,8,1 --hidden 1024*2 --per-rank 128
  benchmarks/throughput.py --ranks 2 --transports messages,sharedMemory      messages against shared memory
"""
import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile

import runs

CONFIG = '''
command = Train
modelPath = "models/model.dnn"
makeMode = false
traceLevel = 1
numCPUThreads = 1
Train = [
    action = "train"
    SimpleNetworkBuilder = [
        layerSizes = {layers}
        layerTypes = "RectifiedLinear"
        trainingCriterion = "CrossEntropyWithSoftmax"
        evalCriterion = "ClassificationError"
    ]
    SGD = [
        epochSize = {samples}
        minibatchSize = {minibatch}
        learningRatesPerMB = 0.01
        momentumPerMB = 0.9
        maxEpochs = 1
        numMBsToShowResult = {interval}
        ParallelTrain = [
            parallelizationMethod = "DataParallelSGD"
            transport = {transport}
            DataParallelSGD = [ gradientBits = {bits} ]
        ]
    ]
    reader = [
        readerType = "SyntheticReader"
        kind = "random"
        samples = {samples}
        input = [
            features = [ dim = {inputs} ]
            labels = [ labelDim = {outputs} ]
        ]
    ]
]
'''


def flop_per_sample(layers):
    """Multiply-adds of forward, weight gradients, and data gradients (not those of the first layer), times two."""
    products = [a * b for a, b in zip(layers, layers[1:])]
    return 2 * (3 * sum(products) - products[0])


def training_rate(arguments, ranks, bits, transport):
    """Median samples per second over the reported intervals, the first left out."""
    layers = [arguments.inputs, *runs.sizes(arguments.hidden), arguments.outputs]
    minibatch = arguments.per_rank * ranks
    config = CONFIG.format(layers=':'.join(map(str, layers)), samples=minibatch * arguments.minibatches, minibatch=minibatch, bits=bits, transport=transport,
                           interval=arguments.interval, inputs=arguments.inputs, outputs=arguments.outputs)
    with tempfile.TemporaryDirectory(prefix='tutti-throughput-') as folder:
        (pathlib.Path(folder) / 'run.cntk').write_text(config, encoding='utf-8')
        text = runs.call([*runs.on_ranks(ranks), arguments.trainer, 'configFile=run.cntk'], cwd=folder)
    exchanged = re.search(r'([\d.]+) bits per value', text)
    return statistics.median(runs.figures(text, 'samplesPerSecond')[1:]), float(exchanged.group(1)) if exchanged else None


def product_rates(arguments):
    """GFLOP/s of oneDNN's product of the widest layer on the core of the first rank: packed weights, plain weights."""
    widest = max(runs.sizes(arguments.hidden))
    first_core = min(os.sched_getaffinity(0))
    seconds = 0.4
    return [float(r) for r in runs.call(['taskset', '-c', first_core, arguments.gemm, arguments.per_rank, widest, widest, seconds]).split()]


def measure(arguments, settings):
    """Per setting and turn: samples per second and both product rates next to it; and the bits per value on the wire."""
    turns, wire = [], {}
    for turn in range(arguments.repetitions):
        found = {}
        before = product_rates(arguments)
        for setting in runs.rotated(settings, turn):
            rate, wire[setting] = training_rate(arguments, *setting)
            after = product_rates(arguments)
            found[setting] = (rate, *(statistics.mean(pair) for pair in zip(before, after)))
            before = after
        turns.append(found)
        print(f'turn {turn + 1} of {arguments.repetitions}', file=sys.stderr)
    return turns, wire


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument('--build', type=pathlib.Path, default=runs.ROOT / 'build', help='build directory')
    parser.add_argument('--ranks', type=runs.numbers, default=[r for r in (1, 2, 4, 8) if r <= cores])
    parser.add_argument('--bits', type=runs.numbers, default=[32, 1])
    parser.add_argument('--transports', type=lambda text: text.split(','), default=['auto'], help='transports of the exchange, see docs/methods/transport.md')
    parser.add_argument('--inputs', type=int, default=784)
    parser.add_argument('--hidden', default='2048*3')
    parser.add_argument('--outputs', type=int, default=10)
    parser.add_argument('--per-rank', type=int, default=256, help='samples of a minibatch per rank')
    parser.add_argument('--minibatches', type=int, default=40, help='of one turn')
    parser.add_argument('--interval', type=int, default=5, help='minibatches per measured interval')
    parser.add_argument('--repetitions', type=int, default=5)
    arguments = parser.parse_args()
    arguments.trainer, arguments.gemm = runs.needed(arguments.build, 'trainer', 'benchmarks/gemm_rate')

    settings = [(ranks, bits, transport) for ranks in arguments.ranks for bits in arguments.bits for transport in arguments.transports]
    turns, wire = measure(arguments, settings)

    layers = [arguments.inputs, *runs.sizes(arguments.hidden), arguments.outputs]
    gflop = flop_per_sample(layers) / 1e9
    base_setting = next((s for s in settings if s[:2] == (1, 32)), settings[0])
    everywhere = [found[s] for found in turns for s in settings]
    print(f'network {":".join(map(str, layers))}, {arguments.per_rank} samples per rank, {gflop * 1e3:.1f} MFLOP per sample')
    widest = max(layers[1:-1])
    for name, column in (('packed', 1), ('plain', 2)):
        values = [f[column] for f in everywhere]
        print(f'oneDNN product {arguments.per_rank} x {widest} x {widest} on one core, {name} weights: '
              f'{statistics.median(values):.1f} GFLOP/s (of {min(values):.1f} to {max(values):.1f})')
    print(f'{"ranks":>5} {"bits":>4} {"transport":>12} {"samples/s":>10} {"lowest":>9} {"highest":>9} {"speed-up":>8} {"GFLOP/s per rank":>16} '
          f'{"of packed":>10} {"of plain":>9} {"bits on wire":>12}')
    for s in settings:
        ranks, bits, transport = s
        rates = [found[s][0] for found in turns]
        speedup = statistics.median(found[s][0] / found[base_setting][0] for found in turns)
        of_packed, of_plain = (statistics.median(found[s][0] * gflop / ranks / found[s][c] for found in turns) for c in (1, 2))
        rate = statistics.median(rates)
        on_wire = f'{wire[s]:.3f}' if wire[s] else '-'
        print(f'{ranks:>5} {bits:>4} {transport:>12} {rate:>10.1f} {min(rates):>9.1f} {max(rates):>9.1f} {speedup:>8.3f} '
              f'{rate * gflop / ranks:>16.1f} {of_packed:>10.1%} {of_plain:>9.1%} {on_wire:>12}')
    print(f'speed-up: against {base_setting[0]} rank{"s" if base_setting[0] > 1 else ""} with {base_setting[1]} bits and {arguments.per_rank} samples per minibatch')


if __name__ == '__main__':
    main()
