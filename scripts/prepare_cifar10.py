#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks an archive of CIFAR-10 into class folders of images with map files, or into IDX files.

Two kinds of archives are known by what is in them: the binary batches of the authors (a class byte and 3 x 1024 pixel bytes per image),
which become PNG files, and a tree of train/CLASS/ and test/CLASS/ folders of images, which stay as they are. Either may be packed
with gzip, bzip2, xz or zstd.
"""
import argparse
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

CLASSES = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck']
SIDE = 32
PLANE = SIDE * SIDE
RECORD = 1 + 3 * PLANE
BATCH = re.compile(r'(?:.*/)?(data_batch_\d+|test_batch)\.bin')
IMAGE = re.compile(r'(?:.*/)?(train|test)/([a-z]+)/([\w-]+\.(?:png|jpg|jpeg))', re.IGNORECASE)
# Per-channel means of the training images, blue, green, red: for archives whose pixels this script cannot read.
CHANNEL_MEANS = [113.8654, 122.9504, 125.3069]


class Members:
    """The files of a tar in the order in which they lie there; zstd by its own program, as Python has none."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            packed = f.read(4) == b'\x28\xb5\x2f\xfd'
        self.path, self.unpacker = path, None
        if packed:
            if not shutil.which('zstd'):
                raise ValueError('this archive needs the program zstd; install the package zstd')
            self.unpacker = subprocess.Popen(['zstd', '-dcq', str(path)], stdout=subprocess.PIPE)

    def __iter__(self):
        source = {'fileobj': self.unpacker.stdout} if self.unpacker else {'name': self.path}
        with tarfile.open(mode='r|' if self.unpacker else 'r|*', **source) as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, tar.extractfile(member)
        if self.unpacker:
            self.unpacker.stdout.read()
            if self.unpacker.wait() != 0:
                raise ValueError('zstd cannot unpack it')


def png(record):
    """One image as a PNG file: three planes become rows of red, green, blue."""
    pixels = bytearray(3 * PLANE)
    for channel in range(3):
        pixels[channel::3] = record[1 + channel * PLANE:1 + (channel + 1) * PLANE]
    rows = b''.join(b'\0' + pixels[y * 3 * SIDE:(y + 1) * 3 * SIDE] for y in range(SIDE))

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', SIDE, SIDE, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(rows, 6)) + chunk(b'IEND', b''))


class Mean:
    """Sums of all pixels at once: an image with four bytes per pixel is one large number."""

    def __init__(self):
        self.sum, self.images = 0, 0

    def add(self, record):
        wide = bytearray(4 * 3 * PLANE)
        wide[0::4] = record[1:]
        self.sum += int.from_bytes(wide, 'little')
        self.images += 1

    def values(self):
        """Blue, green, red of each pixel."""
        if not self.images:
            return CHANNEL_MEANS * PLANE
        sums = struct.unpack(f'<{3 * PLANE}I', self.sum.to_bytes(4 * 3 * PLANE, 'little'))
        return [sums[channel * PLANE + i] / self.images for i in range(PLANE) for channel in (2, 1, 0)]


def write_mean(path, values):
    numbers = ' '.join(f'{v:.4f}' for v in values)
    path.write_text(f'<?xml version="1.0"?>\n<opencv_storage>\n<Channel>3</Channel>\n<Row>{SIDE}</Row>\n<Col>{SIDE}</Col>\n'
                    f'<MeanImg type_id="opencv-matrix">\n<rows>1</rows>\n<cols>{3 * PLANE}</cols>\n<dt>f</dt>\n'
                    f'<data>{numbers}</data>\n</MeanImg>\n</opencv_storage>\n', encoding='ascii')


class ImageWriter:
    def __init__(self, directory):
        self.directory, self.maps = directory, {'train': [], 'test': []}
        for part in self.maps:
            for name in CLASSES:
                (directory / part / name).mkdir(parents=True, exist_ok=True)

    def add(self, part, label, name, content):
        (self.directory / part / CLASSES[label] / name).write_bytes(content)
        self.maps[part].append(f'.../{part}/{CLASSES[label]}/{name}\t{label}\n')

    def add_record(self, part, record):
        self.add(part, record[0], f'{len(self.maps[part]):05d}.png', png(record))

    def finish(self):
        for part, lines in self.maps.items():
            (self.directory / f'{part}_map.txt').write_text(''.join(lines), encoding='utf-8')


class IdxWriter:
    """Bytes in the order channel (red, green, blue), row, column."""

    def __init__(self, directory):
        self.directory, self.parts = directory, {'train': [], 'test': []}

    def add_record(self, part, record):
        self.parts[part].append(record)

    def finish(self):
        for part, records in self.parts.items():
            with open(self.directory / f'{part}-images.idx', 'wb') as out:
                out.write(struct.pack('>4B4I', 0, 0, 8, 4, len(records), 3, SIDE, SIDE))
                out.writelines(r[1:] for r in records)
            with open(self.directory / f'{part}-labels.idx', 'wb') as out:
                out.write(struct.pack('>4BI', 0, 0, 8, 1, len(records)) + bytes(r[0] for r in records))


def records_of(name, data):
    if len(data) % RECORD:
        raise ValueError(f'{name}: {len(data)} bytes are not whole images of {RECORD} bytes')
    for at in range(0, len(data), RECORD):
        record = data[at:at + RECORD]
        if record[0] >= len(CLASSES):
            raise ValueError(f'{name}: image {at // RECORD} has class {record[0]}')
        yield record


def prepare(archive, directory, form):
    """Returns how many images there are of each part."""
    images = ImageWriter(directory) if form in ('images', 'both') else None
    idx = IdxWriter(directory) if form in ('idx', 'both') else None
    counts, mean = {'train': 0, 'test': 0}, Mean()
    for name, content in Members(archive):
        if batch := BATCH.fullmatch(name):
            part = 'test' if batch[1].startswith('test') else 'train'
            for record in records_of(name, content.read()):
                for writer in filter(None, (images, idx)):
                    writer.add_record(part, record)
                counts[part] += 1
                if part == 'train':
                    mean.add(record)
        elif image := IMAGE.fullmatch(name):
            part, folder, file = image.groups()
            if folder not in CLASSES:
                raise ValueError(f"{name}: '{folder}' is none of the classes {', '.join(CLASSES)}")
            if idx:
                raise ValueError('IDX files need the pixels of the binary archive; this one holds image files')
            images.add(part, CLASSES.index(folder), file, content.read())
            counts[part] += 1
    if not all(counts.values()):
        raise ValueError('it holds neither the binary batches of CIFAR-10 nor train/ and test/ folders of images by class')
    for writer in filter(None, (images, idx)):
        writer.finish()
    write_mean(directory / 'mean.xml', mean.values())
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('archive', type=pathlib.Path)
    parser.add_argument('directory', type=pathlib.Path)
    parser.add_argument('--form', choices=['images', 'idx', 'both'], default='images')
    args = parser.parse_args()
    try:
        counts = prepare(args.archive, args.directory, args.form)
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        sys.exit(f'error: unpacking {args.archive}: {error}')
    print(f"{counts['train']} training and {counts['test']} test images")


if __name__ == '__main__':
    main()
