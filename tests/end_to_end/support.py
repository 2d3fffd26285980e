# SPDX-License-Identifier: Apache-2.0
"""support.py -- runs the real trainer under the real mpiexec for the tests of this folder, each in a directory of its own.

Meson names the programs in the environment: TUTTI_TRAINER, TUTTI_MPIEXEC and TUTTI_SOURCE (the root of the project).
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get('TUTTI_SOURCE', pathlib.Path(__file__).resolve().parents[2]))
TRAINER = os.environ.get('TUTTI_TRAINER', str(SOURCE / 'build' / 'trainer'))
MPIEXEC = os.environ.get('TUTTI_MPIEXEC') or shutil.which('mpiexec')
DATA = pathlib.Path(os.environ.get('TUTTI_TEST_DATA') or SOURCE.parent / 'shared' / 'data')
SANITIZED = 'detect_leaks' in os.environ.get('ASAN_OPTIONS', '')  # of test.sh; newer Meson sets other options for every test
# Seconds until a run counts as hanging. Generous: the machine may be busy with other tests.
PATIENCE = 1200 if SANITIZED else 100
# In reports of the sanitizers. GCC's of undefined behaviour do not name themselves, and its exit code is that of many an error.
REPORTS = re.compile(r'Sanitizer|: runtime error: ')
ALONE = 5  # seconds that a launcher without ranks may take to end

NUMBER = r'[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)'


def data_or_skip(name):
    """A file or folder of the real data; the test is skipped, and says so, where it is absent."""
    path = DATA / name
    if not path.exists():
        raise unittest.SkipTest(f'real data not found: {path}')
    return path


class Result:
    """What a run left: exit code, both outputs, seconds."""

    def __init__(self, code, stdout, stderr, seconds, command):
        self.code, self.stdout, self.stderr, self.seconds, self.command = code, stdout, stderr, seconds, command

    @property
    def text(self):
        return self.stdout + self.stderr

    def __str__(self):
        return f'{" ".join(self.command)}\nexit code {self.code} after {self.seconds:.1f} s\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}'


def environment(directory):
    env = dict(os.environ)
    if os.geteuid() == 0:  # Open MPI refuses to run as root unless both are set
        env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    # Ranks and threads that wait must not starve the others.
    env['OMPI_MCA_mpi_yield_when_idle'] = '1'
    env['OMP_WAIT_POLICY'] = 'passive'
    env.setdefault('OMPI_MCA_pml', 'ob1')  # what ranks of one host end up with; to look for fast networks first takes longer than many a run
    env['OMPI_MCA_odls_base_sigkill_timeout'] = '0'  # the trainer does not linger after SIGTERM, so there is nothing to give it a second for
    # What a killed launcher leaves behind goes with the test's own directory; the second name is that of Open MPI 5.
    env['OMPI_MCA_orte_tmpdir_base'] = env['PRTE_MCA_prte_tmpdir_base'] = str(directory)
    env['OMPI_MCA_btl_vader_backing_directory'] = str(memory_directory(directory))
    return env


def memory_directory(directory):
    """Where the ranks' shared memory lies: in memory, where there is space, for pages of a disk's file can stall while the disk is busy."""
    place = pathlib.Path('/dev/shm') / pathlib.Path(directory).name
    try:
        if shutil.disk_usage('/dev/shm').free < 2**31:
            return directory
        place.mkdir(exist_ok=True)
    except OSError:
        return directory
    return place


def where_it_waits(pid):
    """What each thread of a process does, as the kernel knows it."""
    found = []
    for task in pathlib.Path(f'/proc/{pid}/task').glob('*'):
        try:
            state = (task / 'stat').read_text().rsplit(')', 1)[1].split()[0]
            found.append(f'{(task / "comm").read_text().strip()}: {state}, {(task / "wchan").read_text().strip()}, {(task / "syscall").read_text().split()[0]}')
        except (OSError, IndexError):
            pass
    return '; '.join(found)


def alive(pid):
    """Whether a process still runs; one that ended and was not waited for does not."""
    try:
        return re.search(r'^State:\s*(\w)', pathlib.Path(f'/proc/{pid}/status').read_text(), re.MULTILINE).group(1) not in 'ZX'
    except OSError:
        return False


def all_end(pids, within=15):
    """Whether these processes end in time: the launcher does not wait for those that it kills."""
    end = time.monotonic() + within
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def command_line(arguments, ranks):
    run = [TRAINER] + [str(a) for a in arguments]
    if ranks is None:
        return run
    return [MPIEXEC, '-n', str(ranks), '--oversubscribe', '--bind-to', 'none'] + run


class Run:
    """A run under way. Always ends with the test, and touches no process that it did not start."""

    def __init__(self, directory, arguments, ranks, variables=None):
        self.command = command_line(arguments, ranks)
        self.out = open(pathlib.Path(directory) / '.stdout', 'w+b')
        self.err = open(pathlib.Path(directory) / '.stderr', 'w+b')
        self.start = time.monotonic()
        self.had_ranks = False
        self.process = subprocess.Popen(self.command, cwd=directory, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.err, env=environment(directory) | (variables or {}), start_new_session=True)

    def seconds(self):
        return time.monotonic() - self.start

    def running(self):
        return self.process.poll() is None

    def pids_by_rank(self):
        """{rank: pid} of the trainers that are children of our mpiexec."""
        ranks = {}
        for entry in pathlib.Path('/proc').iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int(re.search(r'^PPid:\s*(\d+)', (entry / 'status').read_text(), re.MULTILINE).group(1))
                if parent != self.process.pid:
                    continue
                if os.path.realpath(entry / 'exe') != os.path.realpath(TRAINER):
                    continue  # forked, but not yet the trainer
                variables = (entry / 'environ').read_bytes().split(b'\0')
            except (OSError, AttributeError):
                continue  # ended while we looked
            for variable in variables:
                if variable.startswith(b'OMPI_COMM_WORLD_RANK='):
                    ranks[int(variable.split(b'=')[1])] = int(entry.name)
        return ranks

    def kill_rank(self, rank):
        pid = self.pids_by_rank().get(rank)
        self.had_ranks = self.had_ranks or pid is not None
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return pid is not None

    def kill_all(self):
        """The power fails: the launcher and every rank at once."""
        pids = list(self.pids_by_rank().values())
        for pid in [self.process.pid] + pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def output(self):
        texts = []
        for f in (self.out, self.err):
            f.seek(0)
            texts.append(f.read().decode('utf-8', 'replace'))
        return texts

    def wait(self, timeout=PATIENCE):
        """`timeout` counts from the start of the run."""
        end = max(self.seconds() + 0.1, timeout)
        ended, left_alone = False, None
        while not ended and self.seconds() < end:
            try:
                self.process.wait(min(1, max(0.01, end - self.seconds())))
                ended = True
            except subprocess.TimeoutExpired:
                left_alone = self.end_launcher(left_alone)
        seconds = self.seconds()
        waiting = '' if ended else '\n'.join(f'rank {rank}: {where_it_waits(pid)}' for rank, pid in sorted(self.pids_by_rank().items()))
        if not ended:
            self.kill_all()
            self.process.wait()
        out, err = self.output()
        self.close()
        if not ended:
            raise AssertionError(f'hangs: no end after {timeout} s: {" ".join(self.command)}\n--- threads (state, waiting for, system call)\n{waiting}\n--- stdout\n{out}\n--- stderr\n{err}')
        result = Result(self.process.returncode, out, err, seconds, self.command)
        if REPORTS.search(result.text):
            raise AssertionError(f'a sanitizer reports:\n{result}')
        return result

    def end_launcher(self, left_alone):
        """mpiexec of Open MPI 4.1 with PMIx 4.2 sometimes waits for ever in PMIx_server_finalize() when a rank was killed, and all others have
        ended. `left_alone`: when it was first seen without ranks."""
        self.had_ranks = self.had_ranks or bool(self.pids_by_rank())
        if not self.had_ranks or self.pids_by_rank():
            return None
        now = time.monotonic()
        if left_alone is not None and now - left_alone > ALONE:
            self.process.kill()
        return left_alone if left_alone is not None else now

    def close(self):
        if self.process.poll() is None:
            self.kill_all()
            self.process.wait()
        self.out.close()
        self.err.close()


class TrainerTest(unittest.TestCase):
    """A test in a temporary directory: self.run_trainer(['configFile=...'], ranks=2)."""

    maxDiff = None

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='tutti-'))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(shutil.rmtree, memory_directory(self.directory), ignore_errors=True)

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
        return path

    def start_trainer(self, arguments, ranks=None):
        run = Run(self.directory, arguments, ranks)
        self.addCleanup(run.close)
        return run

    def train_each(self, config, settings, ranks, *options):
        """One start that trains with the block Train of a config under each of these settings of it, for a start takes longer than a small
        training. Returns what the run said while each trained, and all that it said. SimpleNetworkBuilder begins with the same weights
        each time; other networks have seeds of their own in every place of `settings`."""
        names = [f'Run{i}' for i in range(len(settings))]
        self.write('each.cntk', copies_of_train(config, names))
        words = [f'{name}=[{text}]' for name, text in zip(names, settings)]
        text = self.run_trainer(['configFile=each.cntk', f'command={":".join(names)}', 'makeMode=false', *words, *options], ranks,
                                timeout=PATIENCE + 5 * len(settings)).text
        parts = re.split(r'(?m)^# (\w+) command \(train action\)', text)
        said = dict(zip(parts[1::2], parts[2::2]))
        return [said[name] for name in names], text

    def run_trainer(self, arguments, ranks=None, expect=0, timeout=PATIENCE):
        """Without `ranks` the trainer is started without mpiexec. `expect`: the exit code, or None for any but 0."""
        result = self.start_trainer(arguments, ranks).wait(timeout)
        if expect is None:
            self.assertNotEqual(result.code, 0, f'should have failed:\n{result}')
        else:
            self.assertEqual(result.code, expect, f'unexpected exit code:\n{result}')
        return result


def copies_of_train(config, names):
    """A config with copies of its block Train, each with a model of its own."""
    begin = re.search(r'(?m)^Train = \[', config).start()
    end = config.index('[', begin) + 1
    while config.count('[', begin, end) > config.count(']', begin, end):
        end += 1
    copies = (config[begin:end].replace('Train = [', f'{name} = [ modelPath = "models/{name}.dnn"', 1) for name in names)
    return '\n'.join((config, *copies)) + '\n'


def epochs(text, what='Training'):
    """The 'Finished Epoch' lines: [{'epoch': 1, 'epochs': 4, 'ce': (0.7, 10000), 'totalSamplesSeen': 10000}, ...]."""
    found = []
    for match in re.finditer(rf'Finished Epoch\[ *(\d+) of (\d+)\]: \[{what}\] (.*)', text):
        row = {'epoch': int(match.group(1)), 'epochs': int(match.group(2)), 'line': match.group(0)}
        row.update(results(match.group(3)))
        for key in ('totalSamplesSeen', 'learningRatePerSample', 'epochTime'):
            value = re.search(rf'{key} ?= ?({NUMBER})', match.group(3))
            if value:
                row[key] = float(value.group(1))
        found.append(row)
    return found


def intervals(text):
    """The minibatch lines of training: [(epoch, first, last, {name: (value, count)}), ...]."""
    pattern = r'^ Epoch\[ *(\d+) of \d+\]-Minibatch\[ *(\d+)- *(\d+)(?:, *[\d.]+%)?\]: (.*time = [\d.]+s; samplesPerSecond = [\d.]+)$'
    return [(int(m.group(1)), int(m.group(2)), int(m.group(3)), results(m.group(4)))
            for m in re.finditer(pattern, text, re.MULTILINE)]


def results(text):
    """'ce = 0.5 * 100; errs = 3.0% * 100' as {'ce': (0.5, 100), 'errs': (0.03, 100)}."""
    found = {}
    for m in re.finditer(rf'([A-Za-z_][\w.\[\]]*) = ({NUMBER})(%?) \* (\d+)', text):
        found[m.group(1)] = (float(m.group(2)) / (100 if m.group(3) else 1), int(m.group(4)))
    return found


def final_results(text):
    """The values of the last 'Final Results' line, or None."""
    lines = re.findall(r'^.*Final Results: Minibatch\[1-\d+\]: (.*)$', text, re.MULTILINE)
    return results(lines[-1]) if lines else None


def main():
    """unittest.main, except that a file whose tests were all skipped ends with 77, which meson shows as SKIP."""
    program = unittest.main(module='__main__', exit=False, verbosity=2)
    outcome = program.result
    if not outcome.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if outcome.testsRun and len(outcome.skipped) == outcome.testsRun else 0)
