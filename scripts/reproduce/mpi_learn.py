# SPDX-License-Identifier: Apache-2.0
"""mpi_learn.py -- Anderson, Spiropulu, Vlimant: An MPI-Based Python Framework for Distributed Training with Keras (2017): Downpour with a
master, an LSTM of 20 cells, particle events of three classes. For scripts/reproduce.sh; common.py says how a source works,
samples/events has network and events.

Hosts run in slow motion: a rank computes a step on the shared cores and then sleeps, until the step has taken SLOWER times as long as it
computes alone. So all workers work at the same time. Links are slowed down until the master limits the speed where it did in the source."""
import json
import subprocess
import sys

import svg
from common import ROOT, cores, speed_up, text
from page import Page

PARTS = ('t1', 'workers', 'accuracy', 'validation')
CONFIG = ROOT / 'samples' / 'events' / 'events.cntk'
T1 = {10: .1, 100: 1, 500: 3.0, 1000: 4.1}              # batch -> speed of 20 workers relative to batch 100, as published
SPEED_UP = {1: 1, 10: 10, 60: 30}                       # workers -> speed-up, as the text has it: linear to about 10, 30 at 60
PARTICLES = 20                                          # of an event, in the runs that measure speed
VALUES = 3263                                           # weights of the network
SLOWER = 60
MASTER_SERVES = .6                                      # share of the workers whose exchanges, of batch 100, fill the master's link
GROUP = 5                                               # workers of a lower master
TEST_EVENTS = 10000
DRAWN = 400                                             # events that are drawn in a second

METHODS = {
    'one master': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients;servers=1]',
    'sharded servers': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients]',
    '... usePipeline': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients;usePipeline=true]',
    '... and 8 bits': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients;usePipeline=true;exchangeBits=8]',
    'masters of 5': 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod=@GROUP@;servers=1];'
                    f'groups=size:{GROUP};insideGroups=[parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients]]',
}


def method(name, batch, particles=PARTICLES):
    """A group of the hierarchy exchanges when each of its workers has made a step."""
    return METHODS[name].replace('@GROUP@', str(batch * GROUP * particles))


def ranks_of(name, workers):
    return workers + ('servers=1' in METHODS[name])


def fits(name, workers):
    return workers > GROUP if name == 'masters of 5' else True


class Speed:
    """Events per second in slow motion, by method, workers and batch."""

    def __init__(self, bench):
        self.bench, self.runs, self.steps = bench, {}, {}
        self.workers = bench.pick(10, 20)  # 20 ranks on two cores take half a minute to start
        self.batches = bench.pick((10, 100, 1000), tuple(T1))

    def measure_steps(self):
        """Seconds that one rank computes for a step of each batch; without them there is nothing to measure."""
        with self.bench.hosts(1) as hosts:
            for batch in self.batches:
                events = max(400, 4 * batch)
                run = self.bench.run(f'step-of-{batch}', CONFIG, self.settings('parallelizationMethod=none', batch, 1, events, 4), command='Synthetic',
                                     section='Synthetic', hosts=hosts, estimate=5)
                if run:
                    self.steps[batch] = min(e.ranks['compute_seconds'][0] for e in run.epochs) * batch / events
        return len(self.steps) == len(self.batches)

    def settings(self, method_text, batch, workers, events, epochs, sleep=0):
        hook = f';faultHook=[rank=-1;sleep={sleep:.4f}]' if sleep else ''
        return (f'Synthetic=[SGD=[maxEpochs={epochs};minibatchSize={batch * workers * PARTICLES};gradUpdateType=adam;numMBsToShowResult=0;'
                f'ParallelTrain=[{method_text}{hook}]];reader=[samples={events};sequenceLength={PARTICLES}]]')

    def step(self, batch):
        """Seconds of a step in slow motion."""
        return SLOWER * self.steps[batch]

    def link(self):
        """A rate at which a master exchanges with .6 of the workers in the time of a step of batch 100."""
        return f'{max(64, round(32e-3 * VALUES * MASTER_SERVES * self.workers / self.step(100)))}kbit'

    def run(self, hosts, name, workers, batch):
        key = (name, workers, batch)
        if key not in self.runs:
            steps = max(2, round(self.bench.pick(1.5, 4) / self.step(batch)))
            # A method, for ranks that do not train together have no fault hook, which makes them slow.
            method_text = 'parallelizationMethod=DataParallelSGD' if workers == 1 else method(name, batch)
            places = list(range(1 if workers == 1 else ranks_of(name, workers)))
            self.runs[key] = self.bench.run(f'{"alone" if workers == 1 else name.strip(". ")} {workers} workers batch {batch}', CONFIG,
                                            self.settings(method_text, batch, workers, batch * workers * steps, 2, (SLOWER - 1) * self.steps[batch]),
                                            command='Synthetic', section='Synthetic', hosts=hosts.at(places), limit=90, estimate=3 + workers / 2 + 2.5 * steps * self.step(batch))
        return self.runs[key]

    def alone(self, hosts):
        return self.run(hosts, 'alone', 1, 100)


