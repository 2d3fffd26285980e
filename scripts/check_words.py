#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_words.py -- finds private words for things that have a common name: the field's word is the name.

Usage: check_words.py [ROOT]
"""
import pathlib
import re
import sys

# The old word as a regular expression (whole words, any case), and what is written instead.
WORDS = [
    (r'pieces?|\w*pieces?_\w*|\w*_pieces?', 'gradient chunk'),
    (r'tally|tallies|\w*_tally|\w*tally_\w*', 'step metrics'),
    (r'rooms?', 'workspace, or capacity'),
    (r'stripes?|\w*stripes?_\w*', 'shard'),
    (r'stretch|stretches', 'segment of a program, range of data'),
    (r'desks?', 'request handler'),
    (r'encodedquestions|encoded_questions', 'PendingPushes'),
    (r'roads?|routes?', 'transport'),
    (r'lots? dealers?|lotdealer|lots', 'work units, work queue'),
    (r'touched[ _]lines?|touchedlines', 'sparse rows'),
    (r'recorder|repeater', 'GraphCapture, CapturedGraph'),
    (r'news', 'broadcast from the group leader'),
    (r'carriers?|carriedcolumns', 'inter-group rank'),
    (r'owed', 'residual'),
    (r'lends?|lent', 'bind'),
    (r'leaves_out\w*|left_out_by_rounding', 'skip_step, residual'),
    (r'lossscale', 'GradScaler'),
    (r'take_late|tell_late|latenumericerror|late_results', 'deferred metrics'),
    (r'host_looks', 'synchronize'),
    (r'settles?|settled', 'drain'),
    (r'convolutionway', 'ConvolutionAlgorithm'),
    (r'tickets?', 'shared counter'),
    (r'stand-ins?|cuda_double', 'CUDA emulator'),
    (r'globalsink|piecesink|globals_ready|global_ready', 'ReducedGradientSink, GradientSink, on_reduced'),
    (r'redeals?|redealt', 'reshard'),
    (r'take_stats', 'exchange_stats_and_reset'),
]

# Lines that may keep a word: (file, regular expression on the line, reason).
ALLOWED = [
    (r'.*', r'lossScale', 'a key of the config'),
    (r'.*', r'"[^"]*(owed|epoch tally|interval tally|sums under way)[^"]*"', 'the name of an archived value: older checkpoints have it'),
    (r'include/tutti/archive\.h|src/train/rank_state\.cpp', r'owed', 'the name of an archived value'),
    (r'src/actions/training_exchange\.cpp', r'"route"', 'the spelling of earlier versions'),
    (r'src/brainscript/library_recurrent\.cpp', r'pieces', 'a name in the BrainScript library: names of nodes decide seeds'),
    (r"src/parallel/(options|local_sgd/asa_options)\.cpp|tests/parallel/options_test\.cpp|docs/methods/(README|asa)\.md", r"\"(stripes|route)\"|`route`|route=|sharded \| stripes|nccl \| stripes", 'spellings of earlier versions that are still read'),
]
SUFFIXES = {'.h', '.cpp', '.cu', '.cuh', '.inl', '.py', '.md', '.build', '.sh'}
FOLDERS = ['src', 'include', 'tests', 'docs', 'README.md']


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    patterns = [(re.compile(rf'(?<![\w])(?:{old})(?![\w])', re.IGNORECASE), new) for old, new in WORDS]
    allowed = [(re.compile(file), re.compile(line)) for file, line, _ in ALLOWED]
    problems = 0
    for top in FOLDERS:
        for path in [root / top] if (root / top).is_file() else sorted((root / top).rglob('*')):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text(encoding='utf-8', errors='replace').splitlines(), 1):
                if any(file.fullmatch(name) and words.search(line) for file, words in allowed):
                    continue
                for old, new in patterns:
                    if found := old.search(line):
                        print(f"{name}:{number}: '{found.group()}' is a private word; write {new}\n    {line.strip()}")
                        problems += 1
    print(f'{problems} private words')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
