# SPDX-License-Identifier: Apache-2.0
"""cntk.py -- what CNTK's pages show of its parallel methods: 1-bit SGD and block momentum (near-linear speed-up at equal accuracy), and
asynchronous against synchronous SGD with a slow worker. Theirs are figures of 2,600 hours of speech and CIFAR-10; ours MNIST, ATIS, CIFAR-10."""
import dataclasses

import svg
from common import speed_up, text
from page import Page

PARTS = ('mnist', 'slow', 'atis')
BLOCK = 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker={block}]'
METHODS = {'32 bits': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]', '1 bit': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]',
           'block momentum': BLOCK}
ALONE = 'parallelizationMethod=none'
WARM = ('1 bit', 'block momentum')  # methods that begin after some epochs of one rank, as CNTK's users do


def settings_of(method, settings, block, warm):
    start = f'parallelizationStartEpoch={warm + 1};' if method in WARM else ''
    return f'ParallelTrain=[{start}{settings.format(block=block)}]'


def rates(base, ranks, method, warm, high, last):
    """A schedule: `high` epochs at the full rate, then at `last` of it. Block momentum has that of one rank times their number, after it began."""
    factor = ranks if method == 'block momentum' else 1
    warm = warm if method in WARM else 0
    parts = [(base, warm), (base * factor, high - warm)]
    return ''.join(f'{rate:g}*{epochs}:' for rate, epochs in parts if epochs > 0) + f'{base * factor * last:g}'


def without_warm_up(run, method, warm):
    """Its speeds are those of the method."""
    return dataclasses.replace(run, first=warm) if run and method in WARM else run


def speed_and_error(bench, page, title, counts, link, warm, train, name, what):
    """Runs each method on each number of hosts; `train(hosts, ranks, method, own)` returns a Run, with `own` of each rank for itself."""
    found, free = {}, {}
    with bench.hosts(max(counts), link) as hosts:
        alone = train(hosts, 1, 'one rank', ALONE, False)
        for ranks in counts:
            free[ranks] = train(hosts, ranks, 'no exchange', ALONE, True)
            for method, settings in METHODS.items():
                found[method, ranks] = without_warm_up(train(hosts, ranks, method, settings, False), method, warm)
    page.section(title)
    one = speed_up(alone, alone)
    rows = [['one rank', '1', text(one), text(one), text(alone and alone.error()), None]]
    linear = {n: n for n in (1, *counts)}
    series = {'linear': list(linear.items())}
    for method in METHODS:
        points = [(1, one)]
        for ranks in counts:
            run, own, measured = found[method, ranks], None, None
            if run and alone and free[ranks]:
                single, here, without = (r.fastest() for r in (alone, run, free[ranks]))
                measured = speed_up(here, single)
                added = max(here.per(1) - 1 / (without.rate * ranks), 0)
                own = single.per(1) / (single.per(1) / ranks + added)
            points.append((ranks, own))
            rows.append([method, f'{ranks}', text(measured), text(own), text(run and run.error()), text(run and run.sent(1) / 1e3)])
        series[method] = points
    page.table(['method', 'hosts', 'speed-up', 'with own cores', 'test error, %', 'kB sent per sample'], rows)
    page.plot(name, svg.lines(f'speed-up of {what}, each host with its own cores', 'hosts', 'speed-up', series), 'speed-up by hosts')
    return found, alone


