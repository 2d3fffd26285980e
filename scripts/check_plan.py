#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_plan.py -- compares speeds that `trainer plan` predicts with those of runs, and the method that `auto` takes with the fastest.
Prints a line per run and the tables; --write puts these into docs/results/plan.md. Needs root (hosts of scripts/cluster.sh).

Each network trains on random numbers under the five main methods. Speeds are of the epochs after the first.

--rows FILE keeps complete cases as lines of JSON. Those that it has already are not measured again, and stand in the tables as well.

Usage: check_plan.py [--hosts 2,4] [--links none,1gbit,100mbit] [--networks mlp,lenet,resnet20] [--minutes 60] [--rows FILE] [--write] [TRAINER]
"""
import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'scripts' / 'reproduce'))

import common  # noqa: E402  (the folder must be on the path first)
import networks  # noqa: E402
import page  # noqa: E402

# name -> title, config, samples of all hosts in a step, steps of an epoch, epochs after the first, words
NETWORKS = {
    'mlp': ('MLP 784-2x512-10', 'samples/mnist/mnist.cntk', 512, 24, 10, ['Hidden=512', 'Layers=2']),
    'lenet': ('LeNet', 'samples/mnist/lenet.cntk', 128, 24, 5, []),
    'resnet20': ('ResNet-20', 'samples/cifar10/resnet20.cntk', 128, 12, 2, []),
}
# Name and bits in the plan, title, words of ParallelTrain.
METHODS = (
    ('DataParallelSGD', '32', 'DataParallelSGD', 'parallelizationMethod=DataParallelSGD'),
    ('DataParallelSGD', '1', '1 bit', 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]'),
    ('ModelAveragingSGD', '32', 'ModelAveraging', 'parallelizationMethod=ModelAveragingSGD'),
    ('BlockMomentumSGD', '32', 'BlockMomentum', 'parallelizationMethod=BlockMomentumSGD'),
    ('EASGD', '32', 'EASGD', 'parallelizationMethod=EASGD'),
    ('DataParallelASGD', '32', 'ASGD', 'parallelizationMethod=DataParallelASGD'),
)
AUTO = 'parallelizationMethod=auto;autoAllow="1bit:local:async"'


def parse():
    parser = argparse.ArgumentParser(description='Predicted and achieved speed of parallel methods.')
    parser.add_argument('--hosts', default='2,4')
    parser.add_argument('--rows', type=pathlib.Path)
    return networks.parse(parser, NETWORKS, 'none,1gbit,100mbit', 60)


def settings(network, method=None):
    """Of the run, as words of the command line."""
    _, _, minibatch, steps, epochs, words = NETWORKS[network]
    periods = f'ModelAveragingSGD=[blockSize={6 * minibatch}];BlockMomentumSGD=[blockSize={12 * minibatch}];EASGD=[period=6]'
    sgd = (f'SGD=[minibatchSize={minibatch};epochSize={minibatch * steps};maxEpochs={epochs + 1};numMBsToShowResult=0;'
           f'ParallelTrain=[{periods}{";" + method if method else ""}]];reader=[samples={minibatch * steps}]')
    return [f'Synthetic=[{sgd}]', *words]


def plan(bench, hosts, network):
    """Samples per second by method and bits."""
    table = bench.work / 'plan.jsonl'
    base = pathlib.Path('/run/tutti-cluster') / hosts.name
    words = [bench.options.trainer.resolve(), 'plan', '--hostfile', base / 'hostfile', '--agent', base / 'agent', '--json', table,
             f'configFile={ROOT / NETWORKS[network][1]}', 'command=Synthetic', 'deviceId=-1', 'numCPUThreads=1', f'OutputDir={bench.work}', *settings(network)]
    bench.say(f'{network}: trainer plan, {hosts.number} hosts, {hosts.link} ...')
    done = subprocess.run(words, cwd=bench.work, env=common.environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        bench.skip(f'plan of {network} on {hosts.number} hosts, {hosts.link}', (done.stdout + done.stderr).strip().splitlines()[-1])
        return {}
    rows = [json.loads(line) for line in table.read_text(encoding='utf-8').splitlines()]
    return {(r['method'], r['bits']): r['measures']['samples_per_second'] for r in rows if 'measures' in r}


def taken_by_auto(run):
    """Name and bits."""
    found = re.search(r'^ *auto +(.+?) in (\S+) bits, the fastest of', run.log.read_text(encoding='utf-8'), re.MULTILINE)
    return found.groups() if found else None


def case(bench, hosts, network):
    """A row for each table: errors of the plan in percent by method, and what auto achieves. Values not measured are None."""
    planned = plan(bench, hosts, network)
    achieved, errors = {}, []
    for name, bits, _, words in METHODS:
        run = bench.run(f'{network}-{hosts.number}-{hosts.link}-{name}-{bits}', NETWORKS[network][1], *settings(network, words), hosts=hosts,
                        command='Synthetic', section='Synthetic')
        if run:
            achieved[name, bits] = run.rate
        errors.append(100 * (planned[name, bits] / run.rate - 1) if run and (name, bits) in planned else None)
        if errors[-1] is not None:
            print(f'{network} {hosts.number} hosts {hosts.link} {name} {bits}: planned {planned[name, bits]:.0f}, achieved {run.rate:.0f} samples/s, {errors[-1]:+.1f} %', flush=True)
    run = bench.run(f'{network}-{hosts.number}-{hosts.link}-auto', NETWORKS[network][1], *settings(network, AUTO), hosts=hosts, command='Synthetic', section='Synthetic')
    if not run or not achieved:
        return errors, None, None, None
    taken, best = taken_by_auto(run), max(achieved, key=achieved.get)
    if not taken:
        bench.skip(f'auto of {network} on {hosts.number} hosts, {hosts.link}', 'it has timed nothing')
        return errors, None, best, None
    # Of the run by name where there is one: two runs of a method differ by the load of the machine.
    share = achieved.get(taken, run.rate) / achieved[best]
    print(f'{network} {hosts.number} hosts {hosts.link} auto: {taken}, {run.rate:.0f} samples/s; best {best}, {achieved[best]:.0f}; {share:.2f}', flush=True)
    return errors, taken, best, share


def title(name, bits):
    return next((t for n, b, t, _ in METHODS if (n, b) == (name, bits)), f'{name}, {bits} bits')


def summary(cases):
    errors = [e for c in cases for e in c['errors'] if e is not None]
    shares = [c['share'] for c in cases if c['share'] is not None]
    if not errors or not shares:
        return 'Too little was measured.'
    sizes = sorted(abs(e) for e in errors)
    return (f'{len(sizes)} predictions: median error {statistics.median(sizes):.1f} %, largest {sizes[-1]:.1f} %, {sum(s <= 20 for s in sizes)} within 20 %.\n'
            f'`auto` takes a method with .9 of the speed of the fastest or more in {sum(s >= 0.9 for s in shares)} of {len(shares)} cases.')


def main():
    options = parse()
    part = networks.PartOfPage('plan.md', 'check_plan.py') if options.write else None
    cases = [json.loads(line) for line in options.rows.read_text(encoding='utf-8').splitlines()] if options.rows and options.rows.exists() else []
    with networks.emulated('check-plan', options) as bench:
        for number in map(int, options.hosts.split(',')):
            with bench.hosts(number) as hosts:
                for link in options.links.split(','):
                    hosts.rate(link)
                    for network in options.networks.split(','):
                        where = [NETWORKS[network][0], f'{number}, {link}']
                        if any(c['where'] == where for c in cases):
                            continue
                        if bench.left() < 60:
                            bench.skip(f'{network} on {number} hosts, {link}')
                            continue
                        errors, taken, best, share = case(bench, hosts, network)
                        cases.append({'where': where, 'commit': page.commit(), 'date': str(datetime.date.today()), 'errors': errors,
                                      'taken': taken and title(*taken), 'best': best and title(*best), 'share': share})
                        if options.rows and share is not None and None not in errors:
                            with options.rows.open('a', encoding='utf-8') as file:
                                print(json.dumps(cases[-1]), file=file)
    places = [[title, f'{hosts}, {link}'] for hosts in options.hosts.split(',') for link in options.links.split(',') for title, *_ in NETWORKS.values()]
    cases.sort(key=lambda c: places.index(c['where']) if c['where'] in places else -1)
    rows = [[*c['where'], *(None if e is None else f'{e:+.0f}' for e in c['errors'])] for c in cases]
    of_auto = [[*c['where'], c['taken'], c['best'], None if c['share'] is None else f'{c["share"]:.2f}'] for c in cases]
    model, isa, cores = page.processor()
    commits, dates = (' and '.join(dict.fromkeys(c[of] for c in cases)) for of in ('commit', 'date'))
    text = '\n\n'.join([
        f'Hosts share {cores} cores ({model}, {isa}), commit {commits}, {dates}.',
        summary(cases),
        'Planned samples per second against achieved ones, error in percent:',
        page.table(['network', 'hosts, link', *(t for _, _, t, _ in METHODS)], rows),
        'What `auto` takes with `autoAllow = "1bit:local:async"`, the fastest run, and the share of its speed:',
        page.table(['network', 'hosts, link', 'taken', 'fastest', 'share'], of_auto), *([textwrap.fill(f'Not measured: {"; ".join(bench.skipped)}.', 120)] if bench.skipped else [])])
    print(f'\n{text}')
    if part:
        part.put(text)


if __name__ == '__main__':
    main()