def t1(bench, page, speed, hosts):
    names = [n for n in METHODS if not bench.quick or n in ('one master', 'sharded servers', '... and 8 bits')]
    order = (100, *(b for b in speed.batches if b != 100))
    found = {(n, b): speed.run(hosts, n, speed.workers, b) if not (bench.quick and n.startswith('...') and b > 100) else None for b in order for n in names}
    page.section(f'T1, batch size with {speed.workers} workers')
    rows = []
    for batch, published in T1.items():
        relative = [speed_up(found.get((n, batch)), found[n, 100]) for n in names]
        step = speed.step(batch) if batch in speed.steps else None
        rows.append([str(batch), text(published, 1), *(text(r) for r in relative), text(step, 3)])
        if batch not in speed.batches:
            bench.skip(f'T1, batch {batch}', 'in the full run only')
    page.text('Events per second, relative to batch 100 of the same method:')
    page.table(['batch', 'published', *names, 'step, s'], rows)
    page.text('Events per second:')
    page.table(['batch', *names], [[str(b), *(text(found[n, b] and found[n, b].rate / PARTICLES, 0) for n in names)] for b in speed.batches])
    reached = {n: speed_up(found[n, 10], found[n, 100]) for n in names if n == 'sharded servers' or n.startswith('...')}
    if best := max((r for r in reached.values() if r is not None), default=None):
        page.text('*... usePipeline*: sharded servers, and a worker computes while its push travels. *... and 8 bits*: the same with `exchangeBits = 8`. '
                  f'Batch 10 reaches {best:.2f} by sharded servers; published is .1, the goal was .5: {"met" if best >= .5 else "**not** met"}'
                  f'{"" if speed.workers == 20 else f", with {speed.workers} workers; the full run has the 20 of the source"}.')
    one = [speed_up(found['one master', b], found['one master', 100]) for b in speed.batches]
    if None not in one:
        page.text(f'Larger batches help Downpour with one master: {"they do, as published" if one == sorted(one) else "**not** in this run"}. '
                  'A step of this processor takes nearly ten times as long for ten times the events; that of the GPU of the source does not.')
    relative = {n: [speed_up(found.get((n, b)), found[n, 100]) for b in T1] for n in names}
    page.plot('t1', svg.bars(f'{speed.workers} workers, speed relative to batch 100', 'relative to batch 100',
                             [str(b) for b in T1], {'published': list(T1.values()), **relative}),
              'speed by batch size relative to batch 100')


