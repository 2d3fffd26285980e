#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exchange.py -- what each way to train together costs on links of several speeds, and how much of it hides behind compute.

Hosts are made and removed by scripts/cluster.sh (as root): one core and one rank each. Every strategy trains the network 784-3x2048-10 on
random data at every speed; all take turns, in an order that rotates, and medians over the rounds are shown. How many steps a strategy needs
to a training loss is found by one more run of each, without a limit, on drawn digits; times to that loss are these steps times the step
time on the link. The trainer's own log lines are what is measured.

  benchmarks/exchange.py --quick                                    a look: few steps, one round
  benchmarks/exchange.py --write                                    everything, into docs/results/exchange.md and .svg
  benchmarks/exchange.py --strategies 1bit,1bit-async --speeds none,1gbit,100mbit --no-loss
  benchmarks/exchange.py --strategies 1bit --speeds none --pytorch VENV/bin/python     beside PyTorch's DDP over gloo
  benchmarks/exchange.py --sums                                     ASA against MPI_Allreduce on four hosts at 1 Gbit/s
"""
import argparse
import dataclasses
import fcntl
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import exchange_report

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = ROOT / 'scripts' / 'cluster.sh'
DDP = ROOT / 'benchmarks' / 'pytorch_ddp.py'
TARGET_STEPS = 120


@dataclasses.dataclass
class Strategy:
    label: str
    method: str
    options: str     # the block of that name
    bits: int = 32   # of what travels, and
    every: int = 1   # how many steps lie between two exchanges: for guessing how long a run takes


# Blocks of 200 steps: as long as users of such methods make them at least.
BLOCK = 200
STRATEGIES = {
    '32bit': Strategy('DataParallelSGD, 32 bits', 'DataParallelSGD', 'gradientBits=32'),
    '1bit': Strategy('DataParallelSGD, 1 bit', 'DataParallelSGD', 'gradientBits=1', 1),
    '1bit-async': Strategy('DataParallelSGD, 1 bit, one step behind', 'DataParallelSGD', 'gradientBits=1;useBufferedAsyncGradientAggregation=true', 1),
    'library': Strategy('ASA by MPI_Allreduce, 32 bits', 'ASA', 'allReduce=library'),
    'asa32': Strategy('ASA, 32 bits', 'ASA', 'exchangeBits=32'),
    'asa16': Strategy('ASA, 16 bits', 'ASA', 'exchangeBits=16', 16),
    'asa-weights': Strategy('ASA, weights, 16 bits', 'ASA', 'exchange=weights;exchangeBits=16', 16),
    'averaging': Strategy('ModelAveragingSGD, 32 bits', 'ModelAveragingSGD', 'blockSizePerWorker={block}', 32, BLOCK),
    'block32': Strategy('BlockMomentumSGD, 32 bits', 'BlockMomentumSGD', 'blockSizePerWorker={block}', 32, BLOCK),
    'block1': Strategy('BlockMomentumSGD, 1 bit', 'BlockMomentumSGD', 'blockSizePerWorker={block};exchangeBits=1', 1, BLOCK),
    'diloco32': Strategy('DiLoCo (outer Nesterov), 32 bits', 'BlockMomentumSGD',
                         'blockSizePerWorker={block};outerOptimizer=nesterov;resetSGDMomentum=false', 32, BLOCK),
    'diloco1': Strategy('DiLoCo (outer Nesterov), 1 bit', 'BlockMomentumSGD',
                        'blockSizePerWorker={block};outerOptimizer=nesterov;resetSGDMomentum=false;exchangeBits=1', 1, BLOCK),
    'diloco1-streamed': Strategy('DiLoCo, 1 bit, 4 fragments, hidden', 'BlockMomentumSGD',
                                 'blockSizePerWorker={block};outerOptimizer=nesterov;resetSGDMomentum=false;exchangeBits=1;fragments=4;overlap=4', 1, BLOCK),
    'asgd32': Strategy('DataParallelASGD every 10 steps, 32 bits', 'DataParallelASGD', 'syncPeriod={block}', 32, 10),
    'asgd1': Strategy('DataParallelASGD every 10 steps, 1 bit', 'DataParallelASGD', 'syncPeriod={block};exchangeBits=1', 1, 10),
    'easgd32': Strategy('EASGD every 10 steps, 32 bits', 'EASGD', 'period=10', 32, 10),
    'easgd1': Strategy('EASGD every 10 steps, 1 bit', 'EASGD', 'period=10;exchangeBits=1', 1, 10),
}

CONFIG = '''
command = Train
modelPath = "models/model.dnn"
makeMode = false
traceLevel = 1
numCPUThreads = 1
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        features = Input {{{inputs}}}
        labels   = Input {{{outputs}}}
        model = Sequential ({hidden}
            LinearLayer {{{outputs}, init = 'heUniform'}})
        z = model (features)
        ce   = CrossEntropyWithSoftmax (labels, z)
        errs = ClassificationError (labels, z)
        featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (ce) ; evaluationNodes = (errs) ; outputNodes = (z)
    ]
    SGD = [
        epochSize = {samples}
        minibatchSize = {minibatch}
        learningRatesPerMB = 0.1
        momentumPerMB = 0.9
        maxEpochs = 1
        numMBsToShowResult = {interval}
        ParallelTrain = [
            parallelizationMethod = "{method}"
            {block}
        ]
    ]
    reader = [
        readerType = "SyntheticReader"
        {data}
        samples = {samples}
        input = [
            features = [ dim = {inputs} ]
            labels = [ labelDim = {outputs} ]
        ]
    ]
]
'''
RANDOM, DIGITS = 'kind = "random"', 'kind = "digits" ; noise = 0 ; distortion = 0.5'


def sizes(text):
    """'2048*3' or '512:256' as a list."""
    found = []
    for part in text.split(':'):
        value, _, count = part.partition('*')
        found += [int(value)] * int(count or 1)
    return found


def bits_per_second(speed):
    """Of '100mbit'; None for 'none'."""
    if speed == 'none':
        return None
    found = re.fullmatch(r'(\d+)(kbit|mbit|gbit)', speed)
    if not found:
        sys.exit(f"a speed is none or a whole number of kbit, mbit or gbit, not '{speed}'")
    return int(found[1]) * {'kbit': 10**3, 'mbit': 10**6, 'gbit': 10**9}[found[2]]


class Turn:
    """Holds a lock file for some runs in a row, then lets others have it."""

    LONGEST = 40

    def __init__(self, path):
        self.path, self.file, self.since = path, None, 0

    def take(self):
        if self.path and not self.file:
            self.file = open(self.path, 'a', encoding='utf-8')
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.since = time.monotonic()

    def give_soon(self):
        if time.monotonic() - self.since > self.LONGEST:
            self.give()

    def give(self):
        if self.file:
            self.file.close()
            self.file = None


class Cluster:
    """Hosts that are there from `with` to its end, however it ends."""

    def __init__(self, hosts, arguments):
        self.name, self.hosts, self.prefix = f'x{os.getpid() % 1000000}', hosts, arguments.prefix.split()
        self.turn = Turn(arguments.lock)

    def words(self, *words):
        return [str(w) for w in (CLUSTER, '--name', self.name, *words)]

    def __enter__(self):
        call(self.words('up', self.hosts))
        return self

    def __exit__(self, *_):
        self.turn.give()
        subprocess.run(self.words('down'), check=False)

    def rate(self, speed):
        call(self.words('rate', speed))

    def run(self, *program, **options):
        # mpiexec's own options stand before the program, so they come with it.
        at = 2 if program[0] == '-n' else 0
        words = self.words('run', *program[:at], *self.prefix, *program[at:])
        self.turn.take()
        try:
            return call(words, **options)
        finally:
            self.turn.give_soon()


def call(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=dict(os.environ, OMP_NUM_THREADS='1'), **options)
    if done.returncode != 0:
        sys.exit(f'{" ".join(str(c) for c in command)}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}')
    return done.stdout + done.stderr


class Bench:
    def __init__(self, arguments, cluster):
        self.arguments, self.cluster = arguments, cluster
        self.layers = [arguments.inputs, *sizes(arguments.hidden), arguments.outputs]
        self.weights = sum((a + 1) * b for a, b in zip(self.layers, self.layers[1:]))
        self.minibatch = arguments.per_rank * arguments.hosts

    def train(self, strategy, steps, interval, data):
        """The trainer's log."""
        options = strategy.options.format(block=strategy.every * self.arguments.per_rank)
        hidden = ''.join(f"\n            DenseLayer {{{n}, activation = ReLU, init = 'heUniform'}} :" for n in self.layers[1:-1])
        config = CONFIG.format(inputs=self.layers[0], outputs=self.layers[-1], hidden=hidden, samples=steps * self.minibatch, minibatch=self.minibatch,
                               interval=interval, method=strategy.method, data=data, block=f'{strategy.method} = [ {options} ]' if options else '')
        with tempfile.TemporaryDirectory(prefix='tutti-exchange-') as folder:
            (pathlib.Path(folder) / 'run.cntk').write_text(config, encoding='utf-8')
            return self.cluster.run('-n', self.arguments.hosts, self.arguments.trainer, 'configFile=run.cntk', cwd=folder)

    def plan(self, strategy, speed):
        """Steps of a run and of an interval: whole blocks, and as many as the time allows."""
        ranks, rate = self.arguments.hosts, bits_per_second(speed)
        on_wire = 0 if rate is None or ranks == 1 else 2 * self.weights * strategy.bits * (ranks - 1) / ranks / rate / strategy.every
        if strategy.every > 1:
            return 3 * strategy.every, strategy.every
        interval = max(1, int(self.arguments.seconds / max(0.045, on_wire) / 8))
        return (8 if interval > 1 else 4) * interval, interval

    def measure(self, strategy, speed):
        """Of one run: seconds of a step, bytes per step and rank, seconds waited per step."""
        steps, interval = self.plan(strategy, speed)
        log = self.train(strategy, steps, interval, RANDOM)
        times = [float(t) for t in re.findall(r'Minibatch\[.*? time = ([\d.]+)s', log)][1:]
        if not times:
            sys.exit(f'the trainer printed no minibatch lines:\n{log}')
        sent = re.search(r'Exchange of Epoch.*?: ([\d.]+) (B|kB|MB|GB) sent', log)
        size = float(sent[1]) * {'B': 1, 'kB': 10**3, 'MB': 10**6, 'GB': 10**9}[sent[2]] if sent else 0
        waited = re.search(r'wait for ranks ([\d.]+) s', log)
        return exchange_report.Run(statistics.mean(times) / interval, size / steps, float(waited[1]) / steps if waited else 0)

    def steps_to(self, strategy, target):
        interval = 2
        log = self.train(strategy, TARGET_STEPS, interval, DIGITS)
        for i, loss in enumerate(re.findall(r'Minibatch\[.*?\bce = ([\d.]+)', log)):
            if float(loss) <= target:
                return (i + 1) * interval
        return None

    def pytorch(self):
        """Seconds of a step of PyTorch's DDP over gloo."""
        words = [self.arguments.pytorch, DDP, '--layers', ':'.join(map(str, self.layers)), '--per-rank', self.arguments.per_rank, '--steps',
                 5 if self.arguments.quick else 20]
        return float(re.search(r'([\d.]+) ms a step', self.cluster.run('-n', self.arguments.hosts, *words))[1]) / 1e3


