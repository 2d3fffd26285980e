# SPDX-License-Identifier: Apache-2.0
"""What a run writes: its log, its metrics as JSON lines, and predictions."""
import csv
import json
import re

import numpy

_NUMBER = r'[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)'
_COMMAND = re.compile(r'# (\S+) command \(\w+ action\)')
_EPOCH = re.compile(r'Finished Epoch\[ *(\d+) of \d+\]: \[(\w+)\] (.*)')
_BACK = re.compile(r'Loading \(rolling back to\) previous model .*\.(\d+)\.\s*$')
_CRITERION = re.compile(rf'([A-Za-z_][\w.\[\]]*) = ({_NUMBER})(%?) \* \d+')
_OTHERS = re.compile(rf'(totalSamplesSeen|learningRatePerSample|epochTime) ?= ?({_NUMBER})')


def read_log(path, what='Training', command=None):
    """The 'Finished Epoch' lines of a log, without epochs that AutoAdjust has undone: {'epoch': array, 'ce': array, ...}. `what`: Training or Validate.
    `command`: whose training, in a log that has several."""
    trainings, at = {}, ''  # by command; an epoch that was trained again after an interruption is there twice: the later line counts
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            if begin := _COMMAND.search(line):
                at = begin.group(1)
            if back := _BACK.search(line):
                trainings[at] = {epoch: row for epoch, row in trainings.get(at, {}).items() if epoch <= int(back.group(1))}
            match = _EPOCH.search(line)
            if not match:
                continue
            rows = trainings.setdefault(at, {})
            if match.group(2) != what:
                continue
            row = {'epoch': int(match.group(1))}
            row.update({name: float(v) / (100 if percent else 1) for name, v, percent in _CRITERION.findall(match.group(3))})
            row.update({name: float(v) for name, v in _OTHERS.findall(match.group(3))})
            rows.pop(row['epoch'], None)
            rows[row['epoch']] = row
    if command is None and len(trainings) > 1 or command is not None and command not in trainings:
        raise ValueError(f'{path}: trainings: {", ".join(map(repr, trainings)) or "none"}\nfix: name one of them: read_log(path, command=...)')
    rows = trainings.get(command, {}) if command is not None else next(iter(trainings.values()), {})
    return _columns(list(rows.values()))


def read_metrics(path):
    """A file with one JSON object per line, as {name: array}: numbers, with NaN where a line lacks them, or an array of objects for other values. Names of
    nested objects are joined by '/'. A last line that was cut, by a run that still writes, is left out."""
    rows = []
    with open(path, encoding='utf-8') as f:
        lines = f.read().split('\n')
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(_flat(json.loads(line)))
        except ValueError as e:
            if number == len(lines):
                break
            raise ValueError(f'{path}:{number}: {e}') from None
    return _columns(rows)


def read_predictions(path):
    """The output of trainer predict: the array of an .npy file; {column: array} of .csv and .json."""
    path = str(path)
    if path.endswith('.npy'):
        try:
            return numpy.load(path, allow_pickle=False)
        except (ValueError, EOFError) as e:
            raise ValueError(f'{path}: {e}') from None
    if path.endswith('.json'):
        with open(path, encoding='utf-8') as f:
            try:
                rows = json.load(f)
            except json.JSONDecodeError as e:
                raise ValueError(f'{path}:{e.lineno}: {e.msg}') from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f'{path}: no list of samples')
        return _columns(rows)
    with open(path, newline='', encoding='utf-8') as f:
        reader = csv.reader(f)
        try:
            return _csv_columns(path, reader)
        except csv.Error as e:
            raise ValueError(f'{path}:{reader.line_num}: {e}') from None


def _csv_columns(path, reader):
    names, rows = next(reader, []), []
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}:1: there are two columns '{name}'")
    for row in reader:
        if row and len(row) != len(names):
            raise ValueError(f'{path}:{reader.line_num}: the line does not have {len(names)} values')
        rows += [row] if row else []
    # 'class' and 'score', or 'class1', 'score1', ...: such names are text, whatever they look like.
    text = {'file'} | {name for name, after in zip(names, names[1:]) if name[:5] == 'class' and after == 'score' + name[5:]}
    return {name: numpy.array(values) if name in text else _parsed(name, values) for name, values in zip(names, zip(*rows))}


def _parsed(name, values):
    for number in (int, float) if name in ('sample', 'sequence', 'step') else (float,):
        try:
            return numpy.array([number(v) for v in values])
        except ValueError:
            continue
    return numpy.array(values)


def _flat(value, prefix=''):
    if not isinstance(value, dict):
        return {prefix: value}
    found = {}
    for name, v in value.items():
        found.update(_flat(v, f'{prefix}/{name}' if prefix else name))
    return found


def _columns(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: _array([row.get(name) for row in rows]) for name in names}


def _array(values):
    if all(isinstance(v, (int, float, type(None))) and not isinstance(v, bool) for v in values):
        if all(isinstance(v, int) for v in values):
            return numpy.array(values)
        return numpy.array([numpy.nan if v is None else v for v in values], float)
    if all(isinstance(v, list) for v in values) and len({len(v) for v in values}) == 1 and not any(isinstance(x, dict) for v in values for x in v):
        return numpy.array([[numpy.nan if x is None else x for x in v] for v in values])
    if all(isinstance(v, str) for v in values):
        return numpy.array(values)
    array = numpy.empty(len(values), object)
    array[:] = values
    return array
