#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""time_to_accuracy.py -- how long does a training take until its network is good enough? Measured in the manner of MLPerf: the clock starts
before the program does and never pauses. Start of the ranks, reading, evaluation and saving of models are all part of the time. The test data are
evaluated after each epoch; the first evaluation that reaches the target stops the clock. Of several seeds the best and the worst are left out.

  scripts/time_to_accuracy.py --networks mnist --hosts 1,2 --links none,100mbit --seeds 3
  scripts/time_to_accuracy.py --write                       everything; then the table and the drawing in docs/results
  scripts/time_to_accuracy.py --minutes 6 ...               begins no run after six minutes; the same command goes on later

Hosts are those of scripts/cluster.sh, with a core and a rank each, so it needs root. Finished runs are lines of the file --runs and are not
repeated, unless the settings of their method have changed. If --limit ends a run before half of its epochs, other seeds of that case are
not run. --data holds the folders mnist, atis and cifar10 (scripts/get_mnist.sh and the like).
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import time_to_accuracy_page as page

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(SOURCE / 'scripts' / 'cluster.sh')


@dataclasses.dataclass
class Network:
    title: str
    config: str
    target: float     # percent of the test data that are right
    data: str         # folder below --data
    test: str         # cvReader
    minibatch: int    # samples of a minibatch of one rank; of all ranks, too, unless it grows
    rates: list       # learning rates per sample, (rate, epochs), for one rank
    epochs: int       # after so many a run has missed its target
    block: int        # samples of all ranks between two exchanges of block momentum
    push: int         # a worker pushes to the servers after so many samples of its own
    rate_key: str = 'learningRatesPerMB'  # the key of the config
    seed: str = 'randomSeedOffset={offset}'  # what makes other initial weights
    grows: bool = True  # the minibatch of all ranks, with their number, if the method allows
    sgd: str = ''
    factors: dict = dataclasses.field(default_factory=dict)  # of a method: on the rates


def idx_reader(folder):
    return (f'readerType=IDXReader;input=[features=[file={folder}/t10k-images-idx3-ubyte.gz];'
            f'labels=[file={folder}/t10k-labels-idx1-ubyte.gz;labelDim=10]]')


def text_reader(folder):
    return (f'readerType=CNTKTextFormatReader;file={folder}/atis.test.ctf;input=[query=[alias=S0;dim=943;format=sparse];'
            'slotLabels=[alias=S2;dim=129;format=sparse]]')


def image_reader(folder):
    return (f'readerType=ImageReader;file={folder}/test_map.txt;features=[width=32;height=32;channels=3;cropType=center;sideRatio=0.8;'
            f'meanFile={folder}/mean.xml];labels=[labelDim=10]')


NETWORKS = {
    'mnist': Network('MNIST, 784-400-10', 'samples/methods/plain.cntk+samples/methods/mnist.cntk', 98.2, 'mnist', idx_reader, 128, [(0.00625, 6), (0.0015625, 3), (0.0003125, 1)],
                     11, 1280, 64, seed='Seed={seed}', grows=False, factors={'BlockMomentumSGD': 1.5}),
    'atis': Network('ATIS, LSTM of 300', 'samples/atis/atis.cntk', 97, 'atis', text_reader, 70, [(0.01, 2), (0.005, 12), (0.001, 1)], 12, 2800, 280, 'learningRatesPerSample'),
    'cifar10': Network('CIFAR-10, ResNet-20', 'samples/cifar10/resnet20.cntk', 75, 'cifar10', image_reader, 128,
                       [(0.004, 6), (0.0004, 1)], 12, 10240, 512),
}


@dataclasses.dataclass
class Method:
    title: str
    parallel: str         # ParallelTrain
    averages: bool        # weights of ranks are averaged: P ranks that learn from a P-th each go as far as one, at P times its rate
    may_grow: bool = True  # the minibatch of all ranks, with their number


METHODS = {
    'one': Method('one rank', '', False),
    'dp32': Method('DataParallelSGD, 32 bits', 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]', False, may_grow=False),
    'dp1': Method('DataParallelSGD, 1 bit', 'parallelizationMethod=DataParallelSGD;parallelizationStartEpoch=2;DataParallelSGD=[gradientBits=1]', False, may_grow=False),
    'bm': Method('BlockMomentumSGD', 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize={block}]', True),
    'easgd': Method('EASGD', 'parallelizationMethod=EASGD;EASGD=[period=10]', True),
    'servers': Method('DataParallelASGD', 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod={push}]', False),
}