def mnist(bench, page):
    size, epochs = bench.pick((20000, 3), (60000, 6))
    link, warm = '1gbit', 1

    def train(hosts, ranks, method, settings, own):
        schedule = rates(.4, ranks, method, warm, epochs - max(epochs // 3, 1), .25)
        minibatch = 256 // (ranks if own else 1)
        sgd = (f'minibatchSize={minibatch};epochSize={size // (ranks if own else 1)};maxEpochs={min(3, epochs) if own else epochs};learningRatesPerMB={schedule};'
               f'numMBsToShowResult=0;{settings_of(method, settings, 640, warm)}')
        return bench.run(f'mnist {ranks} {method}', 'samples/mnist/mnist.cntk', f'Train=[SGD=[{sgd}]]', 'Hidden=512', 'Layers=3', f'DataDir={bench.dataset("mnist")}',
                         'parallelTrain=true', hosts=hosts, ranks=ranks, command='Train' if own else 'Train:Test', estimate=12)
    found, alone = speed_and_error(bench, page, 'MNIST: 1 bit and block momentum', (2, 4), link, warm, train, 'mnist', '784-3x512-10 on MNIST')
    page.text(f'Minibatches of 256 of all hosts, {epochs} epochs of {size:,} images, links of 1 Gbit/s; blocks of 640 samples of each host, with its learning rate, in block momentum, times the '
              f'number of hosts. {warm_text(warm)} ' + compare(found, alone))


def atis(bench, page):
    (size, epochs), warm = bench.pick((24000, 3), (36000, 8)), bench.pick(1, 2)

    def train(hosts, ranks, method, settings, own):
        minibatch = 512 // (ranks if own else 1)
        schedule = rates(.005, ranks, method, warm, max(epochs // 2, 1), .5)
        sgd = (f'minibatchSize={minibatch};epochSize={size // (ranks if own else 1)};maxEpochs={min(3, epochs) if own else epochs};numMBsToShowResult=0;firstMBsToShowResult=0;'
               f'learningRatesPerSample={schedule};{settings_of(method, settings, 2560, warm)}')
        return bench.run(f'atis {ranks} {method}', 'samples/atis/atis.cntk', f'Train=[SGD=[{sgd}]]', f'DataDir={bench.dataset("atis")}', 'parallelTrain=true', hosts=hosts,
                         ranks=ranks, command='Train' if own else 'Train:Test', estimate=15)
    found, alone = speed_and_error(bench, page, 'ATIS: 1 bit and block momentum', bench.pick((2,), (2, 4)), '1gbit', warm, train, 'atis', 'LSTM-300 on ATIS')
    page.text(f'Slot labels of words, FSAdaGrad, minibatches of 512 words in total, {epochs} epochs of {size:,} words, links of 1 Gbit/s; blocks of 2,560 words of each host. {warm_text(warm)} ' + compare(found, alone))


def warm_text(warm):
    return f'1 bit and block momentum begin after {"two epochs" if warm == 2 else "an epoch"} of one rank (`parallelizationStartEpoch = {warm + 1}`).'


def compare(found, alone):
    """Errors of the methods against one rank, in words."""
    words = [f'{m} on {n} hosts {run.error() - alone.error():+.2f}' for (m, n), run in found.items() if run and alone and run.error() is not None and m != '32 bits']
    return f'Points of test error against one rank: {", ".join(words)}.' if words else ''


# A slow worker

def tenth(bench, data):
    """A map file with every tenth test image, to validate on after each epoch."""
    file = bench.work / 'validation_map.txt'
    rows = (data / 'test_map.txt').read_text(encoding='utf-8').splitlines()[::bench.pick(20, 10)]
    file.write_text('\n'.join(r.replace('...', str(data), 1) for r in rows) + '\n', encoding='utf-8')
    return file, len(rows)


def resnet(bench, hosts, data, validation, name, settings, hook, rate):
    size, epochs = bench.pick((1024, 4), (6400, 8))
    low = max(epochs // 4, 1)
    minibatch = 128
    hook = f'faultHook=[rank={hosts.number - 1};sleep={hook:.4f}]' if hook else ''
    sgd = (f'minibatchSize={minibatch};epochSize={size};maxEpochs={epochs};learningRatesPerMB={rate:g}*{epochs - low}:{rate / 10:g};numMBsToShowResult=0;'
           f'ParallelTrain=[{settings};{hook}]')
    crop = 'features=[width=32;height=32;channels=3;cropType=center;sideRatio=0.8;' + f'meanFile={data}/mean.xml];labels=[labelDim=10]'
    return bench.run(f'resnet20 {name}', 'samples/cifar10/resnet20.cntk', f'Train=[SGD=[{sgd}];cvReader=[readerType=ImageReader;file={validation};{crop}]]', f'DataDir={data}',
                     'parallelTrain=true', hosts=hosts, command='Train', estimate=bench.pick(25, 150))


def slow(bench, page):
    data = bench.dataset('cifar10')
    validation, images = tenth(bench, data)
    sync, asynchronous = 'parallelizationMethod=DataParallelSGD', ('parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod=64;'
                                                                   'AdjustLearningRateAtBeginning=[adjustType=none]]')
    runs, factor = {}, 3
    with bench.hosts(2, '1gbit') as hosts:
        runs['synchronous'] = resnet(bench, hosts, data, validation, 'synchronous', sync, 0, .5)
        step = 128 / runs['synchronous'].rate if runs['synchronous'] else .5  # seconds of a step of both workers, each with a half of it
        runs['ASGD'] = resnet(bench, hosts, data, validation, 'ASGD', asynchronous, 0, .5)
        runs['synchronous, slow worker'] = resnet(bench, hosts, data, validation, 'synchronous, slow worker', sync, factor * step, .5)
        runs['ASGD, slow worker'] = resnet(bench, hosts, data, validation, 'ASGD, slow worker', asynchronous, factor * step, .5)
    page.section('A slow worker: ASGD against synchronous SGD')
    base = runs['synchronous']
    page.table(['run', 'images/s', 'relative', 'validation error, %', 'training error, %'],
               [[n, text(r and r.rate, 1), text(speed_up(r, base)), text(r and r.error(), 1), text(r and 100 * r.epochs[-1].results.get('errs', 0), 1)] for n, r in runs.items()])
    page.text(f'ResNet-20 on CIFAR-10, two hosts with a core each, minibatches of 128 (of 64 for each worker), {bench.pick("4 epochs of 1,024", "8 epochs of 6,400")} images, validated '
              f'on {images} test images. The slow worker sleeps {factor} step times before each of its steps, so it is about {factor + 1} times as slow. Synchronous SGD waits for it; '
              'in ASGD it takes fewer of the work units. CNTK shows this as a figure of error against time.')
    page.plot('slow', svg.lines('ResNet-20, two workers', 'seconds of training', 'validation error, %', {n: r.curve() for n, r in runs.items() if r}, zero=False),
              'validation error against time')
    lost, kept = (speed_up(runs[f'{m}, slow worker'], runs[m]) for m in ('synchronous', 'ASGD'))
    if lost and kept:
        page.text(f'With the slow worker synchronous SGD keeps {lost:.2f} of its speed, ASGD {kept:.2f}.')


def reproduce(bench):
    page = Page(bench, 'CNTK', 'CNTK\'s pages show near-linear speed-up of 1-bit SGD and of block momentum on 2,600 hours of speech at equal word accuracy, block momentum on up to '
                '64 GPUs, and asynchronous against synchronous SGD on CIFAR-10 with a slow worker. All are plots without values.')
    page.difference('Processor cores instead of GPUs, 2 to 4 emulated hosts that share them; MNIST and ATIS instead of speech, which is not public.',
                    '*speed-up* is measured, and cannot exceed the number of cores. *with own cores* is T1 / (T1/P + s), with s the time that the exchange adds to the '
                    'same ranks without exchange, and T1 the time of one rank. The fastest epoch after the first counts.')
    for part, data, run in (('mnist', 'mnist', mnist), ('slow', 'cifar10', slow), ('atis', 'atis', atis)):
        if bench.wants(part) and bench.dataset(data):
            run(bench, page)
    page.write()
