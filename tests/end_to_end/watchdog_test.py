# SPDX-License-Identifier: Apache-2.0
"""Nobody waits for the dead: a rank that is frozen, late, dead or cut off is named in time, and the exit code tells which it was."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import cluster_test
import examples
import support
from preemption_test import METHODS

DIED, FROZEN, CUT, STALLED = 80, 81, 82, 83
STALL = 3


class WatchdogTest(support.TrainerTest):
    def prepare(self, name, parallel, more=''):
        folder = self.directory / name
        folder.mkdir()
        (folder / 'run.cntk').write_text(examples.config(hidden='32', minibatch=40, epochs=100000), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(400), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', f'stallTimeout={STALL}',
                f'Train=[SGD=[numMBsToShowResult=0;keepCheckPointFiles=false;{more}ParallelTrain=[{parallel}]]]'], folder / 'models'

    def started(self, arguments, models, ranks):
        run = self.start_trainer(arguments, ranks)
        while run.running() and not (models / 'model.dnn.2').exists():
            time.sleep(0.01)
        time.sleep(1)  # until all watchdogs have connected
        return run

    def stop(self, run, rank):
        pid = run.pids_by_rank()[rank]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(lambda: support.alive(pid) and os.kill(pid, signal.SIGKILL))
        return time.monotonic()

    def ends(self, run, since, code, pattern, within):
        pids = run.pids_by_rank().values()
        result = run.wait()
        self.assertLess(time.monotonic() - since, within + (10 if support.SANITIZED else 3), str(result))
        self.assertEqual(result.code, code, str(result)[-4000:])
        self.assertRegex(result.text, pattern, str(result)[-4000:])
        self.assertTrue(support.all_end(pids), 'a process still runs')
        return result

    def test_frozen_on_every_method(self):
        for name, (ranks, parallel, _) in METHODS.items():
            with self.subTest(method=name):
                arguments, models = self.prepare(name.replace(' ', '_'), parallel)
                run = self.started(arguments, models, ranks)
                since = self.stop(run, ranks - 1)
                result = self.ends(run, since, FROZEN, rf'rank {ranks - 1} on \S+ is frozen', STALL)
                for rank in range(ranks):
                    self.assertRegex(result.text, rf'(?m)^  rank {rank} on \S+: .* since \d')

    def test_frozen_rank_0(self):
        arguments, models = self.prepare('first', 'parallelizationMethod=DataParallelSGD')
        run = self.started(arguments, models, 3)
        self.ends(run, self.stop(run, 0), FROZEN, r'rank 0 on \S+ is frozen', STALL)

    def test_warning_first(self):
        """A rank that comes back in time is only warned about."""
        arguments, models = self.prepare('back', 'parallelizationMethod=DataParallelSGD', 'stallTimeout=60;stallWarning=1;')
        run = self.started(arguments, models, 2)
        pid = run.pids_by_rank()[1]
        self.stop(run, 1)
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        self.assertTrue(run.running())
        os.kill(pid, signal.SIGTERM)
        result = run.wait()
        self.assertEqual(result.code, 75, str(result)[-3000:])
        self.assertRegex(result.text, r'Warning: rank 1 on \S+ is frozen for \d')
        self.assertEqual(result.text.count('Warning: rank 1'), 1)

    def test_frozen_outside_of_a_training(self):
        """With the limit of the top level: the command compares models and sleeps between them."""
        arguments, models = self.prepare('compares', 'parallelizationMethod=DataParallelSGD')
        self.run_trainer([*arguments, 'Train=[SGD=[maxEpochs=1]]'])
        reader = 'reader=[readerType=CNTKTextFormatReader;file=train.ctf;input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]'
        run = self.start_trainer([*arguments[:3], 'command=CV', f'CV=[action=cv;crossValidationInterval=0:1;sleepTimeBetweenRuns=600;{reader}]'], 3)
        while run.running() and 'Final Results' not in (self.directory / '.stderr').read_text():
            time.sleep(0.05)
        time.sleep(1)
        result = self.ends(run, self.stop(run, 2), FROZEN, r'rank 2 on \S+ is frozen', STALL)
        self.assertNotIn('no command uses', result.text)

    def test_all_frozen(self):
        """A job that its scheduler suspends and resumes: nobody is to blame."""
        arguments, models = self.prepare('suspended', 'parallelizationMethod=DataParallelSGD')
        run = self.started(arguments, models, 3)
        pids = run.pids_by_rank().values()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(STALL + 2)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(2)
        self.assertTrue(run.running())
        os.kill(list(pids)[0], signal.SIGTERM)
        self.assertEqual(run.wait().code, 75)

    def test_late(self):
        """A rank whose training makes no progress, though its process runs; also where nobody waits for it."""
        for name in ('gradients', 'elastic', 'servers'):
            ranks, parallel, _ = METHODS[name]
            with self.subTest(method=name):
                arguments, models = self.prepare(name, parallel + ';faultHook=[rank=1;sleep=600;firstStep=20]')
                start = time.monotonic()
                run = self.start_trainer(arguments, ranks)
                result = self.ends(run, start, STALLED, r'rank 1 on \S+ is late: it runs, but has made no progress for \d', STALL + 40)
                if name == 'gradients':
                    self.assertRegex(result.text, r'rank 0 on \S+: epoch \d+, minibatch \d+: waits for .* of rank 1 since')

    def test_dead_without_the_launcher(self):
        """The process of a rank ends, and the launcher is stopped, so that it cannot say so."""
        arguments, models = self.prepare('dead', 'parallelizationMethod=DataParallelSGD')
        run = self.started(arguments, models, 3)
        run.process.send_signal(signal.SIGSTOP)
        self.addCleanup(lambda: support.alive(run.process.pid) and run.process.send_signal(signal.SIGCONT))
        pids = run.pids_by_rank()
        os.kill(pids[1], signal.SIGKILL)
        since = time.monotonic()
        self.assertTrue(support.all_end([pids[0], pids[2]], 12), 'a rank waits for the dead')
        self.assertLess(time.monotonic() - since, 10)
        run.process.send_signal(signal.SIGCONT)
        self.assertRegex(run.wait().text, r'rank 1 on \S+ died: its process has ended')


@unittest.skipUnless(cluster_test.namespaces_allowed(), 'network namespaces need root, iproute2 and a kernel that allows them')
class CutTest(support.TrainerTest):
    def test_a_cut_link(self):
        """Two hosts: the link of the second goes down. Its processes run, and its host answers nobody."""
        name = cluster_test.NAME
        code, text = cluster_test.cluster('up', 2, '--rate', '1gbit')
        self.addCleanup(cluster_test.cluster, 'down')
        self.assertEqual(code, 0, text)
        self.write('run.cntk', examples.config(hidden='32', minibatch=40, epochs=100000))
        self.write('train.ctf', examples.points(400))
        log = open(self.directory / 'log', 'w+b')
        self.addCleanup(log.close)
        run = subprocess.Popen([cluster_test.SCRIPT, '--name', name, 'run', support.TRAINER, f'currentDirectory={self.directory}', 'configFile=run.cntk',
                                f'stallTimeout={STALL}', 'Train=[SGD=[numMBsToShowResult=0]]'], stdout=log, stderr=log, env=support.environment(self.directory))
        self.addCleanup(run.kill)
        end = time.monotonic() + 30
        while not (self.directory / 'models/model.dnn.2').exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1)
        subprocess.run(['ip', 'link', 'set', f'{name}-2', 'down'], check=True)
        since = time.monotonic()
        while b'cannot be reached' not in (self.directory / 'log').read_bytes() and time.monotonic() < since + 30:
            time.sleep(0.05)
        self.assertLess(time.monotonic() - since, STALL + 2, (self.directory / 'log').read_text())
        text = (self.directory / 'log').read_text()
        self.assertRegex(text, rf'rank 1 on {name}-2 cannot be reached for \d+\.\d s: its host acknowledges nothing', text)
        self.assertIn(f'exit code {CUT}', text)


class EndTest(support.TrainerTest):
    def test_an_end_that_hangs(self):
        """MPI_Finalize never returns: the run has its result, and ends with it."""
        self.write('run.cntk', examples.config(epochs=2))
        self.write('train.ctf', examples.points(64))
        source = self.write('hang.c', '#include <unistd.h>\nint MPI_Finalize(void) { for (;;) pause(); }\n')
        library = self.directory / 'hang.so'
        subprocess.run(['cc', '-shared', '-fPIC', '-o', library, source], check=True)
        run = support.Run(self.directory, ['configFile=run.cntk'], 2, {'LD_PRELOAD': str(library)})
        self.addCleanup(run.close)
        result = run.wait(60)
        self.assertEqual(result.code, 0, str(result))
        self.assertTrue((self.directory / 'models/model.dnn').exists())


if __name__ == '__main__':
    support.main()
