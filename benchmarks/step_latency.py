#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""step_latency.py -- microseconds of a training step where nearly nothing is computed: a 2-30-2 network of samples/simple2d with minibatches
of 25 over all ranks, 1-bit gradients between them. What remains is the step itself: reading, calls, the exchange, the update.

  benchmarks/step_latency.py                      1, 2 and 4 ranks
  benchmarks/step_latency.py --busy               ... while another process keeps one core busy
  benchmarks/step_latency.py --trainer A --trainer B   two builds in turns
  benchmarks/step_latency.py --limits             without and with the busy process; exit code 1 where a median is above its limit

Limits, on two cores without other work: 25 us on one rank, 35 us on two, 60 us on four, and beside the busy process twice the median
without it. The median over the epochs of all rounds, and the fastest epoch; the first epoch of a run does not count.
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import runs

STEPS, BATCH, EPOCHS = 8000, 25, 4
LIMITS = {1: 25, 2: 35, 4: 60}  # microseconds of a step, by the number of ranks
LIMIT_BESIDE = 2  # times the median without the busy process


def step_times(trainer, ranks, data):
    """Microseconds per step of every epoch but the first."""
    with tempfile.TemporaryDirectory(prefix='tutti-latency-') as folder:
        train = (f'SimpleNetworkBuilder=[layerSizes=2:30:2];SGD=[epochSize={STEPS * BATCH};minibatchSize={BATCH};maxEpochs={EPOCHS};'
                 'ParallelTrain=[DataParallelSGD=[gradientBits=1]]]')
        runs.call([*runs.on_ranks(ranks), trainer, f'configFile={runs.ROOT}/samples/simple2d/simple2d.cntk', 'command=Train',
                   f'DataDir={data}', f'OutputDir={folder}', f'stderr={folder}/run.log', 'makeMode=false', f'Train=[{train}]'], timeout=300)
        log = pathlib.Path(folder, 'run.log').read_text(encoding='utf-8')
    seconds = [float(s) for s in re.findall(r'Finished Epoch.*epochTime=([\d.e+-]+)s', log)]
    if len(seconds) != EPOCHS:
        raise runs.Failed(f'{EPOCHS} epochs were expected:\n{log}')
    return [1e6 * s / STEPS for s in seconds[1:]]


def measure(trainers, arguments, data, beside):
    """The times of each (trainer, ranks); `beside`: another process keeps one core busy."""
    busy = subprocess.Popen([sys.executable, '-c', 'while True: pass']) if beside else None
    try:
        found = {(t, n): [] for t in trainers for n in arguments.ranks}
        for turn in range(arguments.rounds):
            for trainer, ranks in runs.rotated(found, turn):
                found[trainer, ranks] += step_times(trainer, ranks, data)
    finally:
        if busy:
            busy.kill()
    for (trainer, ranks), times in found.items():
        print(f'{trainer} on {ranks} rank{"s" if ranks > 1 else ""}{", one core busy" if beside else ""}: {statistics.median(times):.1f} us a step, '
              f'fastest epoch {min(times):.1f}', flush=True)
    return found


def above_limits(quiet, beside):
    """A line for each median above its limit."""
    lines = []
    for (trainer, ranks), times in quiet.items():
        median, busy = statistics.median(times), statistics.median(beside[trainer, ranks])
        if median > LIMITS.get(ranks, math.inf):
            lines.append(f'above the limit: {trainer} on {ranks} rank(s): {median:.1f} us, limit {LIMITS[ranks]}')
        if busy > LIMIT_BESIDE * median:
            lines.append(f'above the limit: {trainer} on {ranks} rank(s), one core busy: {busy:.1f} us, limit {LIMIT_BESIDE * median:.1f}')
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', action='append', type=pathlib.Path, help='build/trainer; several are compared')
    parser.add_argument('--ranks', type=runs.numbers, default=[1, 2, 4])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--busy', action='store_true', help='another process keeps one core busy')
    parser.add_argument('--limits', action='store_true', help='compares with the limits; measures without and with the busy process')
    arguments = parser.parse_args()
    trainers = [t.resolve() for t in arguments.trainer or [runs.ROOT / 'build' / 'trainer']]
    for trainer in trainers:
        if not trainer.exists():
            sys.exit(f'{trainer} is not there: ninja -C build trainer, or name another --trainer')
    with tempfile.TemporaryDirectory(prefix='tutti-latency-data-') as data:
        runs.call([sys.executable, runs.ROOT / 'samples/simple2d/make_points.py', data])
        found = measure(trainers, arguments, data, arguments.busy and not arguments.limits)
        lines = above_limits(found, measure(trainers, arguments, data, True)) if arguments.limits else []
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == '__main__':
    sys.exit(main())
