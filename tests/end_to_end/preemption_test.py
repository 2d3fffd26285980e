# SPDX-License-Identifier: Apache-2.0
"""A signal ends a run in good order: all ranks stop after the same minibatch, the state is saved, the exit code says so, and the
same command goes on to the bytes of the undisturbed run."""
import os
import re
import signal
import time

import examples
import support

PREEMPTED = 75
EPOCHS = 6

# name: ranks, ParallelTrain, whether the bytes of an interrupted run are those of an undisturbed one
METHODS = {
    'gradients': (3, 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]', True),
    'blocks': (2, 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=200]', True),
    'averaging': (2, 'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=400]', True),
    'servers': (3, 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20]', False),
    'servers apart': (3, 'parallelizationMethod=ASGD;DataParallelASGD=[push=gradients;servers=1]', False),
    'elastic': (2, 'parallelizationMethod=EASGD;EASGD=[policy=async;period=3]', False),
    'delayed': (2, 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[useBufferedAsyncGradientAggregation=true]', False),
    'groups': (4, 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=200];groups=size:2;'
                  'insideGroups=[parallelizationMethod=DataParallelSGD]', True),
    'groups at servers': (4, 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20];groups=size:2;'
                             'insideGroups=[parallelizationMethod=DataParallelSGD]', False),
    'warm start': (2, 'parallelizationMethod=DataParallelSGD;parallelizationStartEpoch=4', True),
}

NORMALIZED = '''BrainScriptNetworkBuilder = {
        features = Input {2}; labels = Input {2}
        h = Sigmoid (BatchNormalizationLayer {normalizationTimeConstant=300, blendTimeConstant=100} (LinearLayer {32} (features)))
        z = LinearLayer {2} (h)
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce); outputNodes = (z)
    }'''