def sgd_settings(network, method, ranks):
    """The SGD block of a run: what is written on the page and decides whether a run has to be repeated."""
    minibatch = network.minibatch * (ranks if method.may_grow and network.grows else 1)
    factor = (ranks if method.averages else 1) * network.factors.get(method.title, 1)
    unit = minibatch if network.rate_key == 'learningRatesPerMB' else 1
    rates = ':'.join(f'{rate * factor * unit:.6g}*{epochs}' for rate, epochs in network.rates)
    parallel = method.parallel.format(block=network.block, push=network.push)
    return (f'maxEpochs={network.epochs};minibatchSize={minibatch};{network.rate_key}={rates};numMBsToShowResult=0;'
            f'{network.sgd}' + (f'ParallelTrain=[{parallel}]' if ranks > 1 else '')).rstrip(';')


def records(file):
    """Those of the metrics that are complete."""
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text(encoding='utf-8').splitlines(keepends=True):
            if line.endswith('\n'):
                yield json.loads(line)


def evaluations(file, start):
    """(seconds from the start, percent right) of each epoch."""
    found = []
    for r in records(file):
        if r['event'] == 'validation':
            errors = next(v['mean'] for v in r['results'].values() if v.get('error_rate'))
            found.append([round(r['time'] - start, 2), round(100 * (1 - errors), 3)])
    return found


def end(process):
    """As a user would end it; ranks that do not, are told so once more."""
    for how, patience in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):
        if process.poll() is None:
            process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


def train(options, network, command, folder):
    """Runs until the target, the limit or the end: evaluations, and whether the last of them reached it."""
    metrics = folder / 'run.jsonl'
    with open(folder / 'output', 'w', encoding='utf-8') as output:
        start = time.time()  # before anything of the run is there
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            while True:
                ended = process.poll() is not None
                found = evaluations(metrics, start)
                for i, (seconds, right) in enumerate(found):
                    if right >= network.target and seconds <= options.limit:
                        return found[:i + 1], True
                if ended or time.time() - start > options.limit:
                    break
                time.sleep(0.05)
        finally:
            end(process)
    if process.returncode not in (0, 75) and time.time() - start < options.limit:  # 75: stopped by a signal, with a checkpoint
        logs = ''.join(f.read_text(encoding='utf-8', errors='replace')[-3000:] for f in (folder / 'run.log', folder / 'output') if f.exists())
        sys.exit(f'a run failed with exit code {process.returncode}:\n{" ".join(command)}\n{logs}')
    return found, False


