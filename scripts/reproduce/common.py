# SPDX-License-Identifier: Apache-2.0
"""common.py -- what the experiments of scripts/reproduce.sh share: time, hosts, runs. page.py has tables and pages, svg.py the plots.

Adding a source: a file named as the source with _ for - (campos.py, mpi_learn.py), which has

  PARTS = ('t1', 't2')                       names for --parts, in the order in which they run
  def reproduce(bench): ...                  runs the experiment with the Bench below and writes the page

    page = Page(bench, 'Campos et al.', 'What the source did, in two sentences.')
    page.difference('Hosts are emulated ...')          what differs from the original set-up, a line each
    if bench.wants('t1'):
        with bench.hosts(4, '1gbit') as hosts:         four hosts, a core each as far as the machine has them; hosts.rate('100mbit') later
            alone = bench.run('alone', config, *settings, hosts=hosts, ranks=1, estimate=20)
            run = bench.run('asgd-4', config, *settings, hosts=hosts, estimate=20)      # a rank on each host
        page.section('T1, ...')
        page.table(['workers', 'published', 'here'], rows)          # cells: text, or None for what was not measured
        page.plot('t1', svg.lines(...), 'images per second by workers')
    page.write()                                       docs/results/SOURCE.md and SOURCE-t1.svg; also prints the tables

A table has every published row, with None in our columns where a run of this size does not measure it; `bench.skip`
says why.

`bench.run` returns a Run, or None where the time is up (`estimate` seconds do not fit) or the run failed; the page lists both kinds.
`bench.pick(quick, full)` is the one that fits --quick or not. Settings are words of the trainer's command line ('Train=[SGD=[...]]').
Every source must write its page within bench.left(), so put what matters most first; `with bench.share(.5):` gives a
part half of the time that is left. Ranks compute on the CPU, also where there is a GPU: emulated hosts would all take
the first one, and the time of waiting for ranks would contain its work.
"""
import contextlib
import copy
import dataclasses
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from page import Page  # noqa: F401  (for the sources)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLUSTER = ROOT / 'scripts' / 'cluster.sh'
FULL_MINUTES, QUICK_MINUTES = 30, 5
RESERVE = 4  # seconds of the time that are kept for taking hosts down and writing the page


@dataclasses.dataclass
class Epoch:
    """Of the records in metrics.jsonl. Error rates are fractions. `ranks`: seconds by kind of work, bytes and more, a value for each rank."""
    samples: int
    seconds: float
    results: dict
    ranks: dict
    validation: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Run:
    """What a run of the trainer left. All speeds leave the first epochs out, where there are more: they warm up."""
    name: str
    ranks: int
    wall: float            # seconds from start to end of the program
    log: pathlib.Path
    epochs: list
    test: dict             # name -> value of the test action, error rates as fractions
    first: int = 1         # epochs that speeds leave out

    @property
    def counted(self):
        return self.epochs[self.first:] or self.epochs

    def fastest(self):
        """The same run as if its fastest epoch or interval after the first were all: what other programs disturb least."""
        return dataclasses.replace(self, epochs=[min(self.counted, key=lambda e: e.seconds / max(e.samples, 1))])

    @property
    def seconds(self):
        """In the training loop, all epochs."""
        return sum(e.seconds for e in self.epochs)

    @property
    def rate(self):
        """Samples per second of all ranks together."""
        return sum(e.samples for e in self.counted) / max(sum(e.seconds for e in self.counted), 1e-9)

    def per(self, samples):
        """Seconds for so many samples at this speed."""
        return samples / self.rate

    def part(self, kind, samples=None):
        """Seconds of compute, encode, wait, decode, update or read: mean over the ranks, of the counted epochs or for so many samples."""
        values = [e.ranks.get(f'{kind}_seconds', [0]) for e in self.counted]
        total = sum(sum(v) / len(v) for v in values)
        return total if samples is None else total * samples / sum(e.samples for e in self.counted)

    def communication(self, samples=None):
        """Seconds of the exchange that computing did not hide, as the program counts them: encode, wait for ranks, decode. Where hosts
        share cores, waiting contains what other hosts computed; then use the difference to a run without exchange instead."""
        return sum(self.part(kind, samples) for kind in ('encode', 'wait', 'decode'))

    def sent(self, samples=None):
        """Bytes sent, mean over the ranks."""
        values = [e.ranks.get('bytes_sent', [0]) for e in self.counted]
        total = sum(sum(v) / len(v) for v in values)
        return total if samples is None else total * samples / sum(e.samples for e in self.counted)

    def error(self, name='errs'):
        """In percent: of the test if there was one, else of the last validation, else of training in the last epoch; None if unknown."""
        for found in (self.test, self.epochs[-1].validation if self.epochs else {}, self.epochs[-1].results if self.epochs else {}):
            if name in found:
                return 100 * found[name]
        return None

    def curve(self, name='errs'):
        """(seconds of training so far, validation error in percent, else the training error) after each epoch."""
        points, at = [], 0
        for e in self.epochs:
            at += e.seconds
            found = e.validation if name in e.validation else e.results
            if name in found:
                points.append((at, 100 * found[name]))
        return points


