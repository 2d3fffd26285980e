# SPDX-License-Identifier: Apache-2.0
"""exchange_report.py -- what exchange.py has measured, as a table (Markdown) and as a drawing (SVG). Rows go into the table that is there."""
import dataclasses
import math
import re
import statistics
import sys

import hosts
import runs


@dataclasses.dataclass
class Run:
    step: float    # seconds
    sent: float    # bytes per step that leave a host, by one of its ranks
    waited: float  # seconds per step


@dataclasses.dataclass
class Row:
    """As it stands in the table, so that it can be read back from there; rate is None where a strategy failed, and step says why."""
    label: str
    ranks: str
    link: str
    step: str
    rate: float
    others: list    # of no limit, MB per step and rank, hidden, seconds to the loss

    def line(self, repeats):
        return f'| {"" if repeats else self.label} | {self.ranks} | {self.link} | {self.step} | {"–" if self.rate is None else f"{self.rate:.0f}"} | {" | ".join(self.others)} |'


HEAD = '| | ranks | link | step, ms | samples/s | of no limit | MB per step and rank | hidden | s to loss {target:g} |\n|---|---|---|--:|--:|--:|--:|--:|--:|'
NONE = '–'


def percent(value):
    return NONE if value is None else f'{100 * value:.1f} %'


def reason(said):
    """What a failed program said: what a rank complains of, or else its last line; without what would end a cell of the table."""
    lines = said.strip().splitlines()
    return next((line for line in lines if re.match(r'\[rank|error|.*: error:', line)), lines[-1]).replace('|', '/')[:160]


def rows(found, labels, layout, speeds, steps_to_loss, warm_steps, minibatch, failed):
    """found: (name, speed) -> runs; layout: hosts, ranks of each; speeds: name -> bits per second or None; the other dictionaries go by the name of the strategy, too."""
    steps = {key: statistics.median(r.step for r in runs) for key, runs in found.items()}
    result, ranks = [], f'{layout[0]} × {layout[1]}'
    for name, label in labels.items():
        if name in failed:
            result.append(Row(label, ranks, 'all', 'failed: ' + reason(failed[name]), None, [NONE] * 4))
            continue
        for speed, bits in speeds.items():
            if (name, speed) not in found:
                continue
            step, runs = steps[name, speed], found[name, speed]
            sent, waited = (statistics.median(getattr(r, what) for r in runs) for what in ('sent', 'waited'))
            on_wire = 8 * sent * layout[1] / bits if bits else 0
            needed, warm = steps_to_loss.get(name), warm_steps.get(name, 0)
            loss = NONE
            if needed and (not warm or ('32bit', speed) in steps):
                warm = min(warm, needed)
                loss = f'{(needed - warm) * step + warm * steps.get(("32bit", speed), 0):.1f}'
            result.append(Row(label, ranks, 'no limit' if bits is None else speed, f'{1e3 * step:.1f}', minibatch / step, [
                percent(steps[name, 'none'] / step if (name, 'none') in steps else None), f'{sent / 1e6:.3g}' if sent else NONE,
                percent(min(1, max(0, 1 - waited / on_wire)) if on_wire else None), loss]))
    return result


def read_rows(text):
    """The rows of a table that `table` has made."""
    result, label = [], ''
    for line in re.findall(r'^\| (.*) \|$', text, re.MULTILINE):
        cells = [c.strip() for c in line.split('|')]
        if len(cells) != 9 or cells[1] == 'ranks':
            continue
        label = cells[0] or label
        result.append(Row(label, *cells[1:4], None if cells[4] == NONE else float(cells[4]), cells[5:]))
    return result


COLORS = ('#4c78a8', '#f58518', '#54a24b', '#b279a2', '#e45756')


def drawing(all_rows):
    """Horizontal bars on a logarithmic scale, the speeds of a strategy side by side."""
    all_rows = [r for r in all_rows if r.rate]
    speeds = list(dict.fromkeys(r.link for r in all_rows))
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
                f'<text x="{at + 18}" y="22">{speed}</text>']
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
                at = y + bar * speeds.index(r.link)
                out += [f'<rect x="{left}" y="{at}" width="{x(r.rate) - left:.1f}" height="{bar - 1}" fill="{COLORS[speeds.index(r.link) % len(COLORS)]}"/>',
                        f'<text x="{x(r.rate) + 4:.1f}" y="{at + bar - 2}" font-size="10">{r.rate:.0f}</text>']
    return '\n'.join(out + ['</svg>']) + '\n'


TEXT = '''# Exchange on links of limited speed

{settings}
Made by `benchmarks/exchange.py --write`, on hosts of `scripts/cluster.sh`. Newest rows: {measured}.

![samples per second](exchange.svg)

{table}

- *ranks*: hosts × ranks of each. Each rank has a core as far as the machine has them.
- *of no limit*: samples per second as a share of what the same method reaches without a limit.
- *hidden*: the share of the time that a step's bytes need on the wire for which no rank waited. The time on the wire
  is the limit of what can be reached.
- *to loss*: steps until the mean training loss of two minibatches of drawn digits fell to it (found without a limit,
  on one of the ranks), times the step time. Ranks that exchange weights rarely have trained alone up to there.

## One buffer, no overlap

The sum of 10.0 million floats over four hosts at 1 Gbit/s; `benchmarks/exchange.py --sums`.

{sums}
'''
SUMS = re.compile(r'(?:^    \S.* ms, .*\n?)+', re.MULTILINE)


def link_rate(link):
    return math.inf if link in ('no limit', 'all') else hosts.bits_per_second(link)


class Report:
    """The table: rows of the page that is there, if it was made with the same settings, and new ones in their place."""

    def __init__(self, folder, settings, target, order):
        """folder: of the page, None to write nothing; order: of the labels."""
        self.folder, self.settings, self.target, self.order, self.rows, self.sums = folder, settings, target, order, [], '    not measured yet'
        if folder and (folder / 'exchange.md').exists():
            text = (folder / 'exchange.md').read_text(encoding='utf-8')
            self.sums = found[0].rstrip() if (found := SUMS.search(text)) else self.sums
            self.rows = read_rows(text)
            if self.rows and not (settings in text and HEAD.format(target=target) in text):
                sys.exit(f'{folder}/exchange.md has rows of other settings; these would be: {settings} Remove it to begin anew.')

    def table(self):
        lines = [HEAD.format(target=self.target)]
        before = None
        for row in self.rows:
            lines.append(row.line(repeats=(row.label, row.ranks) == before))
            before = (row.label, row.ranks)
        return '\n'.join(lines)

    def put(self, new):
        """In the place of rows of the same strategy on the same link, or of all its rows where it failed; written at once."""
        self.rows = [r for r in self.rows if not any(n.label == r.label and (n.link == r.link or 'all' in (n.link, r.link)) for n in new)] + new
        self.rows.sort(key=lambda r: (self.order.index(r.label) if r.label in self.order else len(self.order), -link_rate(r.link)))
        if self.folder:
            text = TEXT.format(settings=self.settings, measured=runs.commit_and_date(), table=self.table(), sums=self.sums)
            (self.folder / 'exchange.md').write_text(text, encoding='utf-8')
            (self.folder / 'exchange.svg').write_text(drawing(self.rows), encoding='utf-8')


def put_sums(folder, lines):
    page = folder / 'exchange.md'
    text = page.read_text(encoding='utf-8')
    new = '\n'.join('    ' + line for line in lines) + '\n'
    page.write_text(SUMS.sub(lambda _: new, text) if SUMS.search(text) else text.replace('    not measured yet\n', new), encoding='utf-8')
