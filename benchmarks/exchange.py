#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exchange.py -- what each variant to train together costs on links of several speeds, and how much of it hides behind compute.

Hosts are made and removed by scripts/cluster.sh (as root): one core and one rank each, several ranks for strategies in groups. Every strategy
trains the network 784-3x2048-10 on random data at every speed; in each round they take turns, in an order that rotates, and medians over the
rounds are shown. How many steps a strategy needs to a training loss is found by one more run of each, without a limit, on drawn digits; times
to that loss are these steps times the step time on the link. The trainer's own log lines are what is measured.

  benchmarks/exchange.py --quick                                    a look: few steps
  benchmarks/exchange.py --write                                    everything, into docs/results/exchange.md and .svg, row by row
  benchmarks/exchange.py --write --strategies mixed,groups1         some rows into the table that is there
  benchmarks/exchange.py --write --sums                             only the sums of one buffer (below the table)
  benchmarks/exchange.py --must-show --pytorch VENV/bin/python      only the ratios that must hold, beside PyTorch's DDP over gloo
  benchmarks/exchange.py --strategies 1bit,1bit-async --speeds none,1gbit,100mbit --no-loss --rounds 3
"""
import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import exchange_report
import exchange_rules
import hosts
import runs
from exchange_strategies import BLOCK, DIGITS, RANDOM, STRATEGIES, config

DDP = runs.ROOT / 'benchmarks' / 'pytorch_ddp.py'
RESULTS = runs.ROOT / 'docs' / 'results'
TARGET_STEPS = 200
WARM_STEPS = 8  # of strategies that warm up, before what is measured


class Bench:
    def __init__(self, arguments, cluster):
        self.arguments, self.cluster, self.layers = arguments, cluster, arguments.layers
        self.minibatch, self.crossed = arguments.per_rank * cluster.ranks, {}

    def train(self, strategy, steps, interval, data, warm_steps, epochs=1):
        """The trainer's log."""
        text = config(strategy, self.layers, self.arguments.per_rank, self.cluster, steps, interval, data, warm_steps, epochs)
        with tempfile.TemporaryDirectory(prefix='tutti-exchange-') as folder:
            (pathlib.Path(folder) / 'run.cntk').write_text(text, encoding='utf-8')
            return self.cluster.run(self.arguments.trainer, 'configFile=run.cntk', cwd=folder, timeout=self.arguments.timeout)

    def plan(self, strategy, speed):
        """Steps of a run and of an interval, the first of which does not count: whole blocks, and as many as the time allows."""
        nodes, rate = self.arguments.hosts, hosts.bits_per_second(speed)
        on_wire = 0 if rate is None or nodes == 1 else 2 * self.arguments.weights * strategy.bits * (nodes - 1) / nodes / rate / strategy.every
        compute = 0.045 * max(1, self.cluster.ranks / len(os.sched_getaffinity(0)))
        interval = strategy.every * max(1, int(self.arguments.seconds / max(compute, on_wire) / 8 / strategy.every))
        least = 4 if strategy.every == 1 else 3 if strategy.every < BLOCK else 2
        return max(least, min(8, int(self.arguments.seconds / max(compute, on_wire) / interval))) * interval, interval

    def measure(self, strategy, speed):
        """Of one run: seconds of a step, bytes per step and rank that leave a host, seconds waited per step."""
        steps, interval = self.plan(strategy, speed)
        epochs = 2 if strategy.warm_steps else 1
        log = self.train(strategy, steps, interval, RANDOM, WARM_STEPS, epochs)
        log = log[log.rindex('Starting minibatch loop'):]
        sent = re.search(r'Exchange of Epoch.*?: ([\d.]+) (B|kB|MB|GB) sent', log)
        size = float(sent[1]) * {'B': 1, 'kB': 10**3, 'MB': 10**6, 'GB': 10**9}[sent[2]] if sent else 0
        waited = re.search(r'wait for ranks ([\d.]+) s', log)
        return exchange_report.Run(statistics.mean(runs.figures(log, 'time')[1:]) / interval, self.crossing(strategy) if strategy.several else size / steps,
                                   float(waited[1]) / steps if waited else 0)

    def crossing(self, strategy):
        """Bytes per step and rank that leave a host of several ranks, headers included: the log counts what stays there, too, and the link what start and end of a run send."""
        if strategy.label not in self.crossed:
            at, steps = [self.cluster.left_last()], 2 * max(4, strategy.every)
            for times in (1, 2):
                self.train(strategy, times * steps, steps, RANDOM, 0)
                at.append(self.cluster.left_last())
            self.crossed[strategy.label] = (at[2] - 2 * at[1] + at[0]) / steps / self.cluster.ranks_per_host
        return self.crossed[strategy.label]

    def steps_to(self, strategy, target):
        interval = 2
        log = self.train(strategy, TARGET_STEPS, interval, DIGITS, strategy.warm_steps)
        for i, loss in enumerate(runs.figures(log, 'ce')):
            if loss <= target:
                return (i + 1) * interval
        return None

    def pytorch(self):
        """Seconds of a step of PyTorch's DDP over gloo."""
        words = [self.arguments.pytorch, DDP, '--layers', ':'.join(map(str, self.layers)), '--per-rank', self.arguments.per_rank, '--steps',
                 5 if self.arguments.quick else 20]
        return float(re.search(r'([\d.]+) ms a step', self.cluster.run(*words, timeout=self.arguments.timeout))[1]) / 1e3


