# SPDX-License-Identifier: Apache-2.0
"""Models and checkpoints (docs/checkpoints.md describes the layout)."""
import collections.abc
import struct

import numpy

_MAGIC, _END = b'\x89TUTTI\n\x1a', b'TUTTIEND'
_HEAD, _TAIL, _ROW = 64, 40, 32
_BOOLEAN, _INTEGER, _NUMBER, _TEXT, _FLOATS = range(1, 6)


class Model(collections.abc.Mapping):
    """The arrays of a model by name, read-only. Axes are those of the trainer in reverse, so that the last one is the fastest."""

    def __init__(self, kind, entries):
        self.kind = kind  # 'model' or 'checkpoint'
        self.entries = entries  # everything in the file, by its full name
        self.graph = entries.get('graph', '')  # the network, as YAML
        self._values = {name[len('value/'):]: v for name, v in entries.items() if name.startswith('value/')}
        if kind == 'checkpoint':  # the state of the optimizer and of the ranks, by its full name
            self._values |= {name: v for name, v in entries.items()
                             if isinstance(v, numpy.ndarray) and not name.startswith('value/')}

    def __getitem__(self, name):
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f'<tutti.Model: {self.kind}, {len(self)} arrays>'


def read_model(path):
    """A Model from a file of the trainer. Raises ValueError, with the byte, if it is not one or is damaged; the checksum over all bytes is
    the trainer's to check (trainer info)."""
    with open(path, 'rb') as f:
        data = f.read()

    def fail(at, what):
        raise ValueError(f'{path}, byte {at}: {what}')

    if len(data) < _HEAD + _TAIL or data[:8] != _MAGIC:
        fail(0, 'no model or checkpoint of Tutti')
    version, mark = struct.unpack_from('<II', data, 8)
    if mark != 0x01020304 or version != 1:
        fail(8, f'format version {version} is not read')
    table, rows, size, _ = struct.unpack_from('<4Q', data, len(data) - _TAIL)
    if data[-8:] != _END or size != len(data):
        fail(len(data) - 24, f'the file was cut: it has {len(data)} bytes, its end says {size}')
    kind = data[16:32].rstrip(b'\0').decode()
    entries, at, end = {}, table, len(data) - _TAIL
    for _ in range(rows):
        if at + _ROW > end:
            fail(at, 'the table ends too early')
        entry_type, name_length, rank, _, offset, length = struct.unpack_from('<4I2Q', data, at)
        if at + _ROW + 8 * rank + name_length > end or offset + length > table:
            fail(at, 'an entry lies outside of the file')
        dims = struct.unpack_from(f'<{rank}Q', data, at + _ROW)
        name = data[at + _ROW + 8 * rank:at + _ROW + 8 * rank + name_length].decode()
        entries[name] = _value(data, entry_type, dims, offset, length, lambda what, at=at: fail(at, what))
        at += _ROW + 8 * rank + name_length
    return Model(kind, entries)


def _value(data, entry_type, dims, offset, length, fail):
    if entry_type == _FLOATS:
        count = int(numpy.prod(dims, dtype=object)) if dims else 1
        if 4 * count != length:
            fail(f'{length} bytes are not an array of {dims}')
        return numpy.frombuffer(data, '<f4', count, offset).reshape(dims[::-1])
    if entry_type == _TEXT:
        return data[offset:offset + length].decode()
    formats = {_BOOLEAN: '<?', _INTEGER: '<q', _NUMBER: '<d'}
    if entry_type not in formats or struct.calcsize(formats[entry_type]) != length:
        fail(f'an entry of type {entry_type} with {length} bytes')
    return struct.unpack_from(formats[entry_type], data, offset)[0]