def run(options, cluster, name, method, hosts, link, seed):
    """One run as a line of the file of runs."""
    network, data = NETWORKS[name], (options.data / NETWORKS[name].data).resolve()
    settings = sgd_settings(network, METHODS[method], hosts)
    folder = pathlib.Path(tempfile.mkdtemp(prefix='tutti-accuracy-'))
    words = [f'configFile={"+".join(str(SOURCE / c) for c in network.config.split("+"))}', f'DataDir={data}', f'OutputDir={folder}', 'command=Train', 'modelPath=models/net.dnn', 'stderr=run.log',
             'makeMode=false', 'numCPUThreads=1', network.seed.format(seed=seed, offset=1000 * (seed - 1)),
             f'Train=[reader=[randomizationSeed={seed}];cvReader=[{network.test(data)}];SGD=[{settings};metrics=[jsonl=run.jsonl]]]']
    try:
        found, reached = train(options, network, [*cluster, 'run', '-n', str(hosts), str(options.trainer.resolve()), *words], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {'network': name, 'method': method, 'hosts': hosts, 'link': link, 'seed': seed, 'target': network.target, 'settings': settings,
            'limit': options.limit, 'reached': reached, 'evaluations': found, 'date': time.strftime('%Y-%m-%d')}


def is_current(record):
    """Whether a run had the settings and the target of today."""
    network = NETWORKS[record['network']]
    return record['settings'] == sgd_settings(network, METHODS[record['method']], record['hosts']) and record['target'] == network.target


def runs_of(finished, name, method, hosts, link):
    """Those with the settings and the target of today."""
    return [r for r in finished if (r['network'], r['method'], r['hosts'], r['link']) == (name, method, hosts, link) and is_current(r)]


def done_already(finished, options, name, method, hosts, link, seed):
    """A run with this seed reached the target, or had as much time to do so."""
    return any(r['seed'] == seed and (r['reached'] or r['limit'] >= options.limit) for r in runs_of(finished, name, method, hosts, link))


def too_slow(finished, options, name, method, hosts, link):
    """Whether the limit ended a run of the case before half of its epochs, and no run of it has reached the target."""
    runs = runs_of(finished, name, method, hosts, link)
    return not any(r['reached'] for r in runs) and any(r['limit'] >= options.limit and len(r['evaluations']) < NETWORKS[name].epochs / 2 for r in runs)


def planned(options):
    """What is to run, seeds outermost, so that a table of fewer seeds is soon complete: (hosts, link, seed, network, method)."""
    for seed in range(1, options.seeds + 1):
        for name in options.networks:
            for hosts in options.hosts:
                for link in options.links if hosts > 1 else ['none']:
                    for method in options.methods:
                        if (method == 'one') == (hosts == 1):
                            yield hosts, link, seed, name, method


@contextlib.contextmanager
def cluster_of(hosts):
    """The words that run something on so many hosts."""
    words = [CLUSTER, '--name', f'a{os.getpid() % 10**6}']
    subprocess.run([*words, 'up', str(hosts)], check=True, stdout=subprocess.DEVNULL)
    try:
        yield words
    finally:
        subprocess.run([*words, 'down'], check=True, stdout=subprocess.DEVNULL)


def measure(options, finished):
    deadline = time.monotonic() + 60 * options.minutes

    def left(plan):
        return [(hosts, link, seed, name, method) for hosts, link, seed, name, method in plan
                if not done_already(finished, options, name, method, hosts, link, seed) and not too_slow(finished, options, name, method, hosts, link)]

    todo = left(planned(options))
    print(f'{len(todo)} runs to do', flush=True)
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    while todo and time.monotonic() < deadline:
        hosts = todo[0][0]
        with cluster_of(hosts) as cluster:
            now = None
            while todo and todo[0][0] == hosts and time.monotonic() < deadline:
                _, link, seed, name, method = todo[0]
                if link != now:
                    subprocess.run([*cluster, 'rate', link], check=True)
                    now = link
                result = run(options, cluster, name, method, hosts, link, seed)
                finished.append(result)
                with open(options.runs, 'a', encoding='utf-8') as file:
                    file.write(json.dumps(result) + '\n')
                best = max((right for _, right in result['evaluations']), default=0)
                last = f'{result["evaluations"][-1][0]:.1f} s' if result['reached'] else f'not reached in {options.limit:g} s'
                print(f'{name} {method} hosts {hosts} link {link} seed {seed}: {last}, {len(result["evaluations"])} epochs, {best:.2f} %', flush=True)
                todo = left(todo[1:])
    if todo:
        print(f'{len(todo)} runs are left; the same command goes on')


def words(known):
    def parse(text):
        for word in text.split(','):
            if word not in known:
                raise argparse.ArgumentTypeError(f"there is no '{word}'; there are {', '.join(known)}")
        return text.split(',')
    return parse


def link_speeds(text):
    for word in text.split(','):
        if word != 'none' and not re.fullmatch(r'[1-9]\d*[kmg]bit', word):
            raise argparse.ArgumentTypeError(f"a speed is none or a number of kbit, mbit or gbit, not '{word}'")
    return text.split(',')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', type=pathlib.Path, default=SOURCE / 'build' / 'trainer')
    parser.add_argument('--data', type=pathlib.Path, default=SOURCE / 'data', help='folder of the data folders (default: data)')
    parser.add_argument('--networks', type=words(NETWORKS), default=list(NETWORKS), help=f'of {",".join(NETWORKS)}')
    parser.add_argument('--methods', type=words(METHODS), default=list(METHODS), help=f'of {",".join(METHODS)}')
    parser.add_argument('--hosts', type=lambda t: [int(n) for n in t.split(',')], default=[1, 2, 4])
    parser.add_argument('--links', type=link_speeds, default=['none', '1gbit', '100mbit'])
    parser.add_argument('--seeds', type=int, default=5, help='their number')
    parser.add_argument('--limit', type=float, default=600, help='seconds after which a run has missed its target')
    parser.add_argument('--minutes', type=float, default=1e6, help='after so many no run is begun')
    parser.add_argument('--runs', type=pathlib.Path, default=SOURCE / 'output' / 'time-to-accuracy.jsonl', help='file of the finished runs')
    parser.add_argument('--write', action='store_true', help='write docs/results/time-to-accuracy.md and its drawing')
    options = parser.parse_args()
    if not options.trainer.exists():
        sys.exit(f'{options.trainer} is not there: ninja -C build first, or name another --trainer')

    signal.signal(signal.SIGTERM, lambda *_: sys.exit('stopped'))  # hosts are taken down
    finished = list(records(options.runs))
    measure(options, finished)
    current = [r for r in finished if is_current(r)]
    results = page.Results(NETWORKS, METHODS, current)
    print(results.tables())
    if options.write:
        results.write(SOURCE / 'docs' / 'results', sgd_settings)


if __name__ == '__main__':
    main()
