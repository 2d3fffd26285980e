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
    found = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == '__metadata__':
            continue
        begin, end = entry['data_offsets']
        if entry['dtype'] not in _DTYPES:
            raise ValueError(f"{path}: '{name}' has the type {entry['dtype']}")
        dtype, count = numpy.dtype(_DTYPES[entry['dtype']]), math.prod(entry['shape'])
        if not 0 <= begin <= end <= len(data) - 8 - length or end - begin != count * dtype.itemsize:
            raise ValueError(f"{path}: '{name}' {entry['shape']} does not fit its place")
        found[name] = numpy.frombuffer(data, dtype, count, 8 + length + begin).reshape(entry['shape'])
    return found


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
