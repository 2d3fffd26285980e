#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a text into data for a model of characters: train.ctf and valid.ctf for CNTKTextFormatReader, vocabulary.txt.

A line of a .ctf file is "ID |x I:1 |y J:1": the character with number I, and the number J of the one that follows it. Line I of the
vocabulary, counting from 0, is the character with number I; blanks and backslashes that cannot be seen are written as Python would.
Sequences lie end to end: the label of the last character of one is the first character of the next.
"""
import argparse
import pathlib
import sys


def write_ctf(path, numbers, length):
    """Sequences of `length` characters and a last, shorter one; every character but the first is a label once."""
    count = len(numbers) - 1
    length = length or count
    with open(path, 'w', encoding='ascii') as out:
        for sequence, begin in enumerate(range(0, count, length)):
            end = min(begin + length, count)
            out.writelines(f'{sequence} |x {numbers[i]}:1 |y {numbers[i + 1]}:1\n' for i in range(begin, end))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('text', type=pathlib.Path)
    parser.add_argument('directory', type=pathlib.Path)
    parser.add_argument('--length', type=int, default=100, help='characters per sequence; 0 = each file is one sequence')
    parser.add_argument('--valid', type=float, default=0.1, help='the share at the end of the text that validates')
    args = parser.parse_args()
    try:
        text = args.text.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f'error: reading {args.text}: {error}')
    if args.length < 0 or not 0 <= args.valid < 1:
        sys.exit('error: --length is not negative, and --valid lies from 0 to below 1')
    vocabulary = sorted(set(text))
    number = {c: i for i, c in enumerate(vocabulary)}
    numbers = [number[c] for c in text]
    cut = len(numbers) - int(len(numbers) * args.valid)
    parts = [('train', numbers[:cut])] + ([('valid', numbers[cut:])] if args.valid > 0 else [])
    for name, part in parts:
        if len(part) < 2:
            sys.exit(f'error: {args.text} is too short: {name}.ctf would be empty')
    args.directory.mkdir(parents=True, exist_ok=True)
    for name, part in parts:
        write_ctf(args.directory / f'{name}.ctf', part, args.length)
        print(f'{name}.ctf: {len(part) - 1} characters')
    with open(args.directory / 'vocabulary.txt', 'w', encoding='utf-8') as out:
        out.writelines((c if c.isprintable() and c != '\\' else repr(c)[1:-1]) + '\n' for c in vocabulary)
    print(f'vocabulary.txt: {len(vocabulary)} characters')


if __name__ == '__main__':
    main()
