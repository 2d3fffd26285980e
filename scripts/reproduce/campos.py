# SPDX-License-Identifier: Apache-2.0
"""campos.py -- Campos et al., Distributed training strategies for a computer vision deep learning algorithm on a distributed GPU cluster
(2017): parameter servers on nodes of their own or beside workers, mixed mode, accuracy against time. For scripts/reproduce.sh; common.py
says how a source works, campos.cntk is the network.

A node is a host of two ranks, its accelerators. Each rank computes its 64 images on the shared cores and then sleeps in every step, as if
it waited for an accelerator of its own. So all nodes work at the same time, and links and servers decide how much they gain."""
import statistics

import svg
from common import ROOT, speed_up, text
from page import Page

PARTS = ('t1', 't2', 't3')
CONFIG = ROOT / 'scripts' / 'reproduce' / 'campos.cntk'
GPUS = 2                        # ranks of a node
IMAGES = 128                    # of a node in a step, as in the source
SLEEP, LINK = .25, '10mbit'     # seconds of a rank in a step; a link on which one server is too few for four workers, as in the source
SLEEP_3, LINK_3 = .1, '25mbit'  # of T3, which needs more steps
ALONE = 'parallelizationMethod=DataParallelSGD'

# (workers, servers, where) -> images/s, speed-up, efficiency, as published
T1 = {(1, 0, ''): (124.18, 1, 1), (4, 3, 'dedicated'): (396.62, 3.19, .46), (4, 3, 'shared'): (374.73, 3.02, .76), (4, 1, 'shared'): (292.22, 2.35, .58)}
T1_MORE = ((7, 0, ''), (3, 1, 'dedicated'), (4, 0, ''))
T2 = {(2, 1, 'dedicated'): (195.60, 1.58, .79), (4, 3, 'dedicated'): (383.09, 3.09, .77), (8, 7, 'dedicated'): (809.10, 6.52, .82)}
T3 = {1: (.228, 106.43, 1), 2: (.217, 62.78, 1.69), 4: (.202, 37.99, 2.80), 8: (.217, 22.50, 4.73)}  # accuracy, hours, speed-up in time


def mixed(servers=0, more=''):
    """Synchronous within a node, asynchronous between nodes: the gradients of a node go to the servers, which update."""
    return (f'parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients;servers={servers}{more}];'
            f'groups=size:{GPUS};insideGroups=[{ALONE}]')


def settings(method, nodes, sleep):
    hook = f';faultHook=[rank=-1;sleep={sleep}]' if sleep else ''
    return f'Train=[SGD=[minibatchSize={IMAGES * nodes};ParallelTrain=[{method}{hook}]]]'


def places(workers, servers=0, where='', gpus=GPUS):
    """The host of each rank: those of the workers first, then servers beside the first workers or on hosts of their own."""
    return [n for n in range(workers) for _ in range(gpus)] + [s + (workers if where == 'dedicated' else 0) for s in range(servers)]


def nodes_of(workers, servers, where):
    return workers + (servers if where == 'dedicated' else 0)


def describe(workers, servers, where):
    if workers == 1:
        return '1 node'
    if where == 'dedicated':
        return f'{workers + servers} nodes: {workers} workers, {servers} server{"s" if servers > 1 else ""}'
    return f'{workers} nodes, ' + (f'{servers} of them also serve{"s" if servers == 1 else ""}' if servers else 'all of them also serve')


def base_model(bench):
    return bench.work / 'pretrained' / 'model.dnn'


def pretrain(bench):
    """The network that has learned neat digits, from which all others begin."""
    with bench.hosts(1) as hosts:
        return bench.run('pretrained', CONFIG, f'Pretrain=[SGD=[maxEpochs={bench.pick(1, 3)};ParallelTrain=[{ALONE}]]]',
                         command='Pretrain', section='Pretrain', hosts=hosts.at([0] * GPUS), estimate=15)


