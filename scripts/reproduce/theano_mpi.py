# SPDX-License-Identifier: Apache-2.0
"""theano_mpi.py -- Theano-MPI (2016): its tables 1 to 3 and the grid of elastic averaging, on emulated hosts. Published figures were
measured on 8 GPUs with InfiniBand."""
import re
import shutil
import subprocess
import time

import svg
from common import ROOT, environment, text
from page import Page

PARTS = ('t2', 't1', 't3', 'easgd')
IMAGES = 5120  # that the source's times are for

# Models of table 2: published parameters, config here.
T2 = (('AlexNet, 8 layers', 60965224, 'alexnet', ''), ('GoogLeNet, 22 layers', 13378280, 'googlenet', ''),
      ('VGG, 19 layers', 138357544, 'vgg16', 'the count is that of VGG-16, with 16 layers'),
      ('', None, 'vgg19', 'VGG-19, for comparison'))
# Table 3, seconds on one GPU and on 8, then (communication, speed-up) for AR, ASA, ASA16.
T3 = {('AlexNet', 128): (31.2, 3.90, (2.01, 5.3), (.75, 6.7), (.47, 7.1)), ('AlexNet', 32): (36.4, 4.56, (8.03, 2.9), (2.94, 4.9), (1.83, 5.7)),
      ('GoogLeNet', 32): (134.9, 16.82, (2.07, 7.1), (1.96, 7.2), (1.76, 7.3)), ('VGG', 32): (405.2, 51.79, (41.41, 4.3), (8.60, 6.7), (4.84, 7.2))}
METHODS = {'AR': 'parallelizationMethod=ASA;ASA=[allReduce=library]', 'ASA': 'parallelizationMethod=ASA', 'ASA16': 'parallelizationMethod=ASA;ASA=[exchangeBits=16]',
           '1 bit': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]',
           'hybrid, 1 bit': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]'}
HYBRID = 'ModelParallel=[dense=shard]'
MODELS = {'AlexNet': 'alexnet', 'GoogLeNet': 'googlenet', 'VGG': 'vgg16'}
LINK = '1gbit'
# Table 1, AlexNet: workers, batch of each, rate, transport -> top-5 error, speed-up of the throughput.
T1 = {(1, 128, 1, 32): (19.8, 1), (2, 128, 1, 32): (19.8, 1.7), (4, 128, 1, 32): (20.4, 3.4), (8, 128, .5, 32): (20.7, 6.7), (8, 32, .5, 32): (19.9, 4.9),
      (8, 32, .5, 16): (20.3, 5.7)}
# GoogLeNet, batch 32: workers, transport -> learning rate where it is given, top-5 error, speed-up.
T1_GOOGLENET = {(1, 32): (None, 10.07, 1), (2, 32): (.007, 10.20, 1.9), (4, 32): (.005, 10.48, 3.7),
                (8, 32): (None, 10.65, 7.2), (8, 16): (None, 11.75, 7.3)}


def parallel(settings):
    return f'ParallelTrain=[{settings}]'


def fast(run):
    """Its fastest epoch or step after the first, for speeds: what other programs disturb least."""
    return run and run.fastest()


# Table 2

def parameters(bench, model):
    """As the program counts them when a training of the config starts; it is stopped then."""
    folder = bench.work / model
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted experiment
    folder.mkdir()
    log, found = folder / 'log', None
    words = [bench.options.trainer.resolve(), f'configFile={ROOT}/samples/imagenet/{model}.cntk', 'command=Synthetic', f'OutputDir={folder}', f'stderr={log}',
             'Synthetic=[SGD=[minibatchSize=1;epochSize=1]]', 'makeMode=false']
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()) as process:
        ended = False
        try:
            while not found and not ended:
                time.sleep(.05)
                ended = process.poll() is not None
                found = re.search(r'Training (\d+) parameters', log.read_text(encoding='utf-8') if log.exists() else '')
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
    return int(found.group(1)) if found else None