def by_workers(bench, page, speed, hosts):
    counts = bench.pick((5, 10), (2, 5, 10, 15, 20))  # the largest first: T1 has measured it
    names = [n for n in METHODS if not n.startswith('...')]
    base = speed.alone(hosts)
    found = {(n, w): speed.run(hosts, n, w, 100) for w in reversed(counts) for n in names if fits(n, w)}
    page.section('Speed-up by workers, batch 100')
    one = speed_up(base, base)
    page.table(['workers', 'published', *names], [['1', '1', *[text(one)] * len(names)]] + [
        [str(w), text(SPEED_UP.get(w), 0) or ('≈ linear' if w < 10 else None), *(text(speed_up(found.get((n, w)), base)) for n in names)]
        for w in sorted({*counts, *SPEED_UP} - {1})])
    bench.skip(f'speed-up by {max(SPEED_UP)} workers', f'the largest run has {max(counts)}')
    page.text(f'Published: linear to about 10 workers, 30 at 60. *one master*: a rank that only serves, as in the source. *sharded servers*: every worker serves a part of the weights. '
              f'*masters of {GROUP}*: {GROUP} workers each share a master of their own, which exchanges with a master of masters when each worker has made a step.')
    page.plot('workers', svg.lines('Speed-up by workers, batch 100', 'workers', 'speed-up', {
        'linear': [(1, 1), (max(counts), max(counts))],
        **{n: [(1, one), *((w, speed_up(found.get((n, w)), base)) for w in counts)] for n in names}}),
              'speed-up by workers')


def make_events(bench, count):
    """The folder with so many events; None if no time is left to draw them and to train on them once."""
    folder = bench.work / f'events-{count}'
    if not (folder / 'test.ctf').exists():
        if (count + TEST_EVENTS) / DRAWN > bench.left() - 10:
            bench.skip(f'accuracy by workers, {count:,} events')
            return None
        bench.say(f'drawing {count} events')
        subprocess.run([sys.executable, ROOT / 'samples' / 'events' / 'make_events.py', folder, '--train', str(count),
                        '--test', str(TEST_EVENTS)], check=True)
    return folder


def accuracy(bench, page):
    count, epochs, counts = bench.pick(4000, 10000), bench.pick(5, 12), bench.pick((1, 5, 10), (1, 2, 5, 10, 20))
    folder = make_events(bench, count)
    if not folder:
        return
    names = ['one master', 'sharded servers', 'masters of 5']
    found = {}
    with bench.hosts(1) as hosts:
        for workers in counts:
            for name in names if workers > 1 else names[:1]:
                if fits(name, workers) and not (bench.quick and name == 'masters of 5'):
                    found[name, workers] = learn(bench, hosts, folder, name, workers, epochs)
    page.section('Accuracy by workers')

    def error(name, workers):
        run = found.get(('one master' if workers == 1 else name, workers))
        return run and run.error()

    page.table(['workers', 'published', *(f'{n}: error, %' for n in names), 'staleness'], [
        [str(w), 'best' if w == 1 else 'sinks slowly', *(text(error(n, w)) for n in names), staleness(found.get(('one master', w)))] for w in counts])
    page.text(f'{count:,} drawn events, {epochs} epochs, batches of 100 events of a worker, Adam at the servers with '
              f'a rate of .005, in the last quarter .001; errors of {TEST_EVENTS:,} other '
              'events, one seed. The number of pushes is the same for any number of workers, and stale pushes prolong the '
              'plateau with which training begins: where an error is far above that of one worker, training has probably not '
              'ended, and which method is ahead is chance. Ranks neither sleep nor have slow links here. *Staleness*: mean '
              'number of pushes of others that a push has not seen, with one master.')
    page.plot('accuracy', svg.lines('Test error by workers', 'workers', 'error, %', {n: [(w, error(n, w)) for w in counts] for n in names}), 'test error by workers')


def learn(bench, hosts, folder, name, workers, epochs):
    particles = 2030  # of 100 events
    sgd = (f'minibatchSize={particles * workers};learningRatesPerMB={.005 * workers:g}*{epochs - max(1, epochs // 4)}:{.001 * workers:g};maxEpochs={epochs};numMBsToShowResult=0')
    text_of = 'parallelizationMethod=none' if workers == 1 else METHODS[name].replace('@GROUP@', str(particles * GROUP))
    places = [0] * (1 if workers == 1 else ranks_of(name, workers))
    return bench.run(f'accuracy {name} {workers} workers', CONFIG, f'DataDir={folder}', f'Train=[SGD=[{sgd};ParallelTrain=[{text_of}]]]', command='Train:Test',
                     hosts=hosts.at(places), limit=120, estimate=4 + workers / 2 + epochs)