class Speed:
    """Images per second by workers and servers. Each setting is measured once, though two tables may show it."""

    def __init__(self, bench):
        self.bench, self.steps, self.runs = bench, bench.pick(10, 20), {}

    def measure(self, keys):
        keys = [k for k in keys if k not in self.runs]
        with self.bench.hosts(max(nodes_of(*k) for k in keys), LINK) as hosts:
            for key in keys:
                self.runs[key] = self.one(hosts, *key)

    def one(self, hosts, workers, servers, where):
        method = ALONE if workers == 1 else mixed(servers)
        return self.bench.run(f'{workers}-workers-{servers}-servers-{where or "all"}', CONFIG, f'Samples={IMAGES * workers * self.steps}', 'Epochs=2',
                              f'Base={base_model(self.bench)}', settings(method, workers, SLEEP), estimate=6 + .8 * self.steps,
                              hosts=hosts.at(places(workers, servers, where)))

    def gain(self, key):
        return speed_up(self.runs.get(key), self.runs.get((1, 0, '')))

    def row(self, key, published, per):
        """per: by how many nodes the efficiency divides."""
        run, gain = self.runs.get(key), self.gain(key)
        rate, times, efficiency = published or (None, None, None)
        return [describe(*key), text(rate), text(times), text(efficiency), text(run and run.rate, 1), text(gain), text(gain and gain / per)]


HEADERS = ['', 'published: images/s', 'speed-up', 'efficiency', 'here: images/s', 'speed-up', 'efficiency']


def sharing(speed, shared, dedicated):
    """One sentence: what sharing gains at an equal number of nodes."""
    a, b = speed.runs.get(shared), speed.runs.get(dedicated)
    if not a or not b:
        return f'{nodes_of(*shared)} nodes: not measured.'
    return (f'{nodes_of(*shared)} nodes: {a.rate:.1f} images/s where all work and serve, {b.rate:.1f} with {dedicated[1]} '
            f'dedicated server{"s" if dedicated[1] > 1 else ""}: {a.rate / b.rate:.2f} times as many'
            + ('.' if a.rate > b.rate else ': here sharing did **not** pay.'))


def servers(speed):
    """One sentence: three servers against one, both beside workers."""
    three, one = speed.runs.get((4, 3, 'shared')), speed.runs.get((4, 1, 'shared'))
    if not three or not one:
        return 'Three servers against one: not measured.'
    gain = three.rate / one.rate
    return (f'Three servers beside workers give {gain:.2f} times the speed of one, published 1.28.'
            + (' Here one is enough: its link is not full while workers compute, and summing 80 kB takes no time.' if gain < 1.1 else ''))


def t1(bench, page, speed):
    speed.measure([*T1, *T1_MORE])
    page.section('T1, workers and servers')
    page.table(HEADERS, [speed.row(key, T1.get(key), nodes_of(*key)) for key in [*T1, *T1_MORE]])
    page.text('Efficiency is the speed-up divided by all nodes, dedicated servers included. *Also serve*: a server process beside the workers of so many '
              'nodes; where all serve, it is a thread of the training process (`servers = 0`).')
    page.items([sharing(speed, (7, 0, ''), (4, 3, 'dedicated')), sharing(speed, (4, 0, ''), (3, 1, 'dedicated')), servers(speed)])
    page.plot('t1', svg.bars('Images per second of 128-image steps', 'images/s', ['4 + 3 dedicated', '7 share', '3 + 1 dedicated', '4 share 1', '4 share 3', '4 share all'],
                             {'here': [speed.runs[k] and speed.runs[k].rate for k in ((4, 3, 'dedicated'), (7, 0, ''), (3, 1, 'dedicated'), (4, 1, 'shared'), (4, 3, 'shared'), (4, 0, ''))]}),
              'images per second by workers and servers')