def table2(bench, page):
    page.section('Table 2: parameters')
    rows = []
    for name, published, model, note in T2:
        here = parameters(bench, model)
        same = 'equal' if here and here == published else text(here - published, 0) if here and published else None
        rows.append([name, text(published, 0), f'`{model}.cntk`', text(here, 0), same, note])
    page.table(['model', 'published', 'config of samples/imagenet', 'here', 'difference', 'note'], rows)


# Table 3

def step_time(bench, hosts, name, model, batch, method, steps, estimate):
    """A run of random images."""
    ranks = hosts.number if method != 'alone' else 1
    minibatch = batch * ranks
    sgd = [f'minibatchSize={minibatch};maxEpochs=1;numMBsToShowResult=1']
    sgd += [HYBRID] if method.startswith('hybrid') else []
    sgd.append(parallel(METHODS.get(method, 'parallelizationMethod=none')))
    return bench.run(f'{name} {method}', f'samples/imagenet/{model}.cntk', f'Synthetic=[SGD=[{";".join(sgd)}];reader=[samples={minibatch * steps}]]', 'parallelTrain=true',
                     hosts=hosts, ranks=ranks, command='Synthetic', section='Synthetic', intervals=True, estimate=estimate)


def exchange(run):
    """Seconds of the exchange in a step, beyond what computing hides: the least of all counted steps and ranks, as the rank that comes
    last to an exchange waits for the wire only, not for other ranks."""
    return min(min(sum(of_rank) for of_rank in zip(*(e.ranks[f'{kind}_seconds'] for kind in ('encode', 'wait', 'decode')))) for e in run.counted)


def published3(title, batch, method):
    """The cells of table 3 that are the source's, which has three of the methods."""
    place = list(METHODS).index(method)
    seconds, gain = T3[title, batch][2 + place] if place < 3 else (None, None)
    return [f'{title}-{batch}b' if place == 0 else '', method, text(seconds), text(gain, 1), text(gain and gain / 8)]


def table3_of(bench, hosts, title, batch, estimate, rows, shown):
    """Rows of one network: published and measured communication and speed-up for each method."""
    model = MODELS[title]
    steps = 4 if batch == 32 and title != 'VGG' and not bench.quick else 3  # the first of which does not count
    name = f't3 {model}-{batch} {hosts.number} hosts {hosts.link}'
    first = step_time(bench, hosts, name, model, batch, 'alone', steps, estimate)
    alone = fast(first)
    for method in METHODS:
        run = step_time(bench, hosts, name, model, batch, method, steps, first.wall if first else estimate)
        cells = published3(title, batch, method)
        if run and alone:
            one, added = alone.per(IMAGES), exchange(run) * IMAGES / (batch * hosts.number)
            up = one / (one / hosts.number + added)
            shown.setdefault(method, {})[f'{title}-{batch}b, {hosts.number} hosts'] = added
            cells += [text(added, 1), text(up), text(up / hosts.number), text(fast(run).seconds), text(run.sent(IMAGES) / 1e9)]
        rows.append(cells + [None] * (10 - len(cells)))


def judge_order(shown):
    """Whether communication grows from ASA16 over ASA to AR, where all three were measured, in words."""
    lines = []
    for case in shown.get('AR', {}):
        if all(case in shown.get(m, {}) for m in ('ASA', 'ASA16')):
            c16, c32, ar = (shown[m][case] for m in ('ASA16', 'ASA', 'AR'))
            verdict = 'holds' if c16 < c32 < ar else 'does not hold'
            lines.append(f'{case}: the order ASA16 > ASA > AR {verdict} ({c16:.1f}, {c32:.1f} and {ar:.1f} s not hidden).')
    return lines


