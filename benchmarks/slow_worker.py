#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow_worker.py -- what does one rank that sleeps before each of its steps do to a run? For each method and number of ranks: seconds of
an epoch undisturbed and with the fault hook, their ratio, and the ratio of a run that loses this rank altogether, P/(P-1), which a
method that waits for nobody should not exceed (apart from one sleep at the end of each epoch). Undisturbed and disturbed runs take turns;
of each run the fastest epoch counts, and the table has medians over the turns.

  benchmarks/slow_worker.py --trainer build/trainer --ranks 2,4 --sleep 5
  benchmarks/slow_worker.py --methods easgd-async --set 'Train=[SGD=[minibatchSize=256]]'

A sleep is given in undisturbed steps of a rank.
"""
import argparse
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

METHODS = {
    'dataparallel': 'parallelizationMethod=DataParallelSGD',
    'easgd': 'parallelizationMethod=EASGD;EASGD=[period=10]',
    'easgd-async': 'parallelizationMethod=EASGD;EASGD=[period=10;policy=async]',
    'easgd-async-static': 'parallelizationMethod=EASGD;EASGD=[period=10;policy=async;dealing=static]',
    'asgd': 'parallelizationMethod=DataParallelASGD',
    'backup': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=sync;push=gradients;backupWorkers=1]',
}

CONFIG = '''# SPDX-License-Identifier: Apache-2.0
command = Train
parallelTrain = true
makeMode = false
Train = [
  action = train
  SimpleNetworkBuilder = [ layerSizes = 784:1024:1024:10 ; layerTypes = RectifiedLinear
    trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError ]
  SGD = [ maxEpochs = @EPOCHS@ ; minibatchSize = @MINIBATCH@ ; learningRatesPerSample = 0.0001 ; numMBsToShowResult = 0
    ParallelTrain = [ @METHOD@ @HOOK@ ] ]
  reader = [ readerType = SyntheticReader ; kind = digits ; samples = @SAMPLES@ ]
]
'''


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory = options, pathlib.Path(directory)

    def run(self, method, ranks, hook=''):
        """Seconds of the fastest epoch (the first is left out), and the lots of each rank in the last one."""
        o = self.options
        text = CONFIG
        for key, value in {'EPOCHS': o.epochs + 1, 'MINIBATCH': o.batch * ranks, 'METHOD': METHODS[method],
                           'HOOK': f'; faultHook=[{hook}]' if hook else '', 'SAMPLES': o.batch * ranks * o.steps}.items():
            text = text.replace(f'@{key}@', str(value))
        config = self.directory / 'run.cntk'
        config.write_text(text, encoding='utf-8')
        env = dict(os.environ, OMP_NUM_THREADS='1')
        if os.geteuid() == 0:  # Open MPI wants this said twice
            env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
        place = ['--bind-to', 'core'] if ranks <= os.cpu_count() else ['--oversubscribe', '--bind-to', 'none']
        command = [*shlex.split(o.mpiexec), '-n', str(ranks), *place, str(o.trainer.resolve()), f'configFile={config}',
                   f'modelPath={self.directory}/net', *o.set]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=o.timeout)
        if done.returncode != 0:
            sys.exit(f'{" ".join(command)}\nended with exit code {done.returncode}\n{done.stderr[-3000:]}')
        times = [float(t) for t in re.findall(r'epochTime=([\d.e+-]+)s', done.stderr)][1:]
        lots = re.findall(r'Lots of .* by rank: ([\d, ]+)', done.stderr)
        return min(times), (lots[-1].strip() if lots else '')

    def row(self, method, ranks):
        o = self.options
        undisturbed, disturbed, lots = [], [], ''
        for _ in range(o.repetitions):
            seconds, _ = self.run(method, ranks)
            undisturbed.append(seconds)
            sleep = o.sleep * undisturbed[0] / o.steps
            seconds, lots = self.run(method, ranks, f'rank={ranks - 1};sleep={sleep:.6f}')
            disturbed.append(seconds)
        ratio = statistics.median(b / a for a, b in zip(undisturbed, disturbed))
        print(f'| {method} | {ranks} | {statistics.median(undisturbed):.3f} | {1000 * sleep:.1f} | {statistics.median(disturbed):.3f} | '
              f'{ratio:.2f} | {ranks / (ranks - 1):.2f} | {lots} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', default=pathlib.Path('build/trainer'), type=pathlib.Path)
    parser.add_argument('--mpiexec', default='mpiexec', help='with options')
    parser.add_argument('--methods', default='dataparallel,easgd,easgd-async-static,easgd-async,asgd,backup')
    parser.add_argument('--ranks', default='2,4')
    parser.add_argument('--sleep', default=5.0, type=float, help='in steps of a rank')
    parser.add_argument('--batch', default=64, type=int, help='samples of a rank and step')
    parser.add_argument('--steps', default=60, type=int, help='of a rank in an epoch')
    parser.add_argument('--epochs', default=3, type=int, help='that count')
    parser.add_argument('--repetitions', default=3, type=int)
    parser.add_argument('--timeout', default=300, type=float)
    parser.add_argument('--set', action='append', default=[], help='more settings')
    options = parser.parse_args()
    print('| method | ranks | epoch, s | sleep, ms | epoch with it, s | ratio | without that rank | lots by rank |')
    print('|---|--:|--:|--:|--:|--:|--:|---|')
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, directory)
        for ranks in map(int, options.ranks.split(',')):
            for method in options.methods.split(','):
                bench.row(method, ranks)


if __name__ == '__main__':
    main()