def t2(bench, page, speed):
    published = {k: v for k, v in T2.items() if bench.pick(k[0] <= 4, True)}
    shared = {k: (nodes_of(*k), 0, '') for k in published}
    speed.measure([(1, 0, ''), *published, *shared.values()])
    page.section('T2, more nodes')
    rows = []
    for key, figures in T2.items():
        rows.append(speed.row(key, figures, key[0]))
        if key in shared:
            rows.append(speed.row(shared[key], None, shared[key][0]))
        else:
            bench.skip(f'T2, {describe(*key)}', 'in the full run only')
    page.table(HEADERS, rows)
    page.text('Here efficiency is the speed-up divided by the nodes that work, as the source has it in this table. Every second row is ours: the same number of '
              'nodes, all of which work and serve.')
    page.items([sharing(speed, shared[key], key) for key in published])
    one = speed.gain((1, 0, ''))
    page.plot('t2', svg.lines('Speed-up by nodes', 'nodes, servers included', 'speed-up', {
        'dedicated servers, published': [(1, 1), *((nodes_of(*k), v[1]) for k, v in T2.items())],
        'dedicated servers, here': [(1, one), *((nodes_of(*k), speed.gain(k)) for k in published)],
        'all nodes work and serve, here': [(1, one), *((k[0], speed.gain(k)) for k in shared.values())]}),
              'speed-up by nodes')


class Accuracy:
    """Fine-tuning of the trained network on so many nodes. The first seed runs with links and sleeps and gives the time, others the error only."""

    def __init__(self, bench):
        self.bench = bench
        self.samples, self.epochs, self.seeds = bench.pick(8192, 16384), bench.pick(4, 6), bench.pick(2, 3)
        self.nodes = [n for n in T3 if n <= bench.pick(4, 8)]
        self.rates = '0.00078125*3:0.00015625' if bench.quick else '0.00078125*4:0.00015625'

    def one(self, hosts, name, nodes, method, seed, gpus=GPUS):
        words = [f'Samples={self.samples}', f'Epochs={self.epochs}', f'Seed={seed}', f'Rates={self.rates}', f'Base={base_model(self.bench)}',
                 settings(method, nodes, SLEEP_3 if seed == 1 else 0)]
        steps = self.samples * self.epochs / IMAGES / nodes
        return self.bench.run(f'{name}-seed{seed}', CONFIG, *words, command='Train:Test', estimate=8 + (1.4 * SLEEP_3 if seed == 1 else .06 * nodes) * steps,
                              hosts=hosts.at(places(nodes, gpus=gpus)))

    def several(self, hosts, name, nodes, method, gpus=GPUS, seeds=None):
        runs = [self.one(hosts, name, nodes, method, seed, gpus) for seed in range(1, (seeds or self.seeds) + 1)]
        return [r for r in runs if r]

    def variants(self):
        """Name, settings, ranks of a node: mixed mode with a bound on staleness; all nodes in step, without and with a backup worker."""
        n = max(self.nodes)
        sync = 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=sync;push=gradients{}]'
        return n, [(f'mixed mode, maxStaleness = {n}', mixed(more=f';maxStaleness={n}'), GPUS), (f'mixed mode, maxStaleness = {n // 2}', mixed(more=f';maxStaleness={n // 2}'), GPUS),
                   ('synchronous, 1 rank a node', sync.format(''), 1), ('synchronous, 1 rank a node, backupWorkers = 1', sync.format(';backupWorkers=1'), 1)]


def mean_error(runs):
    errors = [r.error() for r in runs or [] if r.error() is not None]
    return statistics.mean(errors) if errors else None


def seconds(runs):
    return next((r.seconds for r in runs or [] if r.name.endswith('seed1')), None)


def why(runs, accuracy):
    """Where several nodes lose what they do not make up for."""
    half, most = accuracy.epochs // 2, max(n for n in accuracy.nodes if runs[n])
    early = [100 * runs[n][0].epochs[half - 1].results['errs'] for n in (1, most)]
    pushes = accuracy.samples * accuracy.epochs // IMAGES
    return (f' A node computes its gradient from weights that do not hold the latest updates of the other nodes. That probably slows the start: after epoch {half} the training error is '
            f'{early[0]:.1f} % on one node and {early[1]:.1f} % on {most}, and the {pushes} updates of this run are too few to catch up.')