def table3(bench, page):
    # Hosts -> networks, batches, seconds of a run at least.
    cases = bench.pick({2: [('AlexNet', 32, 15)]},
                       {2: [('AlexNet', 32, 15), ('GoogLeNet', 32, 15), ('AlexNet', 128, 50), ('VGG', 32, 150)],
                        4: [('AlexNet', 32, 30)]})
    page.section(f'Table 3: communication per {IMAGES:,} images')
    shown = {}
    for number, of_number in cases.items():
        rows = []
        with bench.hosts(number, LINK) as hosts:
            for title, batch, estimate in of_number:
                table3_of(bench, hosts, title, batch, estimate, rows, shown)
        if number == 2:
            for title, batch in (key for key in T3 if key not in [c[:2] for c in of_number]):
                rows += [published3(title, batch, method) + [None] * 5 for method in list(METHODS)[:3]]
                bench.skip(f'table 3, {title}-{batch}b', 'in the full run only')
        speed = '1 Gbit/s' if bench.emulated else 'no limit'
        page.text(f'{number} hosts, links of {speed}. Published figures are of 8 GPUs.')
        page.table(['network', 'exchange', 's, 8 GPUs', 'speed-up', 'efficiency', 's here', 'speed-up', 'efficiency', 'step, s', 'GB sent'], rows)
    page.text('*s* is the time of the exchange that computing does not hide: here encoding, waiting and decoding, of the '
              f'rank and the step (of {bench.pick("two", "two or three")} after a first one) '
              'where it is least, so that waiting for slower ranks is not in it. *speed-up* is T1 / (T1/P + s), as in the source, which has no overlap; whole steps are slower. *step*: the '
              'fastest whole step; an exchange beside backward takes part of the core of its host, which s does not count. *GB sent* by each rank. AR is `ASA` with `allReduce = library`: one MPI_Allreduce after the backward pass. ASA and ASA16 sum shards in 32 and 16 bits during '
              'it. *1 bit* is DataParallelSGD, *hybrid* the same with sharded dense layers; the source has neither.')
    page.text('Training, as published, in seconds on 1 and on 8 GPUs: '
              + '; '.join(f'{title}-{batch}b {one:g} and {eight:g}' for (title, batch), (one, eight, *_) in T3.items()) + '.')
    groups = list(dict.fromkeys(c for of_one in shown.values() for c in of_one))
    page.plot('t3', svg.bars(f'seconds of communication per {IMAGES:,} images', 'seconds', groups, {m: [shown.get(m, {}).get(c) for c in groups] for m in METHODS}),
              'seconds of communication by method')
    if lines := judge_order(shown):
        page.items(lines)


# Table 1

