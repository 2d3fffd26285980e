#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_simulator.py -- sets what `trainer simulate` predicts beside what runs on emulated hosts (scripts/cluster.sh)
achieve: every method, on every number of hosts and every link, with a network of two hidden layers on random data.

  sudo scripts/check_simulator.py build/trainer [--hosts 2,4,8] [--links none,1gbit,100mbit] [--rows FILE] [--only TEXT]

Prints a line per case, the median and the largest error. --rows adds the cases to a file of JSON lines, which
scripts/simulator_page.py reads. It writes nowhere else than to that file and to a folder in /dev/shm, which it removes.
"""
import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORES = len(os.sched_getaffinity(0))  # that all hosts of cluster.sh share
MINIBATCH = 512
MOST_STEPS, FEWEST_STEPS = 240, 24  # of an epoch
WARM_UP, MEASURED = 6, 4  # seconds; on eight hosts at 100 Mbit/s, windows of TCP grow for the first five
IN_EVERY_STEP = ('DataParallelSGD', 'DataParallelSGD, late', 'ASA')  # methods to which the length of an epoch does not matter
CONFIG = f'''
command = Train
numCPUThreads = 1
traceLevel = 1
makeMode = false
parallelTrain = true
Train = [
    action = "train"
    modelPath = "net.dnn"
    SimpleNetworkBuilder = [
        layerSizes = 784:512:512:10
        layerTypes = "RectifiedLinear"
        trainingCriterion = "CrossEntropyWithSoftmax"
        evalCriterion = "ClassificationError"
    ]
    SGD = [
        epochSize = {FEWEST_STEPS * MINIBATCH}
        minibatchSize = {MINIBATCH}
        learningRatesPerSample = 0.00001
        maxEpochs = 3
        numMBsToShowResult = 1000
        ParallelTrain = [
            ModelAveragingSGD = [ blockSize = {6 * MINIBATCH} ]
            BlockMomentumSGD = [ blockSize = {12 * MINIBATCH} ]
            EASGD = [ period = 8 ]
            DataParallelASGD = [ syncPeriod = 256 ]
        ]
    ]
    reader = [ readerType = "SyntheticReader" ; kind = "random" ; samples = {MOST_STEPS * MINIBATCH} ]
]
'''


class Cluster:
    """Emulated hosts; removed at the end."""

    def __init__(self, hosts, name):
        self.script, self.name, self.hosts = HERE / 'cluster.sh', name, hosts
        up = self.call('up', str(hosts), '--cores-per-host', '1')
        self.mpiexec = up.strip().splitlines()[-1].split()[:-1]

    def call(self, *words):
        done = subprocess.run([self.script, *words, '--name', self.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f'check_simulator.py: {done.stderr.strip() or done.stdout.strip()}')
        return done.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call('down')


def environment():
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')


def steps_of(link):
    """Of an epoch, which takes a second at least, so that what happens between epochs weighs as little as in a real run."""
    rate = re.fullmatch(r'([\d.]+)([mg])bit', link)
    mbit = float(rate[1]) * (1000 if rate[2] == 'g' else 1) if rate else float('inf')
    return MOST_STEPS if mbit > 1000 else 96 if mbit == 1000 else FEWEST_STEPS


def epochs_of(steps, *settings):
    """The word that sets them, with more settings of SGD."""
    return f'Train=[SGD=[{";".join((f"epochSize={steps * MINIBATCH}", *settings))}]]'


def simulate(trainer, folder, cluster, link):
    """Rows of the table, measured on the hosts of the runs."""
    table, at = folder / 'simulate.jsonl', Path('/run/tutti-cluster') / cluster.name
    table.unlink(missing_ok=True)
    cluster.call('rate', 'none')
    done = subprocess.run([trainer, 'simulate', '--hostfile', at / 'hostfile', '--agent', at / 'agent', '--ranks', str(cluster.hosts), '--links', link,
                           '--shared-cores', str(min(CORES, cluster.hosts)), '--json', table, 'configFile=net.cntk', epochs_of(steps_of(link))], cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    print('\n'.join(line for line in done.stdout.splitlines()[:3]), flush=True)
    return [json.loads(line) for line in table.read_text(encoding='utf-8').splitlines()]


def measure(trainer, folder, cluster, row):
    """Samples per second: the median of the epochs that begin after the warm-up."""
    steps = steps_of(row['link'])
    seconds = steps * MINIBATCH / row['measures']['samples_per_second']
    if seconds > 3 and row['method'] in IN_EVERY_STEP:
        seconds, steps = seconds / 3, steps // 3
    while True:
        epochs = math.ceil(WARM_UP / seconds) + max(2, math.ceil(MEASURED / seconds))
        words = [*cluster.mpiexec, '-n', str(cluster.hosts), trainer, 'configFile=net.cntk',
                 epochs_of(steps, f'maxEpochs={epochs}', f'ParallelTrain=[{row["settings"]}]')]
        done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=120)
        times = [float(t) for t in re.findall(r'epochTime=([\d.]+)s', done.stdout + done.stderr)]
        if done.returncode != 0 or len(times) != epochs:
            sys.exit(f'{" ".join(map(str, words))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}')
        warm = [t for i, t in enumerate(times) if sum(times[:i]) >= WARM_UP]
        if len(warm) >= 2 or sum(warm) >= MEASURED:
            return steps * MINIBATCH / statistics.median(warm)
        seconds = statistics.median(times[1:])  # shorter epochs than predicted


def check(trainer, folder, options):
    results = []
    for hosts in options.hosts:
        with Cluster(hosts, options.name) as cluster:
            for link in options.links:
                for row in column(trainer, folder, cluster, link, options.only):
                    results.append({'hosts': hosts, 'link': link, **row})
                    if options.rows:
                        with options.rows.open('a', encoding='utf-8') as out:
                            out.write(json.dumps(results[-1]) + '\n')
    return results


def column(trainer, folder, cluster, link, only):
    """The methods on these hosts with this link. A machine's speed changes from minute to minute, so it is simulated before the runs and after
    them; what counts is the mean time."""
    before = [row for row in simulate(trainer, folder, cluster, link) if only in f'{row["method"]} {row["bits"]}']
    cluster.call('rate', link)
    measured = [measure(trainer, folder, cluster, row) for row in before]
    after = {(row['method'], row['bits']): row for row in simulate(trainer, folder, cluster, link)}
    for row, speed in zip(before, measured):
        method, bits = row['method'], row['bits']
        simulated = statistics.harmonic_mean([r['measures']['samples_per_second'] for r in (row, after[method, bits])])
        print(f'{cluster.hosts} hosts  {link:>8}  {method:<24} {bits:>3}  simulated {simulated:9.0f}  measured {speed:9.0f}  {100 * (simulated / speed - 1):+6.1f} %', flush=True)
        yield {'method': method, 'bits': bits, 'simulated': simulated, 'measured': speed}


def report(results):
    errors = sorted(abs(r['simulated'] / r['measured'] - 1) for r in results)
    if errors:
        print(f'{len(errors)} cases: median error {100 * statistics.median(errors):.1f} %, largest {100 * errors[-1]:.1f} %, '
              f'{sum(e > 0.15 for e in errors)} above 15 %')


def numbers(text):
    return [int(n) for n in text.split(',')]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trainer', type=Path)
    parser.add_argument('--hosts', type=numbers, default=[2, 4, 8])
    parser.add_argument('--links', type=lambda t: t.split(','), default=['none', '1gbit', '100mbit'])
    parser.add_argument('--rows', type=Path)
    parser.add_argument('--only', default='', help='methods whose name and bits contain this text')
    parser.add_argument('--name', default='simcheck', help='of the cluster')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('check_simulator.py: ended'))  # takes the hosts down
    folder = Path(tempfile.mkdtemp(prefix='tutti-simulator-', dir='/dev/shm'))
    try:
        (folder / 'net.cntk').write_text(CONFIG, encoding='utf-8')
        results = check(options.trainer.resolve(), folder, options)
    finally:
        shutil.rmtree(folder)
    report(results)


if __name__ == '__main__':
    main()
