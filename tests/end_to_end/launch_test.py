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
NUMBERED = '''BrainScriptNetworkBuilder = [
        features = Input {2}
        number   = Input {1}
        labels   = Input {2}
        z  = LinearLayer {2} (DenseLayer {32, activation = ReLU} (features))
        ce = CrossEntropyWithSoftmax (labels, z)
        errs = ClassificationError (labels, z)
        place = Plus (number, 0)
        square = number .* number
        criterionNodes = (ce)
        evaluationNodes = (errs : place : square)
        outputNodes = (z)
    ]
'''


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


class LaunchedTest(support.TrainerTest):
    EPOCHS = 10

    def configure(self, folder, epochs, sleep=0):
        """`sleep`: seconds of rank 0 before each step."""
        text = examples.config(hidden='32', minibatch=40, epochs=epochs)
        if sleep:
            text = text.replace('ParallelTrain = [', f'ParallelTrain = [ faultHook = [ rank = 0 ; sleep = {sleep} ]')
        (folder / 'new.cntk').write_text(text, encoding='utf-8')
        (folder / 'new.cntk').rename(folder / 'run.cntk')  # at once: another attempt may just be reading it

    def prepare(self, name, options='', epochs=None, sleep=0):
        folder = self.directory / name
        folder.mkdir()
        self.configure(folder, epochs or self.EPOCHS, sleep)
        (folder / 'train.ctf').write_text(examples.points(2000), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', f'Train=[SGD=[numMBsToShowResult=0;{options}]]'], folder

    def launch(self, words, arguments):
        run = support.Run(self.directory, ['launch', *map(str, words), *arguments], None)
        self.addCleanup(run.close)
        return run


class LaunchTest(LaunchedTest):
    def killed_again_and_again(self, options, seconds, between):
        """How far the run comes while it is disturbed depends on the machine. So it has no end until then: it gets one in its config, and
        reads that when it is started again."""
        arguments, folder = self.prepare('disturbed', options, 1000000, sleep=0.01)
        run = self.launch(['-n', 3, '--restarts'], arguments)
        draw, kills, end = random.Random(1), 0, time.monotonic() + seconds

        def kill():
            pid = ranks_of(folder).get(draw.randrange(3))
            if pid and list((folder / 'models').glob('*.*')):
                os.kill(pid, signal.SIGKILL)
                return 1
            return 0
        while run.running() and time.monotonic() < end:
            time.sleep(between * draw.uniform(0.5, 1.5))
            kills += kill()
        done = max((int(f.suffix[1:]) for f in (folder / 'models').glob('model.dnn.*') if f.suffix[1:].isdigit()), default=0)
        self.configure(folder, done + 3)
        while run.running() and not kill():
            time.sleep(0.1)
        result = run.wait(run.seconds() + support.PATIENCE)
        print(f'{kills + 1} kills in {result.seconds:.0f} s, {result.text.count("launch: attempt")} attempts, {done + 3} epochs')
        self.assertEqual(result.code, 0, str(result)[-6000:])
        self.assertGreaterEqual(kills, 2)
        self.assertRegex(result.text, r'attempt 1 on 3 ranks, \d+ s, exit code \d+: rank \d on \S+ (was ended by signal 9|died)')
        self.assertIn('the story of', result.text)
        self.assertRegex(result.text, r'trainer launch: attempt 2; before: attempt 1 on 3 ranks')
        arguments, undisturbed = self.prepare('undisturbed', options, done + 3)
        self.run_trainer(arguments, 3, timeout=10 * support.PATIENCE)
        self.assertTrue((folder / 'models/model.dnn').read_bytes() == (undisturbed / 'models/model.dnn').read_bytes(), 'the model differs')

    def test_kill_9(self):
        """TUTTI_SOAK=1200 kills a random rank every 15 s for twenty minutes."""
        if 'TUTTI_SOAK' in os.environ:
            return self.killed_again_and_again('checkpointEverySamples=400;keepCheckpoints=3;', int(os.environ['TUTTI_SOAK']), 15)
        self.killed_again_and_again('checkpointEverySamples=400;', 12, 2.5)

    def test_words(self):
        for words, expected in ((['--restart', 3], "did you mean '--restarts'"), (['-n', 0], 'takes a number'), (['-n', 'two'], "not 'two'"),
                                ([], 'nothing to start'), (['--hosts', 'a:x', 'c'], "not 'x'"), (['-n', 9, '--hosts', 'a:2', 'c'], 'do not fit on a:2'),
                                (['-n', 2, '--min-ranks', 3, 'c'], 'is more than 2 ranks'), (['--hostfile', 'absent', 'c'], 'cannot read the hostfile'),
                                (['--hosts=', '-n', 2, 'c'], '--hosts needs a value'), (['--min-ranks=', '-n', 2, 'c'], '--min-ranks needs a value'),
                                (['--mpiexec', 'no-such-program', '-n', 2, 'c'], "cannot start 'no-such-program'")):
            with self.subTest(words=words):
                result = self.launch(words, []).wait()
                self.assertEqual(result.code, 2, str(result))
                self.assertIn(expected, result.text)
                self.assertIn('fix: ', result.text)

    def test_a_rank_per_core_that_it_may_use(self):
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {min(cores)})
        self.assertIn('attempt 1 on 1 rank: ', self.launch(['--mpiexec', 'true', 'c'], []).wait().text)

    def test_flags_of_the_trainer(self):
        """They may stand before the config, as without the launcher."""
        arguments, folder = self.prepare('checked')
        for words in (['-n', 2, '--check'], ['--check', '-n', 2]):
            result = self.launch(words, arguments).wait()
            self.assertEqual(result.code, 0, str(result))
            self.assertIn('maxEpochs = 10', result.text)
        self.assertFalse((folder / 'models').exists())

    def test_a_mistake_is_not_tried_again(self):
        arguments, _ = self.prepare('mistake', 'maxEpoch=3')
        result = self.launch(['-n', 2, '--restarts', 5], arguments).wait()
        self.assertEqual(result.code, 2, str(result))
        self.assertEqual(result.text.count('attempt 1 on 2 ranks'), 2)
        self.assertNotIn('attempt 2', result.text)

    def test_a_changed_optimizer_is_a_mistake(self):
        arguments, _ = self.prepare('adam')
        self.assertEqual(self.launch(['-n', 2], arguments).wait().code, 0)
        result = self.launch(['-n', 2, '--restarts', 5], [*arguments, 'Train=[SGD=[maxEpochs=12;gradUpdateType=adam]]']).wait()
        self.assertEqual(result.code, 2, str(result))
        self.assertIn('this run cannot go on from an earlier one', result.text)
        self.assertNotIn('attempt 2', result.text)

    def test_without_restarts(self):
        arguments, folder = self.prepare('once', 'ParallelTrain=[faultHook=[rank=1;firstStep=60;exit=true]]')
        result = self.launch(['-n', 2], arguments).wait()
        self.assertNotEqual(result.code, 0)
        self.assertIn('not started again without --restarts', result.text)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(signal=number):
                arguments, folder = self.prepare(f's{number}', sleep=0.01)
                run = self.launch(['-n', 2, '--restarts', 3], arguments)
                while run.running() and not (folder / 'models/model.dnn.1').exists():
                    time.sleep(0.01)
                run.process.send_signal(number)
                result = run.wait()
                self.assertEqual(result.code, PREEMPTED, str(result)[-3000:])
                self.assertRegex(result.text, 'Stopped by SIGUSR1')
                self.assertEqual(ranks_of(folder), {})

    def test_a_scheduler_signals_all_processes(self):
        """mpiexec does not kill the ranks, and the launcher's SIGUSR1 does not count as a second request: they save their state."""
        arguments, folder = self.prepare('all', epochs=1000, sleep=0.02)
        run = self.launch(['-n', 2, '--restarts', 3], arguments)
        while run.running() and not (folder / 'models/model.dnn.1').exists():
            time.sleep(0.01)
        mpiexec = pathlib.Path(f'/proc/{run.process.pid}/task/{run.process.pid}/children').read_text(encoding='ascii').split()
        for pid in [*ranks_of(folder).values(), *map(int, mpiexec), run.process.pid]:
            os.kill(pid, signal.SIGTERM)
        result = run.wait()
        self.assertEqual(result.code, PREEMPTED, str(result)[-3000:])
        self.assertRegex(result.text, r'Stopped by SIG(TERM|USR1) in epoch \d+ after \d+ minibatches')
        self.assertNotIn('A second signal', result.text)

    def test_a_signal_before_the_training(self):
        for delay in (0, 0.1, 0.3):
            with self.subTest(delay=delay):
                arguments, folder = self.prepare(f'early{delay}', epochs=1000, sleep=0.02)
                run = self.launch(['-n', 2, '--restarts', 3], arguments)
                while run.running() and 'attempt 1 on 2 ranks' not in ''.join(run.output()):
                    time.sleep(0.01)
                time.sleep(delay)
                run.process.send_signal(signal.SIGTERM)
                result = run.wait()
                self.assertEqual(result.code, PREEMPTED, str(result)[-3000:])
                self.assertNotIn('attempt 2', result.text)
                self.assertTrue(support.all_end(list(ranks_of(folder).values()), 30), 'a rank lives on')

    def test_from_scratch(self):
        """makeMode = false does its part once, whenever the first attempt ends."""
        arguments, folder = self.prepare('scratch', epochs=4)
        self.run_trainer(arguments, 2)
        model = folder / 'models/model.dnn'
        before = model.read_bytes()
        words = [*arguments, 'makeMode=false', 'Train=[SGD=[learningRatesPerMB=0.01]]']
        self.run_trainer(words, 2)
        expected = model.read_bytes()
        self.assertNotEqual(before, expected)
        failing = self.directory / 'failing'
        failing.write_text(f'#!/bin/sh\nif [ ! -e {folder}/tried ]; then touch {folder}/tried; exit 137; fi\nexec {support.MPIEXEC} "$@"\n',
                           encoding='utf-8')
        failing.chmod(0o755)
        exits = ['Train=[SGD=[ParallelTrain=[faultHook=[rank=1;firstStep=190;exit=true]]]]']
        of_sgd = ['modelPath=elsewhere/model.dnn', 'Train=[SGD=[modelPath=models/model.dnn]]']
        for what, more, mpiexec in (('before it trains', [], ['--mpiexec', failing]),
                                    ('while it trains', exits, []),
                                    ('while it trains, with modelPath in SGD', [*exits, *of_sgd], [])):
            with self.subTest(ends=what):
                model.write_bytes(before)
                result = self.launch(['-n', 2, '--restarts', 2, *mpiexec], [*words, *more]).wait()
                self.assertEqual(result.code, 0, str(result)[-3000:])
                self.assertIn('attempt 2', result.text)
                self.assertNotIn('Final model exists', result.text)
                self.assertNotIn('tutti: ', result.text)
                self.assertTrue(model.read_bytes() == expected, 'the model differs')

    def test_a_host_that_is_named_by_its_address(self):
        """The run names a host as the host does. Here both are this one, under addresses that lead nowhere."""
        for name, text in (('agent', 'shift\nexec "$@"'), ('mpiexec', 'echo "[rank 1 on $(hostname)] broken"\nexit 80')):
            self.write(name, f'#!/bin/sh\n{text}\n').chmod(0o755)
        words = ['--hosts', '192.0.2.1,192.0.2.2', '--agent', self.directory / 'agent', '--mpiexec', self.directory / 'mpiexec', '--restarts', 2]
        result = self.launch([*words, '--min-ranks', 1], ['c']).wait()
        self.assertEqual(result.code, 80, str(result))
        self.assertIn('host 192.0.2.1 is left out: it failed twice in a row', result.text)
        self.assertIn('attempt 3 on 1 rank of 192.0.2.2:1', result.text)

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
class HostsTest(LaunchedTest):
    def network(self, folder):
        """Two evaluations know every sample: the mean of its number and of the number's square."""
        text = (folder / 'run.cntk').read_text(encoding='utf-8')
        before, rest = text.split('SimpleNetworkBuilder', 1)
        text = before + NUMBERED + rest.split(']', 1)[1]
        text = text.replace('labels   = [', 'number = [ alias = "n" ; dim = 1 ; format = "dense" ]\n            labels   = [')
        (folder / 'run.cntk').write_text(text, encoding='utf-8')
        lines = examples.points(2000).splitlines()
        (folder / 'train.ctf').write_text(''.join(f'{line} |n {i}\n' for i, line in enumerate(lines)), encoding='utf-8')

    def test_a_host_that_fails_twice(self):
        """It is left out for a minute, also if --hosts has its address, and while the others fail for a reason of their own."""
        code, text = cluster_test.cluster('up', 2, '--rate', '1gbit')
        self.addCleanup(cluster_test.cluster, 'down')
        self.assertEqual(code, 0, text)
        agent = re.search(r'plm_rsh_agent (\S+)', text).group(1)
        hosts = [cluster_test.cluster('exec', i, 'hostname', '-I')[1].split()[0] for i in (1, 2)]
        names = ''.join(f' {host}) host={cluster_test.NAME}-{i} ;;' for i, host in enumerate(hosts, 1))
        by_address = self.write('agent', f'#!/bin/sh\nhost=$1\nshift\ncase $host in{names} esac\nexec {agent} $host "$@"\n')
        by_address.chmod(0o755)
        arguments, _ = self.prepare('failing', 'ParallelTrain=[faultHook=[rank=1;exit=true;firstStep=5]]')
        result = self.launch(['--hosts', ':1,'.join(hosts), '--agent', by_address, '--restarts', 9, '--min-ranks', 1], arguments).wait()
        self.assertEqual(result.code, 2, str(result)[-6000:])  # a single rank refuses the rank of the faultHook, three times
        self.assertEqual(result.text.count(f'host {hosts[1]} is left out: it failed twice in a row'), 1, str(result)[-6000:])
        self.assertEqual(len(re.findall('(?m)^launch .*: attempt [345] on 1 rank of ', result.text)), 3, str(result)[-6000:])
        self.assertNotIn('is back', result.text)

    def test_a_host_goes_and_returns(self):
        """The link of one of two hosts is cut, within a training and while one starts: the run goes on with fewer ranks, and with all once the
        link is back. Every epoch has every sample once, and the error ends within .3 points of that of a run that nothing disturbed."""
        name = cluster_test.NAME
        code, text = cluster_test.cluster('up', 2, '--rate', '1gbit')
        self.addCleanup(cluster_test.cluster, 'down')
        self.assertEqual(code, 0, text)
        agent, hostfile = re.search(r'plm_rsh_agent (\S+)', text).group(1), re.search(r'--hostfile (\S+)', text).group(1)
        options = 'checkpointEverySamples=400;stallTimeout=3;learningRatesPerMB=0.5*80:0.05;'
        arguments, folder = self.prepare('run', options, 100, sleep=0.02)
        self.network(folder)
        run = self.launch(['--hostfile', hostfile, '--agent', agent, '--restarts', 20, '--min-ranks', 1], arguments)

        def wait_for(text, times=1, seconds=support.PATIENCE):
            end = time.monotonic() + seconds
            while run.running() and ''.join(run.output()).count(text) < times and time.monotonic() < end:
                time.sleep(0.1)
            self.assertGreaterEqual(''.join(run.output()).count(text), times, text)
        wait_for('SGD: Saving checkpoint')
        for cut in (1, 2):
            time.sleep(2 if cut == 1 else 0)
            subprocess.run(['ip', 'link', 'set', f'{name}-2', 'down'], check=True)
            wait_for(f'host {name}-2 is left out: it cannot be reached', cut)
            wait_for(f'attempt {2 * cut} on 1 rank')
            time.sleep(3)
            subprocess.run(['ip', 'link', 'set', f'{name}-2', 'up'], check=True)
            wait_for(f'attempt {2 * cut + 1} on 2 ranks')
        result = run.wait(run.seconds() + 400)
        self.assertEqual(result.code, 0, str(result)[-6000:])
        rows = {row['epoch']: row for row in support.epochs(result.text)}
        self.assertEqual(rows[100]['totalSamplesSeen'], 100 * 2000)
        once = (sum(range(2000)) / 2000, 2000), (sum(i * i for i in range(2000)) / 2000, 2000)
        for row in rows.values():
            self.assertEqual((row['place'], row['square']), once, row['line'])
        arguments, folder = self.prepare('undisturbed', options, 100)
        self.network(folder)
        undisturbed = support.epochs(self.run_trainer(arguments, 2).text)[-1]
        print(f"training error {rows[100]['errs'][0]:.3%}, undisturbed {undisturbed['errs'][0]:.3%}")
        self.assertAlmostEqual(rows[100]['errs'][0], undisturbed['errs'][0], delta=0.003)


if __name__ == '__main__':
    support.main()
