#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_points.py -- writes SimpleDataTrain_cntk_text.txt and SimpleDataTest_cntk_text.txt for simple2d.cntk into a folder
(data/simple2d by default): points in the plane in two interleaved classes, for those who do not have CNTK's own files.
"""
import math
import pathlib
import random
import sys


def write(path, count, seed):
    draw = random.Random(seed)
    with open(path, 'w', encoding='utf-8') as f:
        for _ in range(count):
            x, y = draw.uniform(-1, 1), draw.uniform(-1, 1)
            above = y + draw.gauss(0, 0.1) > 0.5 * math.sin(math.pi * x)
            f.write(f'|labels {int(above)} {int(not above)} |features {x:.6g} {y:.6g}\n')


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__.strip())
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else 'data/simple2d')
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / 'SimpleDataTrain_cntk_text.txt', 10000, 1)
    write(folder / 'SimpleDataTest_cntk_text.txt', 600, 2)
    print(f'written into {folder}')


if __name__ == '__main__':
    main()
