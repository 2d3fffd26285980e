# SPDX-License-Identifier: Apache-2.0
"""exchange_rules.py -- the ratios that exchange.py --must-show prints, each with what it must reach."""
import dataclasses
import math
import re
import statistics


@dataclasses.dataclass
class Rule:
    text: str
    over: tuple    # of samples per second: (strategy, speed)
    under: tuple
    least: float


RULES = [
    Rule("DataParallelSGD in 1 bit: times PyTorch's DDP, no limit", ('1bit', 'none'), ('ddp', 'none'), 1.4),
    Rule('DataParallelSGD in 1 bit: of its own unlimited speed, 1 Gbit/s', ('1bit', '1gbit'), ('1bit', 'none'), 0.95),
    Rule('DataParallelSGD in 1 bit: of its own unlimited speed, 100 Mbit/s', ('1bit', '100mbit'), ('1bit', 'none'), 0.65),
    Rule('... one step behind: of its own unlimited speed, 100 Mbit/s', ('1bit-async', '100mbit'), ('1bit-async', 'none'), 0.85),
    Rule('BlockMomentumSGD in 1 bit: of its own unlimited speed, 100 Mbit/s', ('block1', '100mbit'), ('block1', 'none'), 0.98),
    Rule('DiLoCo in 1 bit: of its own unlimited speed, 100 Mbit/s', ('diloco1', '100mbit'), ('diloco1', 'none'), 0.98),
]
SUMS = [('ASA, 32 bits', 1.0), ('ASA, 16 bits', 1.8)]


def names():
    return list(dict.fromkeys(name for rule in RULES for name, _ in (rule.over, rule.under)))


def needs(name, speed):
    return any((name, speed) in (rule.over, rule.under) for rule in RULES)


def verdict(text, ratio, least, remark=''):
    return f'{text:<70} {ratio:6.3f}   at least {least:<5g} {"met" if ratio >= least else "NOT MET"}{remark}'


def verdicts(found, speeds):
    """found: (strategy, speed) -> runs, those of a round at the same place; speeds: name -> bits per second or None."""
    lines = []
    for rule in RULES:
        if rule.over not in found or rule.under not in found:
            lines.append(f'{rule.text:<70} not measured')
            continue
        ratio = statistics.median(u.step / o.step for o, u in zip(found[rule.over], found[rule.under]))
        # What the bytes of a step alone allow, were nothing else to wait for.
        rate, wire = speeds[rule.over[1]], statistics.median(r.sent for r in found[rule.over])
        limit = statistics.median(r.step for r in found[rule.under]) / (8 * wire / rate) if rate and wire else math.inf
        lines.append(verdict(rule.text, ratio, rule.least, f'; the wire alone allows {limit:.3f}' if limit < rule.least else ''))
    return lines


def verdicts_on_sums(lines):
    """Of the lines that sums_benchmark prints."""
    found = {label: float(times) for label, times in re.findall(r'^(\S.*?)\s+[\d.]+ ms, ([\d.]+) times', '\n'.join(lines), re.MULTILINE)}
    return [verdict(f'{label}: times MPI_Allreduce, 10 M floats, 4 hosts, 1 Gbit/s', found[label], least) for label, least in SUMS]
