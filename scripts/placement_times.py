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
import re
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'scripts' / 'reproduce'))

import common  # noqa: E402  (the folder must be on the path first)
import page  # noqa: E402

PLACEMENTS = ('replicate', 'shard', 'single', 'auto')
# name -> title, config, samples of all hosts in a step, steps of an epoch, words
NETWORKS = {
    'mlp': ('MLP 784-3x1024-10', 'samples/mnist/mnist.cntk', 128, 6, ['Hidden=1024', 'Layers=3']),
    'lenet': ('LeNet', 'samples/mnist/lenet.cntk', 128, 6, []),
    'resnet20': ('ResNet-20', 'samples/cifar10/resnet20.cntk', 128, 4, []),
    'alexnet': ('AlexNet', 'samples/hybrid/alexnet.cntk', 128, 1, []),
}


def parse():
    parser = argparse.ArgumentParser(description='Times of a step by placement of the dense layers.')
    parser.add_argument('trainer', nargs='?', type=pathlib.Path, default=ROOT / 'build' / 'trainer')
    parser.add_argument('--hosts', type=int, default=4)
    parser.add_argument('--links', default='100mbit,1gbit')
    parser.add_argument('--networks', default=','.join(NETWORKS))
    parser.add_argument('--bits', type=int, default=32, help='of the gradients of replicated layers')
    parser.add_argument('--rounds', type=int, default=1, help='the fastest counts')
    parser.add_argument('--minutes', type=float, default=30)
    parser.add_argument('--write', action='store_true')
    options = parser.parse_args()
    unknown = [n for n in options.networks.split(',') if n not in NETWORKS]
    if unknown:
        parser.error(f"there is no network '{unknown[0]}'; there are {', '.join(NETWORKS)}")
    return options


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


TARGET = ROOT / 'docs' / 'results' / 'hybrid.md'
MARK = re.compile(r'(<!-- placement_times.py -->\n).*(<!-- end -->)', re.DOTALL)


def put(text):
    """Between the marks in the page."""
    TARGET.write_text(MARK.sub(lambda m: f'{m[1]}\n{text}\n\n{m[2]}', TARGET.read_text(encoding='utf-8')), encoding='utf-8')


def main():
    options = parse()
    if options.write and not MARK.search(TARGET.read_text(encoding='utf-8')):
        sys.exit(f'error: {TARGET} has no <!-- placement_times.py --> ... <!-- end -->')
    with tempfile.TemporaryDirectory() as work:
        bench_options = types.SimpleNamespace(quick=False, resume=False, minutes=options.minutes, no_hosts=False, parts=[], name='', trainer=options.trainer,
                                              work=pathlib.Path(work), pages=ROOT / 'docs' / 'results')
        rows = []
        with common.Bench('placement-times', bench_options, ()) as bench:
            if not bench.emulated:
                sys.exit(f'error: {bench.why_not}')
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
    if options.write:
        put(f'{where}\n\n{table}')


if __name__ == '__main__':
    main()
