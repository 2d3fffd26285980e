# SPDX-License-Identifier: Apache-2.0
"""networks.py -- what scripts share that train networks of the samples on emulated hosts and write their tables into a part of a page
(scripts/placement_times.py, scripts/check_plan.py)."""
import contextlib
import pathlib
import re
import sys
import tempfile
import types

import common


def parse(parser, networks, links, minutes):
    """The options of `parser`, with those that all these scripts have; ends the script at an unknown network."""
    parser.add_argument('trainer', nargs='?', type=pathlib.Path, default=common.ROOT / 'build' / 'trainer')
    parser.add_argument('--links', default=links)
    parser.add_argument('--networks', default=','.join(networks))
    parser.add_argument('--minutes', type=float, default=minutes)
    parser.add_argument('--write', action='store_true')
    options = parser.parse_args()
    unknown = [n for n in options.networks.split(',') if n not in networks]
    if unknown:
        parser.error(f"there is no network '{unknown[0]}'; there are {', '.join(networks)}")
    return options


@contextlib.contextmanager
def emulated(source, options):
    """A Bench for runs on emulated hosts, in a folder that goes away; ends the script where hosts cannot be made."""
    with tempfile.TemporaryDirectory() as work:
        of_bench = types.SimpleNamespace(quick=False, resume=False, minutes=options.minutes, no_hosts=False, parts=[], name='', trainer=options.trainer,
                                         work=pathlib.Path(work), pages=common.ROOT / 'docs' / 'results')
        with common.Bench(source, of_bench, ()) as bench:
            if not bench.emulated:
                sys.exit(f'error: {bench.why_not}')
            yield bench


class PartOfPage:
    """What stands in a page of docs/results between <!-- SCRIPT --> and <!-- end -->; ends the script where it has no such part."""

    def __init__(self, name, script):
        self.file = common.ROOT / 'docs' / 'results' / name
        self.marks = re.compile(rf'(<!-- {re.escape(script)} -->\n).*(<!-- end -->)', re.DOTALL)
        if not (self.file.exists() and self.marks.search(self.file.read_text(encoding='utf-8'))):
            sys.exit(f'error: {self.file} has no <!-- {script} --> ... <!-- end -->')

    def put(self, text):
        self.file.write_text(self.marks.sub(lambda m: f'{m[1]}\n{text}\n\n{m[2]}', self.file.read_text(encoding='utf-8')), encoding='utf-8')