def rotated(items, by):
    items = list(items)
    return items[by % len(items):] + items[:by % len(items)]


def measure_all(arguments, bench):
    """(strategy name, speed) -> runs, in rounds."""
    found = {}
    names = arguments.names + (['ddp'] if arguments.pytorch else [])
    for turn in range(arguments.rounds):
        for speed in arguments.speeds:
            bench.cluster.rate(speed)
            for name in rotated(names, turn):
                run = exchange_report.Run(bench.pytorch(), 0, 0) if name == 'ddp' else bench.measure(STRATEGIES[name], speed)
                found.setdefault((name, speed), []).append(run)
                print(f'round {turn + 1} of {arguments.rounds}, {speed}, {name}: {run.step * 1e3:.1f} ms a step', file=sys.stderr, flush=True)
    return found


def sums(arguments):
    """ASA against the library on four hosts, as the benchmark program prints it."""
    program = arguments.build.resolve() / 'benchmarks' / 'sums_benchmark'
    if not program.exists():
        sys.exit(f'{program} is not there: ninja -C {arguments.build} first')
    with Cluster(4, arguments) as cluster:
        cluster.rate('1gbit')
        text = cluster.run('-n', 4, program, 3 if arguments.quick else 9)
    return [line for line in text.splitlines() if ' ms, ' in line]


