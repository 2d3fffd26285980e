# SPDX-License-Identifier: Apache-2.0
"""neon.py -- the experiment of neon's multi-GPU backend (2016): forward, backward and update time of VGG, configuration E, for 512 images
as eight minibatches of 64, by number of ranks and by where the dense layers lie."""
import json

import svg
from common import text
from page import Page

PARTS = ('host', 'links')
IMAGES, MINIBATCH = 512, 64
KINDS = ('forward', 'backward', 'update', 'wait')  # of work, as the timeline names them
# name, ModelParallel's dense, gradient bits; a run that is short of time loses the last ones
PLACEMENTS = (('data parallel, 32 bits', 'replicate', 32), ('auto, rest 1 bit', 'auto', 1), ('shard', 'shard', 32),
              ('single', 'single', 32), ('data parallel, 1 bit', 'replicate', 1), ('shard, rest 1 bit', 'shard', 1))


def train(bench, hosts, ranks, side, pooling, placement):
    """The run: a minibatch that does not count, then IMAGES or half of them."""
    name, dense, bits = placement
    sgd = (f'minibatchSize={MINIBATCH};maxEpochs=1;numMBsToShowResult=1;timeline=timeline.json;timelineSteps=0;'
           f'ModelParallel=[dense={dense}];ParallelTrain=[DataParallelSGD=[gradientBits={bits}]]')
    return bench.run(f'vgg-e side {side} pooling {pooling} {hosts.link} {ranks} {name}', 'samples/hybrid/vgg-e.cntk', f'Synthetic=[SGD=[{sgd}];reader=[samples={MINIBATCH * (bench.pick(4, 8) + 1)}]]',
                     f'Side={side}', f'Pooling={pooling}', hosts=hosts, ranks=ranks, command='Synthetic', section='Synthetic', intervals=True,
                     estimate=bench.pick(15, 30))


def times(run, minibatch):
    """Seconds by kind of work for IMAGES, mean over the ranks, from the timeline of one minibatch: what happens within a kind counts for both."""
    spans = json.loads((run.log.parent / 'timeline.json').read_text(encoding='utf-8'))['traceEvents']
    total = {}
    for s in spans:
        if s['ph'] == 'X' and s['args']['minibatch'] == minibatch:
            total[s['name']] = total.get(s['name'], 0) + s['dur'] / 1e6 / run.ranks
    return {kind: t * IMAGES / MINIBATCH for kind, t in total.items()}


def rows_of(bench, hosts, ranks, side, pooling, seconds, parts):
    """Rows of the table. Adds to `seconds` and `parts`, by placement and ranks."""
    rows = []
    for placement in PLACEMENTS[:1] if ranks == 1 else PLACEMENTS:
        name = 'one rank' if ranks == 1 else placement[0]
        run = train(bench, hosts, ranks, side, pooling, placement)
        if run is None:
            rows.append([f'{ranks}', name] + [None] * 6)
            continue
        best = run.fastest()
        part = times(run, 1 + run.epochs.index(best.epochs[0]))
        seconds[name, ranks], parts[name, ranks] = best.per(IMAGES), [part.get(kind, 0) for kind in KINDS]
        rows.append([f'{ranks}', name, text(best.per(IMAGES), 1), *[text(p, 1) for p in parts[name, ranks]],
                     text(run.sent(MINIBATCH) / 1e6, 1)])
    return rows


HEADERS = ['ranks', 'dense layers', 'seconds', 'forward', 'backward', 'update', 'waiting', 'MB sent']


def one_host(bench, page, side, pooling):
    """neon's case: all ranks in one machine."""
    seconds, parts, rows = {}, {}, []
    with bench.hosts(1, per_host=2) as hosts:
        for ranks in (1, 2, 4):
            rows += rows_of(bench, hosts, ranks, side, pooling, seconds, parts)
    page.section(f'One host, {side} × {side} pixels' + (f', pooling windows of {pooling}' if pooling != 2 else ''))
    page.table(HEADERS, rows)
    groups = [1, 2, 4]
    names = list(dict.fromkeys(n for n, _ in seconds))
    page.plot('host' if pooling == 2 else f'host-{pooling}', svg.bars(f'VGG E, seconds for {IMAGES} images', 'seconds', [f'{n} rank{"s" if n > 1 else ""}' for n in groups],
                                                                      {n: [seconds.get((n, g)) for g in groups] for n in names}), 'seconds by ranks and placement')
    page.plot('parts' if pooling == 2 else f'parts-{pooling}', svg.stacked(f'VGG E, parts of the work on {IMAGES} images', 'seconds, mean over the ranks',
                                                                        [*KINDS[:3], 'waiting'], {'one rank' if r == 1 else f'{r} ranks, {n}': p for (n, r), p in parts.items()}),
              'seconds by kind of work; an exchange beside backward counts twice')
    return seconds


def links(bench, page, side):
    """Two hosts of a core each, where bytes cost time."""
    rows = []
    with bench.hosts(2, '1gbit') as hosts:
        rows += rows_of(bench, hosts, 2, side, 2, {}, {})
    if any(row[2] for row in rows):
        page.section(f'Two hosts, 1 Gbit/s, {side} × {side} pixels')
        page.table(HEADERS, rows)


def words(seconds):
    """What the table says, in a sentence for each number of ranks."""
    found = []
    for ranks in (2, 4):
        of_ranks = {n: s for (n, r), s in seconds.items() if r == ranks}
        if of_ranks and ('one rank', 1) in seconds:
            best, worst = min(of_ranks, key=of_ranks.get), max(of_ranks, key=of_ranks.get)
            found.append(f'{ranks} ranks: {best} takes {of_ranks[best]:.1f} s ({seconds["one rank", 1] / of_ranks[best]:.2f} times as fast as one rank), {worst} '
                         f'{of_ranks[worst]:.1f} s.')
    return found


def reproduce(bench):
    page = Page(bench, 'neon', 'neon (2016) divides a network over the GPUs of one machine: convolutions data parallel, dense layers replicated, divided among the GPUs or on '
                f'one of them. It published the times of VGG E for {IMAGES} images as minibatches of {MINIBATCH} on 1, 2, 4 and 8 GPUs, as a figure only.')
    page.difference('Processor cores instead of GPUs: four ranks share the cores of this machine, so they cannot be faster than two. Images are random and smaller than '
                    '224 × 224; the dense layers are therefore smaller in front, and cost less than in the original.',
                    f'A run takes {bench.pick("four", "eight")} minibatches after a first one. The fastest counts, times eight.')
    side = 48
    if bench.wants('host'):
        seconds = one_host(bench, page, side, 2)
        page.items(words(seconds) or ['No comparison was measured.'])
        if not bench.quick and bench.emulated:
            one_host(bench, page, 64, 3)  # of 48 × 48 pixels four such windows leave 2 × 2, too few for a convolution
    if bench.wants('links') and bench.emulated and not bench.quick:
        links(bench, page, side)
    page.text('*seconds*: all images, in the training loop. *forward*, *backward*, *update* and *waiting* (for other ranks) are means over the ranks, as the timeline of the '
              'run records them; an exchange beside backward counts twice, so these can add up to more. *MB sent*: by each rank for a minibatch. *data parallel*: neon\'s replica; *shard*: '
              'its fragment; *single*: its singlenode; *auto* chooses for each layer ([hybrid](../methods/hybrid.md)).')
    page.write()
