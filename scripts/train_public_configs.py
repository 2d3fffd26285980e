#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_public_configs.py -- trains unmodified configs of the original for two epochs on 1 and on 2 ranks.

Prints a line of the table "Trained" of docs/results/coverage.md for each. Their data lie where the configs look for
them; each runs in its own folder.
Usage: train_public_configs.py TRAINER CONFIG... [--epoch-size N] [--train-only] [--limit SECONDS] [--logs DIR]
                               [--set KEY=VALUE]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

EPOCH = re.compile(r'Finished Epoch\[ *2 of 2\]: \[Training\] (.*?); totalSamplesSeen = (\d+)')
FINAL = re.compile(r'Final Results: Minibatch\[\d+-\d+\]: (.*)')
RESULT = re.compile(r'([^;=]+?) = ([-+\w.]+)(%?) \* \d+')
BLOCK = re.compile(r'^\s*(\w+)\s*=\s*[\[{](?:(?!^\s*\w+\s*=\s*[\[{]).)*?action\s*=\s*"?train\b',
                   re.MULTILINE | re.DOTALL | re.IGNORECASE)
PARALLEL = 'ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]]'


def train_block(text):
    """The name of the block with action = "train"."""
    match = BLOCK.search(text)
    if not match:
        raise ValueError('no block with action = "train"')
    return match.group(1)


def results(text):
    """[(name, value, '%' or '')] of one line of results."""
    return [(name.strip(), float(value), percent) for name, value, percent in RESULT.findall(text)]


def run(args, config, ranks):
    """The numbers of epoch 2, the samples seen and the numbers of the test (or none), or the reason of a failure."""
    text = re.sub(r'#.*', '', config.read_text(encoding='utf-8'))
    block = train_block(text)
    sgd = ['maxEpochs=2'] + [f'epochSize={args.epoch_size}'] * bool(args.epoch_size)
    if ranks > 1 and not re.search(r'parallelTrain\s*=\s*[\[{]', text, re.IGNORECASE):
        sgd.append(PARALLEL)
    command = ['mpiexec', '-n', str(ranks), '--oversubscribe'] if ranks > 1 else []
    model = args.logs / f'{config.stem}.{ranks}' / 'model'
    command += [str(args.trainer), f'configFile={config.name}', f"{block}=[SGD=[{';'.join(sgd)}]]",
                f'modelPath={model}', 'makeMode=false', 'numCPUThreads=1', f'parallelTrain={str(ranks > 1).lower()}']
    command += [*args.set, *[f'command={block}'] * args.train_only]
    log = args.logs / f'{config.stem}.{ranks}.log'
    with open(log, 'w', encoding='utf-8') as out:
        try:
            status = subprocess.run(command, cwd=config.parent, stdout=out, stderr=out, timeout=args.limit,
                                    check=False).returncode
        except subprocess.TimeoutExpired:
            return f'longer than {args.limit} s'
    lines = log.read_text(encoding='utf-8')
    epoch = EPOCH.search(lines)
    if status != 0 or not epoch:
        error = re.search(r'.*(?:error|EXCEPTION).*', lines)
        return f'status {status}: {error.group(0).strip() if error else "no second epoch"}'
    test = FINAL.findall(lines)
    return results(epoch.group(1)), int(epoch.group(2)), results(test[-1]) if test else []


def row(args, config):
    runs = [run(args, config, ranks) for ranks in (1, 2)]
    failed = [f'{ranks}: {r}' for ranks, r in zip((1, 2), runs) if isinstance(r, str)]
    name = '/'.join(config.parts[-2:])
    if failed:
        return f"| {name} | {'; '.join(failed)} | | | | |"
    (one, samples, test), (two, _, test_two) = runs

    def pair(a, b):
        return '; '.join(f'{n} {x:.6g}{p}/{y:.6g}{p}' for (n, x, p), (_, y, _) in zip(a, b)) or '-'
    first, second = one[0][1], two[0][1]
    difference = abs(first - second) / max(abs(first), 1e-30)
    return (f'| {name} | {samples} | {pair(one[:1], two[:1])} | {pair(one[1:2], two[1:2])} | '
            f'{pair(test[:1], test_two[:1])} | {difference:.1e} |')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('trainer', type=pathlib.Path)
    parser.add_argument('config', type=pathlib.Path, nargs='+')
    parser.add_argument('--epoch-size', type=int, help='samples of an epoch instead of the config\'s')
    parser.add_argument('--train-only', action='store_true', help='leave out the commands after training')
    parser.add_argument('--limit', type=float, default=300, help='seconds for a run')
    parser.add_argument('--logs', type=pathlib.Path, default=pathlib.Path('trained'), help='folder for logs and models')
    parser.add_argument('--set', action='append', default=[], help='a further setting')
    args = parser.parse_args()
    os.environ['OMP_NUM_THREADS'] = '1'
    if os.geteuid() == 0:  # Open MPI refuses to run as root unless both are set
        os.environ['OMPI_ALLOW_RUN_AS_ROOT'] = os.environ['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    args.trainer, args.logs = args.trainer.resolve(), args.logs.resolve()
    args.logs.mkdir(parents=True, exist_ok=True)
    for config in args.config:
        try:
            print(row(args, config.resolve()), flush=True)
        except (OSError, ValueError) as error:
            sys.exit(f'error: {config}: {error}')


if __name__ == '__main__':
    main()