def known(trainer, strategy):
    """Whether this trainer has all options of a strategy; an older one is measured with what it has."""
    text = subprocess.run([trainer, f'help={strategy.method}'], capture_output=True, text=True, check=False).stdout
    return all(re.search(rf'\b{key}\b', text) for key in re.findall(r'(\w+)=', strategy.options))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build', help='build directory')
    parser.add_argument('--strategies', default='all', help='all, or some of ' + ', '.join(STRATEGIES))
    parser.add_argument('--speeds', default='none,1gbit,100mbit', help='of the links; none = no limit')
    parser.add_argument('--hosts', type=int, default=2)
    parser.add_argument('--per-rank', type=int, default=128, help='samples of a minibatch per rank')
    parser.add_argument('--inputs', type=int, default=784)
    parser.add_argument('--hidden', default='2048*3')
    parser.add_argument('--outputs', type=int, default=10)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=6, help='about how long a run takes, without whole blocks')
    parser.add_argument('--target', type=float, default=0.5, help='training loss (cross entropy) on drawn digits')
    parser.add_argument('--no-loss', action='store_true', help='without the times to a loss')
    parser.add_argument('--quick', action='store_true', help='one round of short runs')
    parser.add_argument('--sums', action='store_true', help='only: sums of one buffer on four hosts')
    parser.add_argument('--pytorch', help='a Python with PyTorch: beside DDP')
    parser.add_argument('--prefix', default='', help='words before every program, "chrt -r 5" for instance')
    parser.add_argument('--lock', help='a file that is locked while ranks run, where several people measure on one machine; let go of now and then')
    parser.add_argument('--write', action='store_true', help='results into docs/results/exchange.md and .svg')
    arguments = parser.parse_args()
    arguments.trainer = arguments.build.resolve() / 'trainer'
    arguments.names = list(STRATEGIES) if arguments.strategies == 'all' else arguments.strategies.split(',')
    arguments.speeds = arguments.speeds.split(',')
    if unknown := [n for n in arguments.names if n not in STRATEGIES]:
        sys.exit(f'there is no strategy {unknown[0]}: {", ".join(STRATEGIES)}')
    for speed in arguments.speeds:
        bits_per_second(speed)
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 2
        for strategy in STRATEGIES.values():
            strategy.every = min(strategy.every, 20)
    if not arguments.trainer.exists():
        sys.exit(f'{arguments.trainer} is not there: ninja -C {arguments.build} trainer first, or name another --build')
    for name in [n for n in arguments.names if not known(arguments.trainer, STRATEGIES[n])]:
        print(f'{name} is left out: this trainer does not know its options', file=sys.stderr)
        arguments.names.remove(name)
    return arguments


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts go away all the same
    if arguments.sums:
        print('\n'.join(sums(arguments)))
        return
    with Cluster(arguments.hosts, arguments) as cluster:
        bench, steps = Bench(arguments, cluster), {}
        if not arguments.no_loss:
            for name in arguments.names:
                steps[name] = bench.steps_to(STRATEGIES[name], arguments.target)
                print(f'{name}: loss {arguments.target} after {steps[name]} steps', file=sys.stderr, flush=True)
        found = measure_all(arguments, bench)
    labels = {name: STRATEGIES[name].label for name in arguments.names} | {'ddp': "PyTorch's DDP over gloo"}
    rows = exchange_report.rows(found, labels, {s: bits_per_second(s) for s in arguments.speeds}, steps, bench.minibatch)
    table = exchange_report.table(rows, arguments.target if steps else None)
    print(table)
    if arguments.write:
        about = (f'MLP {":".join(map(str, bench.layers))} ({bench.weights / 1e6:.1f} million weights), {arguments.hosts} hosts of one core, {arguments.per_rank} samples '
                 f'per rank and step, blocks of {BLOCK if not arguments.quick else 20} steps; medians of {arguments.rounds} rounds.')
        exchange_report.write(ROOT / 'docs' / 'results', about, table, sums(arguments), rows)


if __name__ == '__main__':
    main()
