#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mnist_accuracy.py -- does training with few bits per gradient reach what 32 bits reach? One network with one hidden layer on MNIST,
for every number of ranks, bits and seed; the table shows errors on the test images. A seed decides the initial weights and the order
of the images; both numbers of bits train from the same ones.

  benchmarks/mnist_accuracy.py                                       the settings of samples/mnist: 1, 2, 4 ranks, 32 and 1 bits, seeds 1 to 3
  benchmarks/mnist_accuracy.py --activation Sigmoid --dropout 0 --minibatch 128 --rates 0.8*8:0.2 --runs output/sigmoid

Logs and models stay in the folder --runs; a run that is already there is not repeated.
"""
import argparse
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

CONFIG = '''
command = Train:Test
modelPath = "model.dnn"
stderr = "run.log"
numCPUThreads = 1
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        features = Input {{784}}
        labels   = Input {{10}}

        W1 = ParameterTensor {{({hidden}:784), init = '{init}', randomSeed = {seed}}}
        b1 = ParameterTensor {{{hidden}, init = 'fixedValue', value = 0}}
        W2 = ParameterTensor {{(10:{hidden}), init = '{init}', randomSeed = {seed} + 1000}}
        b2 = ParameterTensor {{10, init = 'fixedValue', value = 0}}
        h  = Dropout ({activation} (W1 * features + b1))
        z  = W2 * h + b2

        ce   = CrossEntropyWithSoftmax (labels, z)
        errs = ClassificationError (labels, z)

        featureNodes    = (features)
        labelNodes      = (labels)
        criterionNodes  = (ce)
        evaluationNodes = (errs)
        outputNodes     = (z)
    ]
    SGD = [
        epochSize = 0
        maxEpochs = {epochs}
        minibatchSize = {minibatch}
        learningRatesPerMB = {rates}
        momentumPerMB = {momentum}
        dropoutRate = {dropout}
        numMBsToShowResult = 0
        ParallelTrain = [
            parallelizationMethod = "DataParallelSGD"
            DataParallelSGD = [ gradientBits = {bits} ]
        ]
    ]
    reader = [
        readerType = "IDXReader"
        randomizationSeed = {seed}
        features = [ file = "{data}/train-images-idx3-ubyte.gz" ]
        labels   = [ file = "{data}/train-labels-idx1-ubyte.gz" ; labelDim = 10 ]
    ]
]
Test = [
    action = "test"
    minibatchSize = 1000
    reader = [
        readerType = "IDXReader"
        features = [ file = "{data}/t10k-images-idx3-ubyte.gz" ]
        labels   = [ file = "{data}/t10k-labels-idx1-ubyte.gz" ; labelDim = 10 ]
    ]
]
'''


def error(directory):
    """The test error in percent that a finished run logged, or None."""
    try:
        log = (directory / 'run.log').read_text(encoding='utf-8')
    except OSError:
        return None
    found = re.findall(r'^Final Results: .*?errs = ([\d.e+-]+)%', log, re.MULTILINE)
    return float(found[-1]) if found else None


def train(options, ranks, bits, seed):
    directory = options.runs / f'{ranks}-ranks-{bits}-bits-seed-{seed}'
    if error(directory) is None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = {**vars(options), 'bits': bits, 'seed': seed, 'data': options.data.resolve()}
        (directory / 'run.cntk').write_text(CONFIG.format(**settings), encoding='utf-8')
        env = dict(os.environ)
        if os.geteuid() == 0:  # Open MPI wants this said twice
            env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
        binding = ['--bind-to', 'core'] if ranks <= os.cpu_count() else ['--oversubscribe', '--bind-to', 'none']
        run = [*shlex.split(options.mpiexec), '-n', str(ranks), *binding, str(options.trainer.resolve()), 'configFile=run.cntk']
        done = subprocess.run(run, cwd=directory, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f'{" ".join(run)}\nin {directory} ended with exit code {done.returncode}\n{done.stderr[-2000:]}')
    return error(directory)


def numbers(text):
    return [int(n) for n in text.split(',')]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', type=pathlib.Path, default=ROOT / 'data/mnist', help='folder with the four files (scripts/get_mnist.sh)')
    parser.add_argument('--trainer', type=pathlib.Path, default=ROOT / 'build/trainer')
    parser.add_argument('--mpiexec', default='mpiexec', help='the command that starts ranks')
    parser.add_argument('--runs', type=pathlib.Path, default=ROOT / 'output/mnist_accuracy')
    parser.add_argument('--ranks', type=numbers, default=[1, 2, 4])
    parser.add_argument('--bits', type=numbers, default=[32, 1])
    parser.add_argument('--seeds', type=numbers, default=[1, 2, 3])
    parser.add_argument('--hidden', type=int, default=400)
    parser.add_argument('--activation', default='ReLU')
    parser.add_argument('--init', default='heUniform')
    parser.add_argument('--dropout', type=float, default=0.2)
    parser.add_argument('--minibatch', type=int, default=64)
    parser.add_argument('--rates', default='0.4*6:0.1*3:0.02', help='learningRatesPerMB')
    parser.add_argument('--momentum', type=float, default=0.9)
    parser.add_argument('--epochs', type=int, default=12)
    options = parser.parse_args()

    print(f'| ranks | bits | {" | ".join(f"seed {s}" for s in options.seeds)} | mean | against {options.bits[0]} bits |')
    print('|' + '---|' * (len(options.seeds) + 4))
    for ranks in options.ranks:
        reference = None
        for bits in options.bits:
            errors = [train(options, ranks, bits, seed) for seed in options.seeds]
            mean = statistics.mean(errors)
            difference = '' if reference is None else f'{mean - reference:+.2f}'
            reference = mean if reference is None else reference
            print(f'| {ranks} | {bits} | {" | ".join(f"{e:.2f}" for e in errors)} | {mean:.2f} | {difference} |', flush=True)


if __name__ == '__main__':
    main()
