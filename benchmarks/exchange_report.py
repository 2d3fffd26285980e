# SPDX-License-Identifier: Apache-2.0
"""exchange_report.py -- what exchange.py has measured, as a table (Markdown) and as a drawing (SVG)."""
import dataclasses
import math
import statistics


@dataclasses.dataclass
class Run:
    step: float    # seconds
    sent: float    # bytes per step, by one rank
    waited: float  # seconds per step


@dataclasses.dataclass
class Row:
    label: str
    speed: str
    step: float
    sent: float
    rate: float            # samples per second
    of_unlimited: float    # share of the same strategy's rate without a limit; None if that was not measured
    hidden: float          # share of the time on the wire that nobody waited for; None without a limit
    seconds_to_loss: float


def rows(found, labels, speeds, steps_to_loss, minibatch):
    """found: (name, speed) -> runs; speeds: name -> bits per second or None."""
    rates = {key: statistics.median(minibatch / r.step for r in runs) for key, runs in found.items()}
    result = []
    for name, label in labels.items():
        for speed, bits in speeds.items():
            if (name, speed) not in found:
                continue
            runs = found[name, speed]
            step, sent, waited = (statistics.median(getattr(r, what) for r in runs) for what in ('step', 'sent', 'waited'))
            free = rates.get((name, 'none'))
            on_wire = 8 * sent / bits if bits else 0
            needed = steps_to_loss.get(name)
            result.append(Row(label, speed, step, sent, rates[name, speed], rates[name, speed] / free if free else None,
                              min(1, max(0, 1 - waited / on_wire)) if on_wire else None, needed * step if needed else None))
    return result


def percent(value):
    return '–' if value is None else f'{100 * value:.1f} %'


def table(all_rows, target):
    loss = f' s to loss {target:g} |' if target is not None else ''
    lines = [f'| | link | step, ms | samples/s | of no limit | MB per step and rank | hidden |{loss}', '|---|---|--:|--:|--:|--:|--:|' + ('--:|' if loss else '')]
    before = None
    for r in all_rows:
        end = '' if target is None else (f' {r.seconds_to_loss:.1f} |' if r.seconds_to_loss else ' – |')
        lines.append(f'| {r.label if r.label != before else ""} | {r.speed if r.speed != "none" else "no limit"} | {1e3 * r.step:.1f} | {r.rate:.0f} | '
                     f'{percent(r.of_unlimited)} | {r.sent / 1e6:.3g} | {percent(r.hidden)} |{end}')
        before = r.label
    return '\n'.join(lines)


COLORS = ('#4c78a8', '#f58518', '#54a24b', '#b279a2', '#e45756')


def drawing(all_rows):
    """Horizontal bars on a logarithmic scale, the speeds of a strategy side by side."""
    speeds = list(dict.fromkeys(r.speed for r in all_rows))
    labels = list(dict.fromkeys(r.label for r in all_rows))
    bar, gap, left, width, top = 11, 10, 290, 620, 40
    low = 10 ** math.floor(math.log10(min(r.rate for r in all_rows)))
    high = max(r.rate for r in all_rows) * 1.05
    group = bar * len(speeds) + gap
    height = top + group * len(labels) + 40

    def x(value):
        return left + width * math.log(max(value, low) / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{left + width + 70}" height="{height}" fill="white"/>']
    for i, speed in enumerate(speeds):
        at = left + 130 * i
        out += [f'<rect x="{at}" y="12" width="12" height="12" fill="{COLORS[i % len(COLORS)]}"/>',
                f'<text x="{at + 18}" y="22">{speed if speed != "none" else "no limit"}</text>']
    bottom = top + group * len(labels)
    for power in range(int(math.log10(low)), int(math.log10(high)) + 1):
        for digit in (1, 2, 5):
            value = digit * 10 ** power
            if value > high:
                continue
            out += [f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{top - 4}" y2="{bottom}" stroke="#ddd"/>',
                    f'<text x="{x(value):.1f}" y="{bottom + 14}" text-anchor="middle" fill="#555">{value}</text>']
    out.append(f'<text x="{left + width / 2}" y="{bottom + 30}" text-anchor="middle" fill="#555">samples per second</text>')
    for i, label in enumerate(labels):
        y = top + group * i
        out.append(f'<text x="{left - 8}" y="{y + group / 2}" text-anchor="end">{label}</text>')
        for r in all_rows:
            if r.label == label:
                at = y + bar * speeds.index(r.speed)
                out += [f'<rect x="{left}" y="{at}" width="{x(r.rate) - left:.1f}" height="{bar - 1}" fill="{COLORS[speeds.index(r.speed) % len(COLORS)]}"/>',
                        f'<text x="{x(r.rate) + 4:.1f}" y="{at + bar - 2}" font-size="10">{r.rate:.0f}</text>']
    return '\n'.join(out + ['</svg>']) + '\n'


TEXT = '''# Exchange on links of limited speed

{about}
Made by `benchmarks/exchange.py --write`, on hosts of `scripts/cluster.sh`.

![samples per second](exchange.svg)

{table}

- *of no limit*: samples per second as a share of what the same strategy reaches without a limit.
- *hidden*: the share of the time that a step's bytes need on the wire for which no rank waited. The wire's own time is the limit of what can be reached.
- *to loss*: steps until the mean training loss of two minibatches of drawn digits fell to it (found without a limit, on one of the ranks), times the step time. Ranks that exchange weights
  rarely have trained alone up to there.

## One buffer, nothing to hide behind

The sum of 10.0 million floats over four hosts at 1 Gbit/s; `benchmarks/exchange.py --sums`.

    {sums}
'''


def write(folder, about, text, sums, all_rows):
    (folder / 'exchange.md').write_text(TEXT.format(about=about, table=text, sums='\n    '.join(sums)), encoding='utf-8')
    (folder / 'exchange.svg').write_text(drawing(all_rows), encoding='utf-8')