def staleness(run):
    """Mean of the last epoch."""
    found = [line for line in run.log.read_text(encoding='utf-8').splitlines() if line.startswith('Staleness in epoch')] if run and run.log.exists() else []
    return found[-1].split('mean ')[1].split(',')[0] if found else None


def validation(bench, page):
    events = bench.pick(20000, 60000)
    times = {}
    for ranks in (1, cores()):
        with bench.hosts(1, per_host=ranks) as hosts:
            run = bench.run(f'validation on {ranks} ranks', CONFIG, 'Synthetic=[SGD=[maxEpochs=2;minibatchSize=4000;numMBsToShowResult=0;ParallelTrain=[parallelizationMethod=DataParallelSGD]];'
                            'reader=[samples=2000;sequenceLength=20];cvReader=[readerType=SyntheticReader;kind=random;sequenceLength=20;firstSample=100000;'
                            f'samples={events};input=[particles=[dim=19];labels=[labelDim=3;perSequence=true]]]]', command='Synthetic', section='Synthetic',
                            hosts=hosts.at([0] * ranks), estimate=10)
        times[ranks] = validation_seconds(run)
    page.section('Validation')
    page.table(['', 'seconds', 'times as fast'], [['serial: one rank, as the master of the source', text(times[1]),
                                                   times[1] and '1'],
                                                  [f'spread over {cores()} ranks, a core each', text(times[cores()]), text(times[1] / times[cores()] if all(times.values()) else None)]])
    page.text(f'{events:,} events. In the source the master validates while it also has to serve the workers. Here every rank validates its share, so 20 workers with a core each would '
              f'validate a 20th each; this machine has {cores()} cores to show it on.')


def validation_seconds(run):
    """From the end of the epoch to the result of its validation, fastest of the epochs."""
    if not run or not run.log.exists():
        return None
    records = [json.loads(line) for line in (run.log.parent / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()]
    ends = [(r['event'], r['time']) for r in records if r['event'] in ('epoch', 'validation')]
    return min((b - a for (kind, a), (after, b) in zip(ends, ends[1:]) if (kind, after) == ('epoch', 'validation')), default=None)


def reproduce(bench):
    page = Page(bench, 'mpi_learn: Downpour on particle events',
                'The source trains Keras models by Downpour SGD over MPI: workers send the gradients of every batch to a master, which updates and sends weights back.')
    speed = Speed(bench)
    if (bench.wants('t1') or bench.wants('workers')) and speed.measure_steps():
        link = speed.link()
        page.difference(f'Hosts run {SLOWER} times slower than this processor: a rank computes a step on the shared cores and sleeps for the rest (`faultHook = [ rank = -1 ]`). Links have {link}, '
                        f'so that the exchanges of {MASTER_SERVES * speed.workers:g} workers with batches of 100 fill the link of one master: in the source speed is linear to about 10 of 20. '
                        'What processors do for the exchange itself is not slowed down: against the source, handling a message costs next to nothing.')
        with bench.hosts(speed.workers + 1, link) as hosts:
            if bench.wants('t1'):
                t1(bench, page, speed, hosts)
            if bench.wants('workers'):
                by_workers(bench, page, speed, hosts)
    page.difference('The network is that of the source (an LSTM of 20 cells, three classes). Events are drawn by `samples/events/make_events.py`; runs that measure speed take random '
                    f'events of {PARTICLES} particles.', 'The servers apply Adam.')
    if bench.wants('validation'):
        validation(bench, page)
    if bench.wants('accuracy'):
        accuracy(bench, page)
    page.write()
