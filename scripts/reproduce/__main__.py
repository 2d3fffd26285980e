# SPDX-License-Identifier: Apache-2.0
"""reproduce -- the command line of scripts/reproduce.sh: finds the sources in this folder (common.py says how to add one) and runs them."""
import argparse
import importlib
import math
import os
import pathlib
import signal
import subprocess
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import common  # noqa: E402  (the folder must be on the path first)

SOURCES = ('theano-mpi', 'campos', 'mpi-learn', 'neon', 'cntk')


def data_at_hand():
    """Where the tests find real data, or None."""
    folder = pathlib.Path(os.environ.get('TUTTI_TEST_DATA') or common.ROOT.parent / 'shared' / 'data')
    return folder if folder.is_dir() else None


def parse():
    parser = argparse.ArgumentParser(prog='scripts/reproduce.sh', description='Published experiments at the size of this machine, beside the published figures.')
    parser.add_argument('source', choices=[*SOURCES, 'all'])
    parser.add_argument('--quick', action='store_true', help='at most five minutes for each source instead of thirty')
    parser.add_argument('--parts', type=lambda text: text.split(','), default=[], metavar='NAME,...', help='only these parts of the source; the page has no others then')
    parser.add_argument('--minutes', type=float, help='another limit of time for each source')
    parser.add_argument('--trainer', type=pathlib.Path, default=common.ROOT / 'build' / 'trainer')
    parser.add_argument('--data', type=pathlib.Path, default=common.ROOT / 'data',
                        help='folder with mnist, cifar10, atis; what is missing is downloaded into it (default: data of the project)')
    parser.add_argument('--data-from', type=pathlib.Path, metavar='DIR', default=data_at_hand(),
                        help='folder to copy data from instead of downloading: DIR/mnist, DIR/cifar10/FILE.tar..., DIR/atis '
                             '(default: $TUTTI_TEST_DATA or ../shared/data, where tests look, too)')
    parser.add_argument('--work', type=pathlib.Path, default=common.ROOT / 'output' / 'reproduce', help='logs and models of the runs')
    parser.add_argument('--pages', type=pathlib.Path, default=common.ROOT / 'docs' / 'results', help='where page and plots are written')
    parser.add_argument('--continue', dest='resume', action='store_true', help='keep the runs that an interrupted experiment has finished in --work')
    parser.add_argument('--name', default='', help='of the emulated hosts (scripts/cluster.sh --name)')
    parser.add_argument('--no-hosts', action='store_true', help='no emulated hosts: all ranks are processes of this host, links have no limit')
    parser.add_argument('--check', action='store_true', help=argparse.SUPPRESS)  # of the words only
    return parser.parse_args()


def module_of(source):
    path = pathlib.Path(__file__).with_name(source.replace('-', '_') + '.py')
    return importlib.import_module(path.stem) if path.exists() else None


def check(options, chosen):
    for source in chosen:
        module = module_of(source)
        if module is None:
            sys.exit(f"error: there is no experiment of '{source}' yet")
        unknown = [p for p in options.parts if p not in module.PARTS]
        if unknown:
            sys.exit(f"error: {source} has no part '{unknown[0]}'; it has {', '.join(module.PARTS)}")
    if options.name and not (options.name[0].islower() and options.name.isalnum() and options.name == options.name.lower() and len(options.name) <= 11):
        sys.exit(f"error: --name wants a small letter and up to 10 small letters and digits, not '{options.name}'")
    if options.minutes is not None and not 0 < options.minutes < math.inf:
        sys.exit(f'error: --minutes must be more than 0, and finite, not {options.minutes:g}\nfix: --minutes 10')


def run(source, options):
    """Whether the experiment of a source came to its end. If not, the next source runs all the same."""
    module = module_of(source)
    try:
        with common.Bench(source, options, module.PARTS) as bench:
            module.reproduce(bench)
    except Exception as error:  # a mistake of one source must not cost the others their pages
        if not isinstance(error, (RuntimeError, OSError, subprocess.CalledProcessError)):
            traceback.print_exc()
        print(f'error: {source}: {str(error) or type(error).__name__}', file=sys.stderr)
        return False
    return True


def main():
    options = parse()
    chosen = [s for s in SOURCES if module_of(s)] if options.source == 'all' else [options.source]
    check(options, chosen)
    if options.check:
        return 0
    if not options.trainer.exists():
        sys.exit(f'error: there is no {options.trainer}: scripts/reproduce.sh without --trainer builds it')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that hosts and runs end
    return 0 if all([run(source, options) for source in chosen]) else 1


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