def t3(bench, page):
    accuracy = Accuracy(bench)
    most, variants = accuracy.variants()
    with bench.hosts(max(accuracy.nodes), LINK_3) as hosts:
        runs = {n: accuracy.several(hosts, f'mixed-{n}', n, ALONE if n == 1 else mixed()) for n in accuracy.nodes}
        more = [(name, accuracy.several(hosts, f'T3: {name}', most, method, gpus, bench.pick(1, None))) for name, method, gpus in variants]
    error, time = mean_error(runs[1]), seconds(runs[1])
    page.section('T3, accuracy against time')

    def cells(found):
        e, s = mean_error(found), seconds(found)
        return [text(e), text(e - error, 2) if e is not None and error is not None else None, text(s, 1), text(time / s) if s and time else None]

    page.text(f'The pre-trained network with a new last layer learns {accuracy.samples:,} scrawled digits for {accuracy.epochs} epochs. Errors of 20,000 other digits, mean of '
              f'{accuracy.seeds} seeds; times of the first. *Difference*: points of error above one node, for the source points of accuracy below one node.')
    page.table(['nodes', 'published: accuracy', 'difference', 'hours', 'speed-up', 'here: error, %', 'difference', 'seconds', 'speed-up'],
               [[str(n), f'{right:.3f}', text(100 * (T3[1][0] - right), 1), text(hours), text(gain), *cells(runs.get(n))]
                for n, (right, hours, gain) in T3.items()])
    for n in T3:
        if n not in runs:
            bench.skip(f'T3, {n} nodes', 'in the full run only')
    page.text(f'Other settings on {most} nodes{", first seed only" if bench.quick else ""}:')
    page.table(['', 'error, %', 'difference', 'seconds', 'speed-up'], [[name, *cells(found)] for name, found in more])
    worst = max((mean_error(runs[n]) - error for n in accuracy.nodes[1:] if mean_error(runs[n]) is not None), default=None) if error is not None else None
    if worst is not None:
        page.text(f'Mixed mode without a bound on staleness ends at most {worst:.2f} points above one node; the source lost 1.1 to 2.6. Our goal of at most .3 points is {"met" if worst <= .3 else "**not** met"}.{why(runs, accuracy) if worst > .3 else ""}')
    page.plot('t3', svg.lines('Training error against time', 'seconds', 'error, %', {f'{n} node{"s" if n > 1 else ""}': next((r.curve() for r in runs[n] if r.name.endswith('seed1')), [])
                                                                                     for n in accuracy.nodes}), 'training error against time')


def reproduce(bench):
    page = Page(bench, 'Campos et al.: servers and mixed mode',
                'The source trains a ResNet-50 on nodes of 4 GPUs by TensorFlow: synchronous within a node, asynchronous between nodes, with parameter servers on '
                'nodes of their own or beside workers.')
    page.difference(f'A node is a host of {GPUS} ranks. A rank computes its {IMAGES // GPUS} images on the shared cores and sleeps {SLEEP} s in every step ({SLEEP_3} s in T3), as if it '
                    'waited for an accelerator: `faultHook = [ rank = -1 ]`. Speed-ups above the number of cores are those of nodes that sleep at the same time.',
                    f'Links have {LINK} (T3: {LINK_3}), so that an exchange is to a step about what it was in the source; with faster links nothing would wait.',
                    'A residual network of 8 layers (19,810 parameters) for drawn digits of 28 x 28 pixels; it has learned neat digits, gets a new last layer, and learns scrawled ones. The source: '
                    'ResNet-50 from ImageNet, for photographs, cropped and flipped.',
                    'Running statistics of batch normalisation, which are a mean over the ranks, have a time constant of 256 samples: with many nodes each rank sees few samples, and with a longer time '
                    'constant the statistics come from old weights.',
                    'The optimizer is that of the source (RMSProp, rate .1, decay .9, epsilon 1, weight decay 1e-4); servers apply it to the gradients of nodes. In the last epochs the rate is a fifth.')
    if pretrain(bench):
        speed = Speed(bench)
        if bench.wants('t1'):
            t1(bench, page, speed)
        if bench.wants('t3'):
            t3(bench, page)
        if bench.wants('t2'):
            t2(bench, page, speed)
    page.write()