def lenet(bench, hosts, name, ranks, batch, rate, settings, seed=1, estimate=10, own=False, images=60000):
    """LeNet on MNIST, tested at the end. `batch` is that of each worker, `rate` relative to the sample's for a minibatch. `own`: each rank
    for itself, for speeds alone. `images` of an epoch in the full run."""
    size, epochs = bench.pick(15000, images), 2 if own else 3
    minibatch = batch if own else batch * ranks
    size = size // ranks if own else size
    low = max(epochs // 3, 1)
    rates = f'{.4 * rate:g}*{epochs - low}:{.1 * rate:g}'
    sgd = f'minibatchSize={minibatch};epochSize={size};maxEpochs={epochs};learningRatesPerMB={rates};numMBsToShowResult=0;{parallel(settings)}'
    network = f'Train=[reader=[randomizationSeed={seed}]]'
    data = bench.dataset('mnist')
    if not data:
        return None
    return bench.run(name, 'samples/mnist/lenet.cntk', f'Train=[SGD=[{sgd}]]', network, f'DataDir={data}', 'parallelTrain=true', hosts=hosts,
                     ranks=ranks, command='Train' if own else 'Train:Test', estimate=estimate)


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def row1(bench, hosts, case, alone, free, seeds):
    """(our cells, mean test error) of one setting of workers, batch, rate and transport."""
    ranks, batch, rate, bits = case
    method = f'parallelizationMethod=ASA;ASA=[exchangeBits={bits}]' if ranks > 1 else 'parallelizationMethod=none'
    found = [lenet(bench, hosts, f't1 {ranks}x{batch} rate {rate:g} {bits} bits seed {s}', ranks, batch, rate, method, s) for s in seeds]
    found = [r for r in found if r]
    fastest = max(found, key=lambda r: r.fastest().rate).fastest() if found else None
    error = mean([r.error() for r in found])
    measured = own = None
    if found and alone:
        measured = fastest.rate / alone.rate
        if ranks == 1:
            own = 1.0
        elif free:
            added = max(fastest.per(IMAGES) - IMAGES / (free.rate * ranks), 0)
            own = alone.per(IMAGES) / (alone.per(IMAGES) / ranks + added)
    return [text(error), text(measured), text(own)], error


def published1(case):
    """The cells of table 1 that are not measured: setting and published figures."""
    error, gain = T1.get(case, (None, None))
    return [*(f'{c:g}' for c in case), text(error, 1), text(gain, 1)]


def table1(bench, page):
    cases = bench.pick([(1, 128, 1, 32), (4, 32, .5, 32), (4, 32, .5, 16), (2, 128, 1, 32), (4, 128, 1, 32)],
                       [(1, 128, 1, 32), (2, 128, 1, 32), (4, 128, 1, 32), (4, 128, 4, 32), (8, 128, .5, 32), (8, 32, .5, 32), (8, 32, .5, 16)])
    page.section('Table 1: error and throughput by workers')
    ours, errors, alone, free = {}, {}, {}, {}
    with bench.hosts(max(c[0] for c in cases), LINK) as hosts:
        for case in cases:
            ranks, batch, rate, bits = case
            seeds = (1, 2) if batch == 32 and not bench.quick else (1,)  # to tell 16 bits from 32
            if batch not in alone:
                alone[batch] = fast(lenet(bench, hosts, f't1 alone, batch {batch}', 1, batch, 1, 'parallelizationMethod=none', own=True))
            if ranks > 1 and (ranks, batch) not in free:
                free[ranks, batch] = fast(lenet(bench, hosts, f't1 {ranks}x{batch} without exchange', ranks, batch, rate, 'parallelizationMethod=none',
                                                 own=True))
            ours[case], errors[case] = row1(bench, hosts, case, alone[batch], free.get((ranks, batch)), seeds)
    page.table(['workers', 'batch', 'rate', 'bits', 'top-5 error, %', 'speed-up', 'error here, %', 'speed-up', 'with own cores'],
               [published1(case) + ours.get(case, [None] * 3) for case in [*T1, *(c for c in cases if c not in T1)]])
    for ranks, batch, _, bits in (case for case in T1 if case not in cases):
        bench.skip(f'table 1, {ranks} workers with batch {batch} and {bits} bits', 'in the full run only')
    page.text('Published: AlexNet on ImageNet; rows without figures were not published. Here: LeNet on MNIST, test error of one label. *rate* is relative to '
              'that of one worker. *error here* and the *speed-up* beside it are measured; that speed-up compares with a separate run of one worker, and cannot exceed the number of cores. *with own cores* is T1 / (T1/P + s), with s the '
              'time that the exchange adds to the same ranks without exchange. The fastest epoch after the first counts.')
    page.text('GoogLeNet with batch 32: the published figures. It is not trained here.')
    page.table(['workers', 'bits', 'learning rate', 'top-5 error, %', 'speed-up', 'error here, %', 'speed-up'],
               [[f'{ranks}', f'{bits}', text(rate, 3), text(error), text(gain, 1), None, None]
                for (ranks, bits), (rate, error, gain) in T1_GOOGLENET.items()])
    bench.skip('table 1, GoogLeNet', 'ImageNet is not trained here')
    wide, half = (next((c for c in cases if c[3] == b and c[1] == 32), None) for b in (32, 16))
    if errors.get(wide) is not None and errors.get(half) is not None:
        change = errors[half] - errors[wide]
        page.text(f'16 bits instead of 32 on the wire change the error by {change:+.2f} points (mean of {len(seeds)} seed{"s" if len(seeds) > 1 else ""}; '
                  f'published: +.4 for AlexNet, +1.1 for GoogLeNet). {"Less" if change < .3 else "Not less"} than .3 points is the limit that we set.')


# Elastic averaging

def easgd(bench, page):
    alphas, taus = bench.pick(((.1, .5), (1, 10)), ((.1, .225, .5, .9), (1, 4, 16)))
    ranks, batch, images = 4, 32, 20000
    page.section('Elastic averaging: moving rate α and period τ')
    errors, speeds = {}, {}
    with bench.hosts(ranks, '1gbit') as hosts:
        free = fast(lenet(bench, hosts, 'easgd without exchange', ranks, batch, ranks, 'parallelizationMethod=none', own=True, images=images))
        for tau in taus:
            for alpha in alphas:
                run = lenet(bench, hosts, f'easgd alpha {alpha:g} tau {tau}', ranks, batch, ranks,
                            f'parallelizationMethod=EASGD;EASGD=[policy=async;movingRate={alpha:g};period={tau}]', images=images)
                errors[alpha, tau] = run and run.error()
                speeds[alpha, tau] = run and free and fast(run).rate / (free.rate * ranks)
    page.table(['α', *[f'error, %, τ = {t}' for t in taus], *[f'speed, τ = {t}' for t in taus]],
               [[f'{a:g}', *[text(errors[a, t]) for t in taus], *[text(speeds[a, t]) for t in taus]] for a in alphas])
    page.text(f'{ranks} workers with batch {batch}, asynchronous EASGD, rates of {ranks} times one worker\'s; links of 1 Gbit/s. *speed* is relative to the same ranks without any '
              'exchange. Published for AlexNet on 8 GPUs: the best error, 21.12 %, at α = .5 and τ = 1, with a speed-up of 6.7 (.84 of 8), and 42 % less overhead '
              'than Platoon at τ = 1. Platoon is not run here.')
    measured = {k: v for k, v in errors.items() if v is not None}
    if measured:
        alpha, tau = min(measured, key=measured.get)
        page.text(f'Best here: {measured[alpha, tau]:.2f} % at α = {alpha:g}, τ = {tau}.')
        page.plot('easgd', svg.lines('test error of asynchronous EASGD', 'τ, minibatches', 'error, %',
                                     {f'α = {a:g}': [(t, errors[a, t]) for t in taus] for a in alphas}, log_x=True, zero=False), 'test error by moving rate and period')


def reproduce(bench):
    page = Page(bench, 'Theano-MPI', 'Theano-MPI (Ma, Mao, Taylor, 2016) trains AlexNet, GoogLeNet and VGG on up to 8 GPUs (K20m, K80, InfiniBand): synchronously by '
                'exchanges that sum shards in 32 or 16 bits, or asynchronously by elastic averaging.')
    page.difference('Processor cores instead of GPUs, and hosts that share them. The links have the limit that is named; InfiniBand had 40 Gbit/s and more.',
                    'Speeds of table 3 are those of random images of the original size; errors of table 1 and of elastic averaging are those of LeNet on MNIST, '
                    f'{bench.pick("3 epochs of 15,000 images", "3 epochs of 60,000 images (elastic averaging: of 20,000)")}, not of AlexNet on ImageNet.')
    # A share of the time that is left for each, so that none goes empty; the last one may take all.
    parts = (('t2', table2, 1), ('t1', table1, .4), ('t3', table3, .8), ('easgd', easgd, 1))
    parts = [p for p in parts if bench.wants(p[0])]
    for part, run, share in parts:
        if part != 'easgd' or bench.dataset('mnist'):
            with bench.share(1 if part == parts[-1][0] else share):
                run(bench, page)
    page.write()
