#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""placement_times.py -- the time of a step by where the dense layers lie, on emulated hosts: whether ModelParallel = [ dense = "auto" ] finds
what is fastest. Prints a table; --write puts it into docs/results/hybrid.md.

Each network trains on random numbers with its dense layers replicated, sharded, single and placed by auto, in turn; the fastest epoch after
the first counts. Needs root (scripts/cluster.sh).

Usage: placement_times.py [--hosts 4] [--links 100mbit,1gbit] [--networks mlp,lenet,...] [--rounds 1] [--write] [TRAINER]
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'scripts' / 'reproduce'))

import networks  # noqa: E402  (the folder must be on the path first)
import page  # noqa: E402

PLACEMENTS = ('replicate', 'shard', 'single', 'auto')
# name -> title, config, samples of all hosts in a step, steps of an epoch, words
NETWORKS = {
    'mlp': ('MLP 784-3x1024-10', 'samples/mnist/mnist.cntk', 128, 12, ['Hidden=1024', 'Layers=3']),
    'lenet': ('LeNet', 'samples/mnist/lenet.cntk', 128, 12, []),
    'resnet20': ('ResNet-20', 'samples/cifar10/resnet20.cntk', 128, 4, []),
    'alexnet': ('AlexNet', 'samples/hybrid/alexnet.cntk', 128, 1, []),
}


def parse():
    parser = argparse.ArgumentParser(description='Times of a step by placement of the dense layers.')
    parser.add_argument('--hosts', type=int, default=4)
    parser.add_argument('--bits', type=int, default=32, help='of the gradients of replicated layers')
    parser.add_argument('--rounds', type=int, default=1, help='the fastest counts')
    return networks.parse(parser, NETWORKS, '100mbit,1gbit', 30)


def seconds_per_step(bench, hosts, options, network, placement):
    """Of the fastest epoch after the first; None where the run failed or the time is up."""
    title, config, minibatch, steps, words = NETWORKS[network]
    sgd = (f'SGD=[minibatchSize={minibatch};epochSize={minibatch * steps};maxEpochs=3;numMBsToShowResult=0;ModelParallel=[dense={placement}];'
           f'ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits={options.bits}]]];reader=[samples={minibatch * steps}]')
    run = bench.run(f'{network}-{hosts.link}-{placement}', config, f'Synthetic=[{sgd}]', *words, hosts=hosts, command='Synthetic', section='Synthetic')
    return min(e.seconds for e in run.counted) / steps if run else None


def row_of(title, link, times):
    best = min((t for p, t in times.items() if p != 'auto' and t), default=None)
    cells = [page.NOTHING if times[p] is None else f'{times[p]:.3f}' for p in PLACEMENTS]
    return [title, link, *cells, f'{times["auto"] / best:.2f}' if best and times['auto'] else None,
            f'{times["auto"] / times["replicate"]:.2f}' if times['auto'] and times['replicate'] else None]


def main():
    options = parse()
    part = networks.PartOfPage('hybrid.md', 'placement_times.py') if options.write else None
    rows = []
    with networks.emulated('placement-times', options) as bench:
        for link in options.links.split(','):
            with bench.hosts(options.hosts, link) as hosts:
                for network in options.networks.split(','):
                    times = dict.fromkeys(PLACEMENTS)
                    for _ in range(options.rounds):
                        for placement in PLACEMENTS:
                            found = seconds_per_step(bench, hosts, options, network, placement)
                            times[placement] = min((t for t in (found, times[placement]) if t), default=None)
                    rows.append(row_of(NETWORKS[network][0], link, times))
    table = page.table(['network', 'link', *PLACEMENTS, '`auto` / best', '`auto` / replicate'], rows)
    model, isa, cores = page.processor()
    where = f'Seconds of a step of 128 samples, {options.hosts} hosts that share {cores} cores ({model}, {isa}), gradients in {options.bits} bits, commit {page.commit()}:'
    print(f'\n{where}\n\n{table}')
    if part:
        part.put(f'{where}\n\n{table}')


if __name__ == '__main__':
    main()
