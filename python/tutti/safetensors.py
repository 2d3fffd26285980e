# SPDX-License-Identifier: Apache-2.0
"""Weights in safetensors, for trainer export and import."""
import json
import math
import os
import struct

import numpy

_DTYPES = {'BOOL': '?', 'I8': 'i1', 'U8': 'u1', 'I16': '<i2', 'U16': '<u2', 'I32': '<i4', 'U32': '<u4', 'I64': '<i8', 'U64': '<u8',
           'F16': '<f2', 'F32': '<f4', 'F64': '<f8'}
_NAMES = {numpy.dtype(code): name for name, code in _DTYPES.items()}


def read_safetensors(path):
    """{name: array}. Raises ValueError if the file is damaged, or has bfloat16, which NumPy does not know."""
    with open(path, 'rb') as f:
        data = f.read()
    length = struct.unpack_from('<Q', data)[0] if len(data) >= 8 else len(data)
    if 8 + length > len(data):
        raise ValueError(f'{path}: no safetensors file, or cut')
    try:
        header = json.loads(data[8:8 + length])
    except (ValueError, RecursionError) as e:
        raise ValueError(f'{path}: the header from byte 8 on is no JSON: {e}') from None
    if not isinstance(header, dict):
        raise ValueError(f'{path}: the header from byte 8 on has no names')
    return {name: _tensor(f"{path}: '{name}'", entry, data, 8 + length) for name, entry in header.items() if name != '__metadata__'}


def _tensor(what, entry, data, first):
    try:
        kind, shape, (begin, end) = str(entry['dtype']), entry['shape'], entry['data_offsets']
        whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f'{what} needs a dtype, a shape and two data_offsets: {entry}')
    if kind not in _DTYPES:
        raise ValueError(f'{what} has the type {kind}')
    dtype, count = numpy.dtype(_DTYPES[kind]), math.prod(shape)
    if not begin <= end <= len(data) - first or end - begin != count * dtype.itemsize:
        raise ValueError(f'{what} {shape} does not fit its place')
    return numpy.frombuffer(data, dtype, count, first + begin).reshape(shape)


def write_safetensors(path, tensors):
    """Writes {name: array}, sorted by name; the same arrays give the same bytes."""
    header, chunks, at = {'__metadata__': {'producer': 'tutti'}}, [], 0
    for name in sorted(tensors):
        array = numpy.asarray(tensors[name])
        array = array.astype(array.dtype.newbyteorder('<'), order='C', copy=False)
        if array.dtype not in _NAMES:
            raise ValueError(f"'{name}' has the type {array.dtype}, which safetensors does not have")
        chunks.append(array.tobytes())
        header[name] = {'dtype': _NAMES[array.dtype], 'shape': list(array.shape), 'data_offsets': [at, at + len(chunks[-1])]}
        at += len(chunks[-1])
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(f'{path}.tmp', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        f.writelines(chunks)
    os.replace(f'{path}.tmp', path)
