# SPDX-License-Identifier: Apache-2.0
"""picture_files.py -- small images with a bright bar at a place that depends on their class: as PNG and as IDX files."""
import gzip
import random
import struct
import zlib


def bars(count, classes=3, size=16, seed=1):
    """[(class, rows of grey pixels)]"""
    draw = random.Random(seed)
    found = []
    for i in range(count):
        c = i % classes
        first = c * size // classes
        found.append((c, [[min(255, draw.randrange(60) + 180 * (first <= x < first + size // classes)) for x in range(size)] for _ in range(size)]))
    return found


def png(rows):
    """Of red, green and blue pixels that are all alike."""
    def part(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    lines = b''.join(b'\0' + bytes(v for pixel in row for v in (pixel, pixel, pixel)) for row in rows)
    return b'\x89PNG\r\n\x1a\n' + part(b'IHDR', struct.pack('>IIBBBBB', len(rows[0]), len(rows), 8, 2, 0, 0, 0)) + part(b'IDAT', zlib.compress(lines)) + part(b'IEND', b'')


def write_folders(folder, pictures, names):
    for i, (c, rows) in enumerate(pictures):
        path = folder / names[c] / f'{i}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(rows))


def write_idx(folder, begin, pictures):
    folder.mkdir(exist_ok=True)
    size = len(pictures[0][1])
    images = struct.pack('>IIII', 0x803, len(pictures), size, size) + b''.join(bytes(v for row in rows for v in row) for _, rows in pictures)
    labels = struct.pack('>II', 0x801, len(pictures)) + bytes(c for c, _ in pictures)
    with gzip.open(folder / f'{begin}-images-idx3-ubyte.gz', 'wb') as f:
        f.write(images)
    with gzip.open(folder / f'{begin}-labels-idx1-ubyte.gz', 'wb') as f:
        f.write(labels)
