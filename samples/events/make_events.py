#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_events.py -- toy collision events for events.cntk: each is a list of particles, sorted by momentum, that comes from one of three processes.

The processes: light jets only; a W boson with jets (a lepton and missing momentum among them); a pair of top quarks (more jets, two of them from b quarks,
often a lepton). A particle has 19 numbers: log pT, eta, sin and cos of phi, log energy, charge, the type as eight flags, displacement and its
significance, isolation, distance to the leading particle in eta and phi. Written as CNTK text: |x on each line, |y on the first line of an event.

  make_events.py FOLDER [--train 20000] [--test 4000] [--seed 1]
"""
import argparse
import math
import pathlib
import random

TYPES = ['light', 'b', 'gluon', 'electron', 'muon', 'photon', 'missing', 'other']
PROCESSES = ['jets', 'W', 'top']


def particle(rng, kind, scale, displaced=0.0):
    """(pT, eta, phi, kind, charge, displacement, isolation)"""
    pt = scale * rng.expovariate(1.0) + 5
    charge = rng.choice((-1, 1)) if kind not in ('gluon', 'photon', 'missing') else 0
    isolation = rng.betavariate(6, 2) if kind in ('electron', 'muon', 'photon', 'missing') else rng.betavariate(2, 5)
    return [pt, rng.gauss(0, 1.4), rng.uniform(-math.pi, math.pi), kind, charge, abs(rng.gauss(0, 0.05)) + displaced * rng.expovariate(1), isolation]


def event(rng, process):
    """Particles of one event; the detector loses some and takes some types for others."""
    found = [particle(rng, rng.choice(('light', 'gluon', 'gluon')), 40) for _ in range(2 + min(6, int(rng.expovariate(0.6))))]
    if process == 'W':
        found += [particle(rng, rng.choice(('electron', 'muon')), 35), particle(rng, 'missing', 35)]
    elif process == 'top':
        found += [particle(rng, 'b', 60, 0.3) for _ in range(2)] + [particle(rng, 'light', 50) for _ in range(2)]
        if rng.random() < 0.5:
            found += [particle(rng, rng.choice(('electron', 'muon')), 40), particle(rng, 'missing', 40)]
    found += [particle(rng, rng.choice(('light', 'photon', 'other')), 6) for _ in range(rng.randint(4, 30))]
    kept = [p for p in found if rng.random() < 0.9]
    for p in kept:
        if rng.random() < 0.12:
            p[3] = rng.choice(TYPES)
    return sorted(kept or found[:1], key=lambda p: -p[0])


def numbers(p, lead):
    pt, eta, phi, kind, charge, displacement, isolation = p
    turn = math.atan2(math.sin(phi - lead[2]), math.cos(phi - lead[2]))
    return [math.log(pt) - 3, eta, math.sin(phi), math.cos(phi), math.log(pt * math.cosh(eta)) - 4, charge,
            *[float(kind == t) for t in TYPES], displacement, min(displacement / 0.05, 10) / 10, isolation, eta - lead[1], turn]


def write(path, count, rng):
    with open(path, 'w', encoding='utf-8') as out:
        for i in range(count):
            label = rng.randrange(len(PROCESSES))
            particles = event(rng, PROCESSES[label])
            for n, p in enumerate(particles):
                values = ' '.join(f'{v:.4g}' for v in numbers(p, particles[0]))
                out.write(f'{i} |x {values}' + (f' |y {label}:1' if n == 0 else '') + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--train', type=int, default=20000)
    parser.add_argument('--test', type=int, default=4000)
    parser.add_argument('--seed', type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(arguments.seed)
    write(arguments.folder / 'train.ctf', arguments.train, rng)
    write(arguments.folder / 'test.ctf', arguments.test, rng)


if __name__ == '__main__':
    main()
