# SPDX-License-Identifier: Apache-2.0
"""hosts.py -- hosts of scripts/cluster.sh for the length of a `with`, and programs on them; for exchange.py."""
import fcntl
import os
import pathlib
import re
import sys
import time

import runs

CLUSTER = runs.ROOT / 'scripts' / 'cluster.sh'
UNITS = {'kbit': 10**3, 'mbit': 10**6, 'gbit': 10**9}


def bits_per_second(speed):
    """Of '100mbit'; None for 'none'."""
    if speed == 'none':
        return None
    found = re.fullmatch(rf'(\d+)({"|".join(UNITS)})', speed)
    if not found:
        sys.exit(f"a speed is none or a whole number of kbit, mbit or gbit, not '{speed}'")
    return int(found[1]) * UNITS[found[2]]


class Turn:
    """Holds a lock file for some runs in a row, then lets others have it."""

    LONGEST = 40

    def __init__(self, path):
        self.path, self.file, self.since = path, None, 0

    def take(self):
        if self.path and not self.file:
            self.file = open(self.path, 'a', encoding='utf-8')
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.since = time.monotonic()

    def give_soon(self):
        if time.monotonic() - self.since > self.LONGEST:
            self.give()

    def give(self):
        if self.file:
            self.file.close()
            self.file = None


class Cluster:
    """Hosts that are there from `with` to its end, however it ends; a core for each of their ranks, as far as the machine has them."""

    def __init__(self, hosts, ranks_per_host, prefix='', lock=None):
        self.name, self.hosts, self.ranks_per_host, self.prefix = f'x{os.getpid() % 1000000}', hosts, ranks_per_host, prefix.split()
        self.turn = Turn(lock)

    @property
    def ranks(self):
        return self.hosts * self.ranks_per_host

    def words(self, *words):
        return [CLUSTER, '--name', self.name, *words]

    def __enter__(self):
        cores = min(self.ranks_per_host, len(os.sched_getaffinity(0)))
        runs.call(self.words('up', self.hosts, '--cores-per-host', cores))
        return self

    def __exit__(self, *_):
        self.turn.give()
        runs.call(self.words('down'))

    def rate(self, speed):
        runs.call(self.words('rate', speed))

    def left_last(self):
        """Bytes that have left the last host so far, headers included: what its link has brought to the bridge."""
        return int(pathlib.Path(f'/sys/class/net/{self.name}-{self.hosts}/statistics/rx_bytes').read_text(encoding='ascii'))

    def run(self, *program, **options):
        """The words of a program on all ranks."""
        place = ['--oversubscribe'] if self.ranks_per_host > len(os.sched_getaffinity(0)) else []
        self.turn.take()
        try:
            return runs.call(self.words('run', '-n', self.ranks, *place, *self.prefix, *program), **options)
        finally:
            self.turn.give_soon()