def measure_all(arguments, bench, names, wanted, keep):
    """Runs of (name, speed) in rounds, as far as they are wanted; `keep` gets them, the steps to the loss and what failed after each strategy."""
    found, steps, failed = {}, {}, {}
    for turn in range(arguments.rounds):
        for name in runs.rotated(names, turn):
            if name in failed:
                continue
            try:
                if not turn and name != 'ddp' and not arguments.no_loss:
                    bench.cluster.rate('none')
                    steps[name] = bench.steps_to(STRATEGIES[name], arguments.target)
                    print(f'{name}: loss {arguments.target} after {steps[name]} steps', file=sys.stderr, flush=True)
                for speed in [s for s in arguments.speeds if wanted(name, s)]:
                    bench.cluster.rate(speed)
                    run = exchange_report.Run(bench.pytorch(), 0, 0) if name == 'ddp' else bench.measure(STRATEGIES[name], speed)
                    found.setdefault((name, speed), []).append(run)
                    print(f'round {turn + 1} of {arguments.rounds}, {speed}, {name}: {run.step * 1e3:.1f} ms a step', file=sys.stderr, flush=True)
            except runs.Failed as error:
                failed[name] = str(error)
                print(f'{name} failed:\n{error}', file=sys.stderr, flush=True)
            keep(found, steps, failed)
    return found


def rows_of(arguments, bench, found, steps, failed):
    """For the report."""
    labels = {name: STRATEGIES[name].label for name in STRATEGIES} | {'ddp': "PyTorch's DDP over gloo"}
    layout = (arguments.hosts, bench.cluster.ranks_per_host)
    warm = {name: STRATEGIES[name].warm_steps for name in STRATEGIES}
    return exchange_report.rows(found, labels, layout, {s: hosts.bits_per_second(s) for s in arguments.speeds}, steps, warm, bench.minibatch, failed)


def measure_table(arguments):
    """Every strategy that was asked for, on hosts of one rank and on those of several; each row is kept as soon as it is there."""
    settings = (f'MLP {":".join(map(str, arguments.layers))} ({arguments.weights / 1e6:.1f} million weights), {arguments.hosts} hosts, {arguments.per_rank} samples per rank and step, '
                f'blocks of {BLOCK if not arguments.quick else 20} steps.')
    report = exchange_report.Report(RESULTS if arguments.write else None, settings, arguments.target, [s.label for s in STRATEGIES.values()])
    for several in (False, True):
        names = [n for n in arguments.names if STRATEGIES[n].several == several] + (['ddp'] if arguments.pytorch and not several else [])
        if not names:
            continue
        with hosts.Cluster(arguments.hosts, arguments.ranks_per_host if several else 1, arguments.prefix, arguments.lock) as cluster:
            bench = Bench(arguments, cluster)
            measure_all(arguments, bench, names, lambda *_: True, lambda *so_far: report.put(rows_of(arguments, bench, *so_far)))
    print(report.table())
    return report


def must_show(arguments):
    names = [n for n in exchange_rules.names() if n != 'ddp' or arguments.pytorch]
    arguments.speeds, arguments.no_loss = ['none', '1gbit', '100mbit'], True
    with hosts.Cluster(arguments.hosts, 1, arguments.prefix, arguments.lock) as cluster:
        found = measure_all(arguments, Bench(arguments, cluster), names, exchange_rules.needs, lambda *_: None)
    print('\n'.join(exchange_rules.verdicts(found, {s: hosts.bits_per_second(s) for s in arguments.speeds})), flush=True)
    print('\n'.join(exchange_rules.verdicts_on_sums(sums(arguments))))


