# SPDX-License-Identifier: Apache-2.0
"""trainer launch starts ranks with the right words, passes signals on, starts again after failures from the last checkpoint, on
fewer ranks while a host is away, and tells all of it in one place."""
import os
import pathlib
import random
import re
import signal
import subprocess
import time
import unittest

import cluster_test
import examples
import support

PREEMPTED = 75


def ranks_of(directory):
    """{rank: pid} of the trainers that were started with this directory on their command line."""
    found = {}
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if str(directory).encode() not in (entry / 'cmdline').read_bytes() or os.path.realpath(entry / 'exe') != os.path.realpath(support.TRAINER):
                continue
            variables = (entry / 'environ').read_bytes().split(b'\0')
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b'OMPI_COMM_WORLD_RANK='):
                found[int(variable.split(b'=')[1])] = int(entry.name)
    return found


class LaunchTest(support.TrainerTest):
    EPOCHS = 10

    def prepare(self, name, options='', epochs=None):
        folder = self.directory / name
        folder.mkdir()
        (folder / 'run.cntk').write_text(examples.config(hidden='32', minibatch=40, epochs=epochs or self.EPOCHS), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(2000), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', f'Train=[SGD=[numMBsToShowResult=0;{options}]]'], folder

    def launch(self, words, arguments):
        run = support.Run(self.directory, ['launch', *map(str, words), *arguments], None)
        self.addCleanup(run.close)
        return run

    def killed_again_and_again(self, options, seconds, between, epochs=None):
        arguments, folder = self.prepare('undisturbed', options, epochs)
        self.run_trainer(arguments, 3)
        expected = (folder / 'models/model.dnn').read_bytes()
        arguments, folder = self.prepare('disturbed', options + 'ParallelTrain=[faultHook=[rank=0;sleep=0.01]]', epochs)
        run = self.launch(['-n', 3, '--restarts'], arguments)
        draw, kills, end = random.Random(1), 0, time.monotonic() + seconds
        while run.running() and time.monotonic() < end:
            time.sleep(between * draw.uniform(0.5, 1.5))
            pid = ranks_of(folder).get(draw.randrange(3))
            if pid and list((folder / 'models').glob('*.*')):
                os.kill(pid, signal.SIGKILL)
                kills += 1
        result = run.wait(run.seconds() + (3600 if 'TUTTI_SOAK' in os.environ else 300))
        print(f'{kills} kills in {result.seconds:.0f} s, {result.text.count("launch: attempt")} attempts')
        self.assertEqual(result.code, 0, str(result)[-6000:])
        self.assertGreaterEqual(kills, 2)
        self.assertTrue((folder / 'models/model.dnn').read_bytes() == expected, 'the model differs')
        self.assertRegex(result.text, r'attempt 1 on 3 ranks, \d+ s, exit code \d+: rank \d on \S+ (was ended by signal 9|died)')
        self.assertIn('the story of', result.text)
        self.assertRegex(result.text, r'trainer launch: attempt 2; before: attempt 1 on 3 ranks')

    def test_kill_9(self):
        """TUTTI_SOAK=1200 kills a random rank every 15 s for twenty minutes."""
        if 'TUTTI_SOAK' in os.environ:
            return self.killed_again_and_again('checkpointEverySamples=400;keepCheckpoints=3;', int(os.environ['TUTTI_SOAK']), 15, int(int(os.environ['TUTTI_SOAK']) * float(os.environ.get('TUTTI_SOAK_EPOCHS', 0.8))))
        self.killed_again_and_again('checkpointEverySamples=400;', 12, 2.5)

    def test_words(self):
        for words, expected in ((['--restart', 3], "did you mean '--restarts'"), (['-n', 0], 'takes a number'), (['-n', 'two'], "not 'two'"),
                                ([], 'nothing to start'), (['--hosts', 'a:x', 'c'], "not 'x'"), (['-n', 9, '--hosts', 'a:2', 'c'], 'do not fit on a:2'),
                                (['-n', 2, '--min-ranks', 3, 'c'], 'is more than -n 2'), (['--hostfile', 'absent', 'c'], 'cannot read the hostfile'),
                                (['--mpiexec', 'no-such-program', '-n', 2, 'c'], "cannot start 'no-such-program'")):
            with self.subTest(words=words):
                result = self.launch(words, []).wait()
                self.assertEqual(result.code, 2, str(result))
                self.assertIn(expected, result.text)
                self.assertIn('fix: ', result.text)

    def test_a_mistake_is_not_tried_again(self):
        arguments, _ = self.prepare('mistake', 'maxEpoch=3')
        result = self.launch(['-n', 2, '--restarts', 5], arguments).wait()
        self.assertEqual(result.code, 2, str(result))
        self.assertEqual(result.text.count('attempt 1 on 2 ranks'), 2)
        self.assertNotIn('attempt 2', result.text)

    def test_without_restarts(self):
        arguments, folder = self.prepare('once', 'ParallelTrain=[faultHook=[rank=1;firstStep=60;exit=true]]')
        result = self.launch(['-n', 2], arguments).wait()
        self.assertNotEqual(result.code, 0)
        self.assertIn('not started again without --restarts', result.text)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(signal=number):
                arguments, folder = self.prepare(f's{number}', 'ParallelTrain=[faultHook=[rank=0;sleep=0.02]]')
                run = self.launch(['-n', 2, '--restarts', 3], arguments)
                while run.running() and not (folder / 'models/model.dnn.1').exists():
                    time.sleep(0.01)
                run.process.send_signal(number)
                result = run.wait()
                self.assertEqual(result.code, PREEMPTED, str(result)[-3000:])
                self.assertRegex(result.text, 'Stopped by SIGUSR1')
                self.assertEqual(ranks_of(folder), {})

    def test_the_launcher_dies(self):
        """kill -9 of trainer launch leaves nothing behind."""
        arguments, folder = self.prepare('orphans', epochs=100000)
        run = self.launch(['-n', 2], arguments)
        while run.running() and not (folder / 'models/model.dnn.1').exists():
            time.sleep(0.01)
        pids = list(ranks_of(folder).values())
        self.assertEqual(len(pids), 2)
        run.process.kill()
        self.assertTrue(support.all_end(pids, 30), 'a rank lives on')


@unittest.skipUnless(cluster_test.namespaces_allowed(), 'network namespaces need root, iproute2 and a kernel that allows them')
class HostsTest(LaunchTest):
    def test_a_host_goes_and_returns(self):
        """The link of one of two hosts is cut: the run goes on with fewer ranks, and with all once the link is back."""
        name = cluster_test.NAME
        code, text = cluster_test.cluster('up', 2, '--rate', '1gbit')
        self.addCleanup(cluster_test.cluster, 'down')
        self.assertEqual(code, 0, text)
        agent, hostfile = re.search(r'plm_rsh_agent (\S+)', text).group(1), re.search(r'--hostfile (\S+)', text).group(1)
        arguments, folder = self.prepare('run', 'checkpointEverySamples=400;stallTimeout=3;ParallelTrain=[faultHook=[rank=0;sleep=0.02]]', epochs=60)
        run = self.launch(['--hostfile', hostfile, '--agent', agent, '--restarts', 20, '--min-ranks', 1], arguments)

        def wait_for(text, seconds=60):
            end = time.monotonic() + seconds
            while run.running() and text not in ''.join(run.output()) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertIn(text, ''.join(run.output()))
        wait_for('SGD: Saving checkpoint')
        time.sleep(2)
        subprocess.run(['ip', 'link', 'set', f'{name}-2', 'down'], check=True)
        wait_for(f'host {name}-2 is left out: it cannot be reached')
        wait_for('attempt 2 on 1 rank')
        time.sleep(3)
        subprocess.run(['ip', 'link', 'set', f'{name}-2', 'up'], check=True)
        wait_for('attempt 3 on 2 ranks')
        result = run.wait(400)
        self.assertEqual(result.code, 0, str(result)[-6000:])
        self.assertTrue((folder / 'models/model.dnn').exists())
        rows = {row['epoch']: row for row in support.epochs(result.text)}
        self.assertEqual(rows[60]['totalSamplesSeen'], 60 * 2000)
        self.assertTrue(all(row['CrossEntropyWithSoftmax'][1] == 2000 for row in rows.values()))


if __name__ == '__main__':
    support.main()
