# SPDX-License-Identifier: Apache-2.0
"""Data in CTF, the text format of CNTKTextFormatReader: one line per sample, '|stream values', sequences by their number in front."""
import math
import os

import numpy


class Sparse:
    """Samples with few values that are not 0: for each sample its indices and values, out of `dim`."""

    def __init__(self, indices, values, dim):
        self.indices, self.values, self.dim = indices, values, dim
        if len(indices) != len(values):
            raise ValueError(f'{len(indices)} samples of indices, {len(values)} of values')

    def __len__(self):
        return len(self.indices)

    def text(self, i):
        for index in self.indices[i]:
            if not 0 <= index < self.dim:
                raise ValueError(f'sample {i}: the index {index} is not below {self.dim}')
        return ' '.join(f'{int(k)}:{_number(v)}' for k, v in zip(self.indices[i], self.values[i]))


def one_hot(classes, dim):
    """Classes counted from 0, as Sparse."""
    classes = numpy.asarray(classes)
    with numpy.errstate(invalid='ignore'):
        whole = classes.astype(numpy.int64)
    if (whole != classes).any():
        raise ValueError(f'{classes[whole != classes][0]} is no class: classes are whole numbers')
    classes = whole
    return Sparse(classes.reshape(-1, 1), numpy.ones((classes.size, 1), numpy.float32), dim)


def write_ctf(path, **streams):
    """Writes streams by name. A stream is an array with one sample per row (further axes are written one after the other), or Sparse, or a list
    of these, one for each sequence. Sequences of several streams may differ in length, but not in number; a sequence is empty in some of them at most."""
    if not streams:
        raise ValueError('no streams')
    sequences = {name: _sequences(name, stream) for name, stream in streams.items()}
    counts = {name: len(s) for name, s in sequences.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f'the streams have different numbers of samples or sequences: {counts}')
    if not any(counts.values()):
        raise ValueError(f"the streams have no samples: '{', '.join(streams)}'")
    for number, here in enumerate(zip(*sequences.values())):
        if not any(map(len, here)):
            raise ValueError(f"sequence {number} is empty in all streams: '{', '.join(streams)}'")
    with open(f'{path}.tmp', 'w', encoding='utf-8') as f:
        numbered = any(isinstance(stream, (list, tuple)) for stream in streams.values())
        for number in range(next(iter(counts.values()))):
            here = {name: s[number] for name, s in sequences.items()}
            for step in range(max(len(s) for s in here.values())):
                fields = [f'|{name} {_text(s, step)}' for name, s in here.items() if step < len(s)]
                f.write((f'{number} ' if numbered else '') + ' '.join(fields) + '\n')
    os.replace(f'{path}.tmp', path)


class _Rows:
    """A part of a stream."""

    def __init__(self, stream, first, count):
        self.stream, self.first, self.count = stream, first, count

    def __len__(self):
        return self.count


def _sequences(name, stream):
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"'{name}' is no name of a stream")
    if isinstance(stream, (list, tuple)):
        whole = [s if isinstance(s, Sparse) else _matrix(name, s) for s in stream]
        return [_Rows(s, 0, len(s)) for s in whole]
    rows = stream if isinstance(stream, Sparse) else _matrix(name, stream)
    return [_Rows(rows, i, 1) for i in range(len(rows))]


def _matrix(name, array):
    array = numpy.asarray(array, numpy.float32)
    if array.ndim == 0:
        raise ValueError(f"'{name}' is a single number")
    if 0 in array.shape[1:]:
        raise ValueError(f"'{name}' has samples without values: {array.shape}")
    if not numpy.isfinite(array).all():
        raise ValueError(f"'{name}' has values that are not finite")
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _text(rows, step):
    i = rows.first + step
    return rows.stream.text(i) if isinstance(rows.stream, Sparse) else ' '.join(map(_number, rows.stream[i]))


def _number(v):
    """The shortest text that is the same float32 again."""
    text = str(numpy.float32(v))
    return text[:-2] if text.endswith('.0') else text