NUMBER = r'[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?'
RESULT = re.compile(rf'([^;=]+?) = ({NUMBER})(%?) \* \d+')


def read_test(text):
    """Results of the last line of the test action; error rates as fractions."""
    found = re.findall(r'Final Results: Minibatch\[\d+-\d+\]: (.*)', text)
    return {n.strip(): float(v) / (100 if percent else 1) for n, v, percent in RESULT.findall(found[-1])} if found else {}


def read_epochs(lines, intervals=False):
    """Epochs out of the lines of metrics.jsonl; with `intervals` those between two lines of the log instead."""
    epochs, seen = [], 0
    for line in lines:
        record = json.loads(line)
        means = {k: v['mean'] for k, v in record.get('results', {}).items() if v.get('mean') is not None}
        if record['event'] == ('interval' if intervals else 'epoch'):
            total = record['samples']
            ranks = record.get('ranks') or {k: [v] for k, v in record['measures'].items()}  # intervals of some methods know rank 0 only
            epochs.append(Epoch(total - seen, record['measures']['seconds'], means, ranks))
            seen = total
        elif record['event'] == 'validation' and epochs:
            epochs[-1].validation = means
    return epochs


def environment():
    env = dict(os.environ, OMP_NUM_THREADS='1')
    if os.geteuid() == 0:  # Open MPI refuses to run as root unless both are set
        env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    return env


def finish(process, timeout):
    """(all that it said, whether it was in time). What runs too long is told to end, so that mpiexec ends its ranks."""
    late = False
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        late = True
        process.terminate()
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
    except BaseException:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        raise
    return said, not late


def cores():
    return len(os.sched_getaffinity(0))