class PreemptionTest(support.TrainerTest):
    def prepare(self, name, options='', epochs=EPOCHS, samples=2000):
        folder = self.directory / name
        folder.mkdir()
        (folder / 'run.cntk').write_text(examples.config(hidden='32', minibatch=40, epochs=epochs), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(samples), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', 'parallelTrain=true', f'Train=[SGD=[numMBsToShowResult=0;{options}]]'], folder / 'models'

    def stop_within(self, arguments, models, ranks, send, epoch=2, pause=0.1):
        """Starts a run and calls send(run) some minibatches into the epoch after `epoch`."""
        run = self.start_trainer(arguments, ranks)
        while run.running() and not (models / f'model.dnn.{epoch}').exists():
            time.sleep(0.005)
        time.sleep(pause)
        pids = run.pids_by_rank()
        send(run)
        result = run.wait()
        self.assertTrue(support.all_end(pids.values()), 'a process still runs')
        return result

    def to_rank(self, rank, number=signal.SIGTERM):
        return lambda run: os.kill(run.pids_by_rank()[rank], number)

    def stopped_in_order(self, result):
        self.assertEqual(result.code, PREEMPTED, str(result))
        self.assertRegex(result.text, r'Stopped by SIG\w+ in epoch \d+ after \d+ minibatches', str(result))
        self.assertNotRegex(result.text, r'(?m)^-{20,}$', str(result))
        self.assertNotIn('A second signal', result.text)  # mpiexec sends others to ranks that end later

    # Slow enough that the signal comes in the middle of an epoch.
    def slow(self, parallel):
        return f'ParallelTrain=[{parallel};faultHook=[rank=0;sleep=0.006]]'

    def test_every_method(self):
        for name, (ranks, parallel, exact) in METHODS.items():
            with self.subTest(method=name):
                folder = name.replace(' ', '_')
                # Those that nobody waits for are not slowed down by the rank that sleeps.
                samples = 2000 if exact or name == 'delayed' else 20000
                epochs = EPOCHS if samples == 2000 else 20
                arguments, models = self.prepare(folder, self.slow(parallel), epochs, samples)
                result = self.stop_within(arguments, models, ranks, self.to_rank(ranks - 1), epoch=1)
                self.stopped_in_order(result)
                self.assertEqual(len(list(models.glob('*.mid'))), int('The state is in' in result.text), str(result))
                if samples > 2000:  # no more than it takes to go on
                    epochs = int(re.search(r'Stopped by SIG\w+ in epoch (\d+)', result.text).group(1)) + 1
                result = self.run_trainer([*arguments, f'Train=[SGD=[maxEpochs={epochs};ParallelTrain=[faultHook=[rank=0;sleep=0]]]]'], ranks)
                rows = support.epochs(result.text)
                self.assertEqual(rows[-1]['totalSamplesSeen'], samples * epochs, str(result))
                self.assertTrue(all(row['CrossEntropyWithSoftmax'][1] == samples for row in rows), str(result))
                if exact:
                    undisturbed, whole = self.prepare(folder + '-undisturbed', f'ParallelTrain=[{parallel}]')
                    self.run_trainer(undisturbed, ranks)
                    self.assertTrue((models / 'model.dnn').read_bytes() == (whole / 'model.dnn').read_bytes(), f'the model differs\n{result}')

    def test_a_late_signal_stops_the_next_training(self):
        """It comes in the last minibatch of a training, which ends; the next one begins nothing, and goes on when started again."""
        arguments, models = self.prepare('late', 'maxEpochs=1;ParallelTrain=[faultHook=[rank=0;firstStep=49;steps=1;sleep=3]];numMBsToShowResult=49')
        path = self.directory / 'late/run.cntk'
        text = path.read_text(encoding='utf-8')
        second = text[text.index('Train = ['):text.index('Test = [')].replace('Train = [', 'Second = [ modelPath = "models/second.dnn"', 1)
        path.write_text(text + second, encoding='utf-8')
        arguments += ['command=Train:Second', 'stderr=log']
        run = self.start_trainer(arguments, 2)
        log = self.directory / 'late/log'
        while run.running() and not (log.exists() and re.search(r'Minibatch\[ *1- *49', log.read_text(encoding='utf-8'))):
            time.sleep(0.01)
        self.to_rank(1)(run)
        result = run.wait()
        self.assertEqual(result.code, PREEMPTED, str(result))
        self.assertIn('Stopped by SIGTERM in epoch 1 after 0 minibatches. Nothing is trained yet', log.read_text(encoding='utf-8'))
        self.assertTrue((models / 'model.dnn').exists())
        self.assertFalse((models / 'second.dnn').exists())
        self.run_trainer(arguments, 2)
        self.assertTrue((models / 'second.dnn').exists())

    def test_a_signal_outside_of_a_training(self):
        """Nothing has to be saved, so the process ends at once. These read a config that nobody writes."""
        os.mkfifo(self.directory / 'fifo')
        for ranks, number in ((None, signal.SIGTERM), (None, signal.SIGUSR1), (2, signal.SIGTERM)):
            with self.subTest(ranks=ranks, signal=number):
                # What it then tells `trainer launch`: MPI has started. Before that mpiexec may die of a rank that ends.
                run = support.Run(self.directory, ['configFile=fifo'], ranks, {'OMPI_TUTTI_LAUNCH': 'attempt 1'})
                self.addCleanup(run.close)
                while run.running() and 'tutti: connected' not in ''.join(run.output()):
                    time.sleep(0.01)
                pid = run.pids_by_rank()[1] if ranks else run.process.pid
                os.kill(pid, number)
                result = run.wait()
                self.assertEqual(result.code, PREEMPTED, str(result))
                self.assertEqual('Stopped by a signal outside of a training' in result.text, ranks is None)

    def test_running_statistics(self):
        """Those of each rank go on with it; the model has their mean."""
        parallel = 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]'
        models = {}
        for name, options in (('whole', ''), ('often', 'checkpointEverySamples=600;'), ('stopped', '')):
            arguments, models[name] = self.prepare(name, options + (self.slow(parallel) if name == 'stopped' else f'ParallelTrain=[{parallel}]'))
            path = self.directory / name / 'run.cntk'
            text = path.read_text(encoding='utf-8')
            network = text[text.index('SimpleNetworkBuilder = ['):]
            path.write_text(text.replace(network[:network.index(']') + 1], NORMALIZED), encoding='utf-8')
            if name == 'stopped':
                self.stopped_in_order(self.stop_within(arguments, models[name], 2, self.to_rank(1)))
            self.run_trainer(arguments, 2)
        for name in ('often', 'stopped'):
            self.assertTrue((models[name] / 'model.dnn').read_bytes() == (models['whole'] / 'model.dnn').read_bytes(), name)

    def test_signals_and_ways(self):
        """Each signal, to a process without mpiexec, to any rank, to several, and USR1 through mpiexec, which passes it on."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(signal=number):
                arguments, models = self.prepare(f'alone-{number}', 'ParallelTrain=[faultHook=[rank=0;sleep=0.005]]')
                result = self.stop_within(arguments, models, None, lambda run: run.process.send_signal(number), epoch=1)
                self.stopped_in_order(result)
                self.assertIn(f'Stopped by {signal.Signals(number).name}', result.text)
        slow = self.slow('parallelizationMethod=DataParallelSGD')
        for name, send in {'rank 0': self.to_rank(0), 'rank 2': self.to_rank(2, signal.SIGINT),
                           'all ranks': lambda run: [os.kill(pid, signal.SIGTERM) for pid in run.pids_by_rank().values()],
                           'mpiexec': lambda run: run.process.send_signal(signal.SIGUSR1)}.items():
            with self.subTest(to=name):
                arguments, models = self.prepare(name.replace(' ', '_'), slow)
                self.stopped_in_order(self.stop_within(arguments, models, 3, send, epoch=1))

    def test_second_signal(self):
        """The first one waits for a long step, the second does not."""
        arguments, models = self.prepare('twice', 'ParallelTrain=[faultHook=[rank=0;sleep=60;firstStep=150]]')

        def twice(run):
            time.sleep(0.5)
            run.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertTrue(run.running())
            run.process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        result = self.stop_within(arguments, models, None, twice)
        self.assertEqual(result.code, 128 + signal.SIGTERM, str(result))
        self.assertIn('second signal', result.text)
        self.assertLess(time.monotonic() - start, 20)

    def test_grace(self):
        """A rank that does not come to the end of its step in time: the run ends with the same code, without a new checkpoint."""
        arguments, models = self.prepare('grace', 'graceSeconds=2;ParallelTrain=[faultHook=[rank=0;sleep=60;firstStep=150]]')
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                sent = []

                def send(run):
                    sent.append(time.monotonic())
                    (self.to_rank(1)(run) if ranks else run.process.send_signal(signal.SIGTERM))
                result = self.stop_within(arguments, models, ranks, send, epoch=3, pause=1)  # in the long step
                self.assertLess(time.monotonic() - sent[0], 2 + 8)
                self.assertEqual(result.code, PREEMPTED, str(result))
                self.assertIn('graceSeconds = 2 have passed', result.text)
                self.assertEqual(list(models.glob('*.mid')), [])
                for path in models.iterdir():
                    path.unlink()

    def test_mistakes(self):
        arguments, _ = self.prepare('wrong', 'graceSeconds=-1;stallTimeout=0')
        text = self.run_trainer([*arguments, '--check'], expect=2).text
        for key in ('graceSeconds', 'stallTimeout'):
            self.assertRegex(text, rf'{key} must be a number of seconds above 0')
        self.assertTrue(re.search('fix: ', text))


if __name__ == '__main__':
    support.main()
