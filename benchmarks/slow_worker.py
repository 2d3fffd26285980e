#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow_worker.py -- what does one rank that sleeps before each of its steps do to a run? For each method and number of ranks: seconds of
an epoch undisturbed and with the fault hook, and their ratio. Undisturbed and disturbed runs take turns; of each run the fastest epoch
counts, and the table has medians over the turns.

  benchmarks/slow_worker.py --trainer build/trainer --ranks 2,4 --sleep 5
  benchmarks/slow_worker.py --methods easgd-async --set 'Train=[SGD=[minibatchSize=256]]'

A sleep is given in undisturbed steps of a rank. Two columns tell what to compare with:

  without that rank   the ratio of a run that loses this rank altogether, which a method that waits for nobody should not exceed (apart from
                      one sleep at the end of each epoch): P/(P-1) where each rank has a core, and 1 where P-1 ranks keep all cores busy
  first rank          by how much longer the first rank needs for its own steps of an epoch. Where each rank (or group of ranks) has a
                      fixed part of the data, the epoch ends when the slow one has done its part, but this stays at 1 if nobody waits
"""
import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile

import runs

METHODS = {
    'dataparallel': 'parallelizationMethod=DataParallelSGD',
    'easgd': 'parallelizationMethod=EASGD;EASGD=[period=10]',
    'easgd-async': 'parallelizationMethod=EASGD;EASGD=[period=10;policy=async]',
    'easgd-async-static': 'parallelizationMethod=EASGD;EASGD=[period=10;policy=async;division=static]',
    'asgd': 'parallelizationMethod=DataParallelASGD',
    'asgd-pipeline': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[usePipeline=true]',
    'backup': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=sync;push=gradients;backupWorkers=1]',
    'groups': 'parallelizationMethod=EASGD;EASGD=[period=10];groups=size:2',
    'mixed': 'parallelizationMethod=DataParallelASGD;groups=size:2',
    'mixed-easgd': 'parallelizationMethod=EASGD;EASGD=[period=10;policy=async];groups=size:2',
}
IN_GROUPS = ('groups', 'mixed', 'mixed-easgd')  # want two groups of two ranks at least

CONFIG = '''# SPDX-License-Identifier: Apache-2.0
command = Train
parallelTrain = true
makeMode = false
traceLevel = 1
Train = [
  action = train
  SimpleNetworkBuilder = [ layerSizes = 784:1024:1024:10 ; layerTypes = RectifiedLinear
    trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError ]
  SGD = [ maxEpochs = @EPOCHS@ ; minibatchSize = @MINIBATCH@ ; learningRatesPerSample = 0.0001 ; numMBsToShowResult = 1
    ParallelTrain = [ @METHOD@ @HOOK@ ] ]
  reader = [ readerType = SyntheticReader ; kind = digits ; samples = @SAMPLES@ ]
]
'''


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory = options, pathlib.Path(directory)

    def run(self, method, ranks, hook=''):
        """Of the fastest epoch (the first is left out): seconds, and those of the first rank's own steps; and the units of each rank in the last one."""
        o = self.options
        text = CONFIG
        for key, value in {'EPOCHS': o.epochs + 1, 'MINIBATCH': o.batch * ranks, 'METHOD': METHODS[method],
                           'HOOK': f'; faultHook=[{hook}]' if hook else '', 'SAMPLES': o.batch * ranks * o.steps}.items():
            text = text.replace(f'@{key}@', str(value))
        config = self.directory / 'run.cntk'
        config.write_text(text, encoding='utf-8')
        log = runs.call([*runs.on_ranks(ranks, o.mpiexec), o.trainer.resolve(), f'configFile={config}', f'modelPath={self.directory}/net', *o.set], timeout=o.timeout)
        epochs = [(float(seconds), sum(runs.figures(lines, 'time')))
                  for lines, seconds in re.findall(r'(.*?)epochTime=([\d.e+-]+)s', log, re.DOTALL)][1:]
        units = re.findall(r'Work units of .* by rank: ([\d, ]+)', log)
        return *min(epochs), units[-1].strip() if units else ''

    def row(self, method, ranks):
        o = self.options
        undisturbed, disturbed, units = [], [], ''
        for _ in range(o.repetitions):
            undisturbed.append(self.run(method, ranks)[:2])
            sleep = o.sleep * undisturbed[0][0] / o.steps
            *seconds, units = self.run(method, ranks, f'rank={ranks - 1};sleep={sleep:.6f}')
            disturbed.append(seconds)
        ratio, first = (statistics.median(b[i] / a[i] for a, b in zip(undisturbed, disturbed)) for i in (0, 1))
        cores = len(os.sched_getaffinity(0))
        return (f'| {method} | {ranks} | {statistics.median(a for a, _ in undisturbed):.3f} | {1000 * sleep:.1f} | '
                f'{statistics.median(b for b, _ in disturbed):.3f} | {ratio:.2f} | {min(ranks, cores) / min(ranks - 1, cores):.2f} | {first:.2f} | {units} |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', default=runs.ROOT / 'build/trainer', type=pathlib.Path)
    parser.add_argument('--mpiexec', default='mpiexec', help='with options')
    parser.add_argument('--methods', type=runs.words, default=list(METHODS), help=', '.join(METHODS))
    parser.add_argument('--ranks', type=runs.numbers, default=[2, 4])
    parser.add_argument('--sleep', default=5.0, type=float, help='in steps of a rank')
    parser.add_argument('--batch', default=64, type=int, help='samples of a rank and step')
    parser.add_argument('--steps', default=60, type=int, help='of a rank in an epoch')
    parser.add_argument('--epochs', default=3, type=int, help='that count')
    parser.add_argument('--repetitions', default=3, type=int)
    parser.add_argument('--timeout', default=300, type=float, help='seconds of a run')
    parser.add_argument('--set', action='append', default=[], help='more settings')
    options = parser.parse_args()
    if unknown := [m for m in options.methods if m not in METHODS]:
        sys.exit(f'there is no method {unknown[0]}: {", ".join(METHODS)}')
    if min(options.ranks) < 2:
        sys.exit('one rank has nobody to wait for: --ranks 2 or more')
    print('| method | ranks | epoch, s | sleep, ms | epoch with it, s | ratio | without that rank | first rank | units by rank |')
    print('|---|--:|--:|--:|--:|--:|--:|--:|---|')
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, directory)
        for ranks in options.ranks:
            for method in options.methods:
                if method not in IN_GROUPS or ranks >= 4:
                    print(bench.row(method, ranks), flush=True)


if __name__ == '__main__':
    main()
