# SPDX-License-Identifier: Apache-2.0
"""svg.py -- line and bar plots as SVG text, without a library.

  lines('title', 'workers', 'images/s', {'here': [(1, 10), (2, 19)]})          log_x=True, log_y=True for logarithmic axes
  bars('title', 'seconds', ['1 rank', '2 ranks'], {'shard': [3, 2]})           a group of bars for each name; None leaves a gap
  stacked('title', 'seconds', ['forward', 'backward'], {'1 rank': [3, 6]})     a horizontal bar for each name, made of parts
"""
import math
from xml.sax.saxutils import escape

COLOURS = ('#4c78a8', '#f58518', '#54a24b', '#b279a2', '#e45756', '#72b7b2', '#9d755d', '#555555')
LEFT, TOP, HEIGHT, BOTTOM, LEGEND = 64, 34, 260, 46, 230


def number(value):
    """As a label of an axis."""
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def ticks(low, high, log=False):
    """Round values from low to high."""
    if log:
        found = [d * 10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for d in (1, 2, 5)]
        return [t for t in found if low * .999 <= t <= high * 1.001] or [low, high]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(step * m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [step * (first + i) for i in range(int((high - first * step) / step + 1e-9) + 1)]


class Axis:
    """Values to places."""

    def __init__(self, values, begin, end, log, zero):
        low, high = min(values), max(values)
        if zero and not log:
            low, high = min(low, 0), max(high, 0)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - .5, high + .5)
        margin = 0 if log else .04 * (high - low)
        self.low, self.high = low if zero or log else low - margin, high * 1.05 if log else high + margin
        self.begin, self.end, self.log = begin, end, log

    def __call__(self, value):
        place = math.log(value / self.low) / math.log(self.high / self.low) if self.log else (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * place

    def ticks(self):
        return ticks(self.low, self.high, self.log)


def text(x, y, words, anchor='start', more=''):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(str(words))}</text>'


def frame(width, title, legend, height=TOP + HEIGHT + BOTTOM):
    """The start of a drawing: title and, to the right, the names of the series."""
    height = max(height, TOP + 20 + 18 * len(legend))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + width + LEGEND} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{LEFT + width + LEGEND}" height="{height}" fill="white"/>', text(LEFT, 18, title, more=' font-weight="bold"')]
    for i, name in enumerate(legend):
        y = TOP + 8 + 18 * i
        out += [f'<rect x="{LEFT + width + 16}" y="{y - 9}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>', text(LEFT + width + 32, y, name)]
    return out


def y_axis(out, axis, width, label):
    for t in axis.ticks():
        out += [f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{axis(t):.1f}" y2="{axis(t):.1f}" stroke="#ddd"/>', text(LEFT - 6, axis(t) + 4, number(t), 'end')]
    middle = TOP + HEIGHT / 2
    out.append(text(14, middle, label, 'middle', f' transform="rotate(-90 14 {middle})" fill="#555"'))


def lines(title, x_label, y_label, series, log_x=False, log_y=False, zero=True, width=440):
    """A line with points for each series; points with None are left out."""
    series = {name: [(x, y) for x, y in points if x is not None and y is not None] for name, points in series.items()}
    points = [p for of_one in series.values() for p in of_one]
    out = frame(width, title, series)
    if points:
        x = Axis([p[0] for p in points], LEFT, LEFT + width, log_x, False)
        y = Axis([p[1] for p in points], TOP + HEIGHT, TOP, log_y, zero)
        y_axis(out, y, width, y_label)
        for t in sorted({p[0] for p in points}) if len({p[0] for p in points}) <= 6 else x.ticks():
            out += [f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP + HEIGHT}" y2="{TOP + HEIGHT + 4}" stroke="#555"/>',
                    text(x(t), TOP + HEIGHT + 18, number(t), 'middle')]
        out.append(text(LEFT + width / 2, TOP + HEIGHT + 36, x_label, 'middle', ' fill="#555"'))
        for i, of_one in enumerate(series.values()):
            colour, places = COLOURS[i % len(COLOURS)], [(x(a), y(b)) for a, b in of_one]
            out.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}" fill="none" stroke="{colour}" stroke-width="2"/>')
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
    return '\n'.join([*out, '</svg>', ''])


def bars(title, y_label, groups, series, log_y=False):
    """Bars side by side in groups, with their values above them."""
    bar = 18 if len(series) > 3 else 26
    group = bar * len(series) + 22
    width = max(group * len(groups), 200)
    values = [v for of_one in series.values() for v in of_one if v is not None]
    out = frame(width, title, series)
    if values:
        y = Axis(values + ([min(values) / 2] if log_y else []), TOP + HEIGHT, TOP, log_y, True)
        y_axis(out, y, width, y_label)
        for g, name in enumerate(groups):
            out.append(text(LEFT + group * (g + .5), TOP + HEIGHT + 18, name, 'middle'))
            for i, of_one in enumerate(series.values()):
                if of_one[g] is not None:
                    at, top = LEFT + group * g + 11 + bar * i, y(of_one[g])
                    out += [f'<rect x="{at:.1f}" y="{top:.1f}" width="{bar - 2}" height="{y(0) - top if not log_y else TOP + HEIGHT - top:.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>',
                            text(at + bar / 2 - 1, top - 3, number(of_one[g]), 'middle', ' font-size="9"')]
    return '\n'.join([*out, '</svg>', ''])


def stacked(title, x_label, kinds, rows, width=440):
    """A horizontal bar for each row, made of a part for each kind; the names of the rows stand above their bars."""
    step = 34
    out = frame(width, title, kinds, TOP + step * len(rows) + BOTTOM)
    if rows:
        x = Axis([sum(parts) for parts in rows.values()], LEFT, LEFT + width, False, True)
        bottom = TOP + step * len(rows)
        for t in x.ticks():
            out += [f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>', text(x(t), bottom + 16, number(t), 'middle')]
        out.append(text(LEFT + width / 2, bottom + 36, x_label, 'middle', ' fill="#555"'))
        for r, (name, parts) in enumerate(rows.items()):
            top, at = TOP + step * r + 16, 0
            out.append(text(LEFT + 2, top - 3, name, more=' font-size="11"'))
            for i, part in enumerate(parts):
                out.append(f'<rect x="{x(at):.1f}" y="{top}" width="{x(at + part) - x(at):.1f}" height="14" fill="{COLOURS[i % len(COLOURS)]}"/>')
                at += part
    return '\n'.join([*out, '</svg>', ''])
