#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mnist_accuracy.py -- what do the methods of exchange reach in equal epochs, and with few bits? One network with one hidden layer on
MNIST, for every method, number of bits and seed; the table shows errors on the test images. A seed decides the initial weights and the
order of the images; all methods start from the same ones. The settings are those of samples/methods/METHOD.cntk.

  benchmarks/mnist_accuracy.py                                      every method on 4 ranks, in the bits of its sample and in 32, seeds 1 to 3
  benchmarks/mnist_accuracy.py --methods easgd,diloco --bits 32,bf16,4,1
  benchmarks/mnist_accuracy.py --methods dataparallel --bits 32,1 --ranks 1,2,4
  benchmarks/mnist_accuracy.py --methods dataparallel --bits 32,1 --set Activation=Sigmoid \\
      --set 'Train=[SGD=[dropoutRate=0;minibatchSize=128;learningRatesPerMB=0.8*8:0.2]]' --runs output/sigmoid

Logs and models stay in the folder --runs; a run that is already there is not repeated.
"""
import argparse
import pathlib
import re
import statistics

import runs

SAMPLES = runs.ROOT / 'samples/methods'
PLAIN = 'plain'  # on one rank: what the others are compared with


def methods():
    return sorted(p.stem for p in SAMPLES.glob('*.cntk') if p.stem not in ('common', 'mnist', PLAIN))


def block_of(method):
    """The block of options that the sample of a method sets, as its preset says: the last method named, but for what groups do inside."""
    text = (SAMPLES / f'{method}.cntk').read_text(encoding='utf-8')
    for included in re.findall(r'^include=(\S+)', text, re.MULTILINE):
        text = (SAMPLES / included).read_text(encoding='utf-8') + text
    text = re.sub(r'insideGroups\s*=\s*\[.*?\]', '', text)
    found = re.findall(r'parallelizationMethod\s*=\s*"?(\w+)', text)
    return {'ASGD': 'DataParallelASGD'}.get(found[-1], found[-1]) if found else None


def in_bits(method, bits):
    """The setting for a number of bits; none for those of the sample."""
    block = block_of(method)
    if bits == 'sample' or block is None:
        return []
    key = 'gradientBits' if block == 'DataParallelSGD' else 'exchangeBits'
    return [f'Train=[SGD=[ParallelTrain=[{block}=[{key}={bits}]]]]']


def error(directory):
    """The test error in percent that a finished run logged, or None."""
    try:
        log = (directory / 'run.log').read_text(encoding='utf-8')
    except OSError:
        return None
    found = re.findall(r'^Final Results: .*?errs = ([\d.e+-]+)%', log, re.MULTILINE)
    return float(found[-1]) if found else None


def train(options, method, ranks, bits, seed):
    directory = options.runs / f'{method}-{ranks}-ranks-{bits}-bits-seed-{seed}'
    if error(directory) is None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = [f'configFile={SAMPLES / method}.cntk+{SAMPLES}/mnist.cntk', f'DataDir={options.data.resolve()}', f'Seed={seed}',
                    'modelPath=model.dnn', 'stderr=run.log', 'makeMode=false', 'numCPUThreads=1', *in_bits(method, bits), *options.set]
        runs.call([*runs.on_ranks(ranks, options.mpiexec), options.trainer.resolve(), *settings], cwd=directory)
    return error(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', type=pathlib.Path, default=runs.ROOT / 'data/mnist', help='folder with the four files (scripts/get_mnist.sh)')
    parser.add_argument('--trainer', type=pathlib.Path, default=runs.ROOT / 'build/trainer')
    parser.add_argument('--mpiexec', default='mpiexec', help='the command that starts ranks')
    parser.add_argument('--runs', type=pathlib.Path, default=runs.ROOT / 'output/mnist_accuracy')
    parser.add_argument('--methods', type=runs.words, default=methods(), help='files of samples/methods')
    parser.add_argument('--ranks', type=runs.numbers, default=[4])
    parser.add_argument('--bits', type=runs.words, default=['32', 'sample'], help='32, 16, bf16, 8, 4, 2, 1, or sample: what the file says')
    parser.add_argument('--seeds', type=runs.numbers, default=[1, 2, 3])
    parser.add_argument('--set', action='append', default=[], help='more settings, for all runs')
    options = parser.parse_args()

    print(f'| method | ranks | bits | {" | ".join(f"seed {s}" for s in options.seeds)} | mean | against plain |')
    print('|' + '---|' * (len(options.seeds) + 5))
    plain = None
    for method, ranks, bits in [(PLAIN, 1, '32')] + [(m, r, b) for m in options.methods for r in options.ranks for b in options.bits]:
        errors = [train(options, method, ranks, bits, seed) for seed in options.seeds]
        mean = statistics.mean(errors)
        plain = mean if plain is None else plain
        print(f'| {method} | {ranks} | {bits} | {" | ".join(f"{e:.2f}" for e in errors)} | {mean:.2f} | {mean - plain:+.2f} |', flush=True)


if __name__ == '__main__':
    main()