class Hosts:
    """Hosts of scripts/cluster.sh from `with` to its end, however it ends; where they cannot be made, processes of this host."""

    def __init__(self, bench, number, rate, per_host):
        self.bench, self.number, self.link, self.per_host, self.places = bench, number, rate, per_host, None
        self.name = bench.options.name or f'r{os.getpid() % 10**9}'

    def call(self, *words):
        done = subprocess.run([CLUSTER, '--name', self.name, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f'scripts/cluster.sh {shlex.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}')

    def __enter__(self):
        if self.bench.emulated:
            self.call('up', self.number, '--rate', self.link, '--cores-per-host', self.per_host)
        return self

    def __exit__(self, *_):
        if self.bench.emulated:
            self.call('down')

    def rate(self, link):
        """Another limit of all links: '100mbit', '1gbit', 'none'."""
        self.link = link
        if self.bench.emulated:
            self.call('rate', link)

    def at(self, places):
        """These hosts with the place of each rank: the number of its host, from 0."""
        placed = copy.copy(self)
        placed.places = places
        return placed

    def words(self, ranks):
        """The launcher for so many ranks, a host each in turn, or as `at` has placed them."""
        if not self.bench.emulated:
            return ['mpiexec', '-n', str(ranks), '--oversubscribe', '--bind-to', 'none']
        if self.places is not None:
            file = self.bench.work / 'places'
            file.write_text(''.join(f'{self.name}-{place + 1}\n' for place in self.places), encoding='ascii')
            return ['mpiexec', '--hostfile', str(file), '--mca', 'plm_rsh_agent', f'/run/tutti-cluster/{self.name}/agent',
                    '--map-by', 'seq', '--bind-to', 'none', '-n', str(ranks)]
        several = -(-ranks // self.number)
        place = ['--map-by', f'ppr:{several}:node', '--oversubscribe'] if several > self.per_host else []
        return [str(CLUSTER), '--name', self.name, 'run', '-n', str(ranks), *place]


def can_emulate():
    """Why hosts cannot be made here, or ''."""
    if os.geteuid() != 0:
        return 'emulated hosts need root'
    missing = [t for t in ('ip', 'tc', 'unshare', 'flock', 'taskset') if not shutil.which(t)]
    if missing:
        return f'the command {missing[0]} is missing (apt-get install iproute2 util-linux)'
    return ''


class Bench:
    """One source's experiment: its time, its runs, and what could not be run."""

    def __init__(self, source, options, parts):
        self.source, self.options, self.parts = source, options, parts
        self.quick = options.quick
        self.limit = 60 * (options.minutes or (QUICK_MINUTES if self.quick else FULL_MINUTES))
        self.started = time.monotonic()
        self.part_end = math.inf  # where the share of a part ends, as used() counts
        self.skipped = []      # what did not fit into the time or failed, in words
        self.missing = set()   # data that cannot be had
        self.hosts_used = []   # (number of hosts, ranks per host)
        self.why_not = '--no-hosts was given' if options.no_hosts else can_emulate()
        self.emulated = not self.why_not
        self.work = options.work.resolve() / source
        self.pages = options.pages.resolve()

    def __enter__(self):
        if not self.options.resume:
            shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        if self.emulated:
            self.probe()
        self.say(f'at most {self.limit / 60:g} minutes; logs in {self.work}' + (f'; {self.why_not}: links have no limit' if self.why_not else ''))
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.say('done')

    def probe(self):
        """Whether namespaces and limited links can be had: containers may forbid them even to root, kernels may lack
        the limits."""
        try:
            with Hosts(self, 1, '1gbit', 1):
                pass
        except RuntimeError as error:
            self.emulated, self.why_not = False, str(error).splitlines()[0]

    # Time

    def used(self):
        return time.monotonic() - self.started

    def left(self):
        """Seconds that runs may still take."""
        return min(self.limit - RESERVE, self.part_end) - self.used()

    @contextlib.contextmanager
    def share(self, part):
        """Runs within it may take this part of the time that is left. What they do not need is left to later parts."""
        self.part_end = self.used() + part * self.left()
        try:
            yield
        finally:
            self.part_end = math.inf

    def pick(self, quick, full):
        return quick if self.quick else full

    def wants(self, part):
        return not self.options.parts or part in self.options.parts

    def say(self, text):
        used, limit = int(self.used()), int(self.limit)
        print(f'[{self.source} {used // 60}:{used % 60:02} of {limit // 60}:{limit % 60:02}] {text}', file=sys.stderr, flush=True)

    def skip(self, what, why='no time was left'):
        self.skipped.append(f'{what}: {why}')
        self.say(f'not run: {what}: {why}')

    # Hosts and runs

    def hosts(self, number, rate='none', per_host=1):
        """A context: `number` hosts with links of this rate and `per_host` cores (and ranks) each."""
        self.hosts_used.append((number, per_host))
        return Hosts(self, number, rate, min(per_host, cores()))

    def dataset(self, name):
        """The folder of mnist, cifar10 or atis, with a copy or download of the data where they are missing; None, and
        the page says so, if they cannot be had."""
        folder, there = self.options.data.resolve() / name, {'mnist': 't10k-labels-idx1-ubyte.gz', 'cifar10': 'test_map.txt', 'atis': 'atis.test.ctf'}[name]
        if name in self.missing:
            return None
        if not (folder / there).exists():
            self.say(f'getting {name} into {folder}')
            begin = time.monotonic()
            origin = self.options.data_from and self.options.data_from.resolve() / name
            if origin and not origin.exists():
                origin = None
            if origin and name == 'cifar10':
                origin = next(iter(sorted(p for p in origin.iterdir() if '.tar' in p.name)), origin)
            done = subprocess.run([ROOT / 'scripts' / f'get_{name}.sh', *(['--from', origin] if origin else []), folder], check=False)
            self.started += time.monotonic() - begin  # does not count
            if done.returncode != 0:
                self.missing.add(name)
                self.skip(f'all runs on {name}',
                          f'scripts/get_{name}.sh could not get the data; --data names a folder that has them')
                return None
        return folder

    def run(self, name, config, *settings, hosts, ranks=None, command='Train', section='Train', estimate=0, threads=1, intervals=False,
            variables=None, limit=None):
        """Trains once. `config` is a file of the project or an absolute path; `command` may be 'Train:Test'; `section` is the training
        block, which gets the metrics. With `intervals` the Run's epochs are the intervals of numMBsToShowResult, for runs of one epoch of a
        few minibatches, which then save one model only. A run ends after `limit` seconds at the latest. Returns a Run, or None (see above)."""
        ranks = ranks or len(hosts.places or []) or hosts.number * hosts.per_host
        where = f'{ranks} rank{"s" if ranks > 1 else ""}' + (f', {hosts.link}' if self.emulated and hosts.link != 'none' else '')
        folder = self.work / re.sub(r'[^\w.]+', '-', name)
        if earlier := self.earlier_run(name, folder, [ranks, hosts.link, *settings], intervals):
            return earlier
        if estimate > self.left():
            self.skip(f'{name} ({where})')
            return None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        log, metrics = folder / 'run.log', folder / 'metrics.jsonl'
        words = [*hosts.words(ranks), self.options.trainer.resolve(), f'configFile={ROOT / config}', f'command={command}', 'makeMode=false',
                 'deviceId=-1', f'numCPUThreads={threads}', 'traceLevel=1', f'OutputDir={folder}', f'modelPath={folder}/model.dnn', f'stderr={log}',
                 f'{section}=[SGD=[metrics=[jsonl={metrics}]]]', *settings]
        words = [str(w) for w in words]
        (folder / 'command').write_text(shlex.join(words) + '\n', encoding='utf-8')
        self.say(f'{name}: {where} ...')
        begin = time.monotonic()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment() | (variables or {}),
                                   start_new_session=True, cwd=folder)
        said, in_time = finish(process, max(min(self.left(), limit or self.limit), 1))
        wall = time.monotonic() - begin
        text = log.read_text(encoding='utf-8', errors='replace') if log.exists() else ''
        if not in_time:
            self.skip(f'{name} ({where})', 'stopped as the time was up' if self.left() < 2 else f'stopped after {limit:g} s')
            return None
        if process.returncode != 0:
            return self.failed(name, where, folder, said + text)
        run = self.record(name, folder, ranks, wall, intervals)
        (folder / 'done.json').write_text(json.dumps({'settings': list(map(str, [ranks, hosts.link, *settings])), 'wall': wall}), encoding='utf-8')
        shown = next((f', {k} {100 * v:.2f} %' for k, v in run.test.items() if k == 'errs'), '')
        self.say(f'{name}: {where}: {wall:.1f} s, {run.rate:,.1f} samples/s{shown}')
        return run

    def record(self, name, folder, ranks, wall, intervals):
        """The Run that has left its files in `folder`."""
        log = folder / 'run.log'
        epochs = read_epochs((folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines(), intervals)
        return Run(name, ranks, wall, log, epochs, read_test(log.read_text(encoding='utf-8', errors='replace')))

    def earlier_run(self, name, folder, settings, intervals):
        """With --continue: the run of these settings that an interrupted experiment has finished; its time counts."""
        if not self.options.resume or not (folder / 'done.json').exists():
            return None
        done = json.loads((folder / 'done.json').read_text(encoding='utf-8'))
        if done['settings'] != list(map(str, settings)):
            return None
        self.started -= done['wall']
        self.say(f'{name}: finished before')
        return self.record(name, folder, int(done['settings'][0]), done['wall'], intervals)

    def failed(self, name, where, folder, said):
        (folder / 'said').write_text(said, encoding='utf-8')
        lines = [line for line in said.strip().splitlines() if re.search(r'error', line, re.IGNORECASE)] or said.strip().splitlines() or ['nothing said']
        self.skip(f'{name} ({where})', f'failed: {lines[0].replace(f"{ROOT}/", "")[:200]}')
        return None


def speed_up(run, base):
    """Of samples per second; None where one of them is missing."""
    return run.rate / base.rate if run and base else None


def text(value, digits=2, suffix=''):
    """A cell for a number; None stays None."""
    return None if value is None else f'{value:,.{digits}f}{suffix}'