def sums(arguments):
    """ASA against the library on four hosts, as the benchmark program prints it."""
    program, = runs.needed(arguments.build, 'benchmarks/sums_benchmark')
    with hosts.Cluster(4, 1, arguments.prefix, arguments.lock) as cluster:
        cluster.rate('1gbit')
        text = cluster.run(program, 3 if arguments.quick else 9, timeout=arguments.timeout)
    return [line for line in text.splitlines() if ' ms, ' in line]


def known(trainer, strategy):
    """Whether this trainer has all options of a strategy; an older one is measured with what it has."""
    text = subprocess.run([trainer, f'help={strategy.method}'], capture_output=True, text=True, check=False).stdout
    return all(re.search(rf'\b{key}\b', text) for key in re.findall(r'(\w+)=', strategy.options))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=runs.ROOT / 'build', help='build directory')
    parser.add_argument('--strategies', default='all', help='all, or some of ' + ', '.join(STRATEGIES))
    parser.add_argument('--speeds', type=runs.words, default=['none', '1gbit', '100mbit'], help='of the links; none = no limit')
    parser.add_argument('--hosts', type=int, default=2)
    parser.add_argument('--ranks-per-host', type=int, default=2, help='where strategies work in groups; other strategies have one')
    parser.add_argument('--per-rank', type=int, default=128, help='samples of a minibatch per rank')
    parser.add_argument('--inputs', type=int, default=784)
    parser.add_argument('--hidden', default='2048*3')
    parser.add_argument('--outputs', type=int, default=10)
    parser.add_argument('--rounds', type=int, help='1, or 3 with --must-show')
    parser.add_argument('--seconds', type=float, default=4, help='about how long a run takes, without whole blocks')
    parser.add_argument('--timeout', type=float, default=300, help='seconds after which a run counts as failed')
    parser.add_argument('--target', type=float, default=0.1, help='training loss (cross entropy) on drawn digits')
    parser.add_argument('--no-loss', action='store_true', help='without the times to a loss')
    parser.add_argument('--quick', action='store_true', help='short runs, blocks of 20 steps')
    parser.add_argument('--sums', action='store_true', help='only: sums of one buffer on four hosts')
    parser.add_argument('--must-show', action='store_true', help='only: the ratios that must hold')
    parser.add_argument('--pytorch', help='a Python with PyTorch: beside DDP')
    parser.add_argument('--prefix', default='', help='words before every program, "chrt -r 5" for instance')
    parser.add_argument('--lock', help='a file that is locked while ranks run, where several people measure on one machine; let go of now and then')
    parser.add_argument('--write', action='store_true', help='results into docs/results/exchange.md and .svg')
    return parser.parse_args()


def read_arguments():
    arguments = parse_arguments()
    arguments.trainer, = runs.needed(arguments.build, 'trainer')
    arguments.names = list(STRATEGIES) if arguments.strategies == 'all' else runs.words(arguments.strategies)
    if unknown := [n for n in arguments.names if n not in STRATEGIES]:
        sys.exit(f'there is no strategy {unknown[0]}: {", ".join(STRATEGIES)}')
    for speed in arguments.speeds:
        hosts.bits_per_second(speed)
    if arguments.rounds is None:
        arguments.rounds = 3 if arguments.must_show else 1
    if arguments.quick:
        arguments.seconds = 2
        for strategy in STRATEGIES.values():
            strategy.every = min(strategy.every, 20)
    arguments.layers = [arguments.inputs, *runs.sizes(arguments.hidden), arguments.outputs]
    arguments.weights = sum((a + 1) * b for a, b in zip(arguments.layers, arguments.layers[1:]))
    for name in [n for n in arguments.names if not known(arguments.trainer, STRATEGIES[n])]:
        print(f'{name} is left out: this trainer does not know its options', file=sys.stderr)
        arguments.names.remove(name)
    return arguments


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts go away all the same
    if arguments.must_show:
        must_show(arguments)
    elif arguments.sums:
        found = sums(arguments)
        print('\n'.join(found))
        if arguments.write:
            exchange_report.put_sums(RESULTS, found)
    else:
        measure_table(arguments)
        if arguments.write and arguments.strategies == 'all':
            exchange_report.put_sums(RESULTS, sums(arguments))


if __name__ == '__main__':
    main()
