# SPDX-License-Identifier: Apache-2.0
"""A run that is killed at any moment and started again ends with the very bytes of the undisturbed run."""
import random
import shutil
import time

import examples
import support


class ResumeTest(support.TrainerTest):
    EPOCHS = 10
    network = staticmethod(lambda text: text)
    data = staticmethod(lambda: examples.points(4000))
    # TUTTI_KILLS=20 kills twenty runs in a row instead of two.
    KILLS = int(support.os.environ.get('TUTTI_KILLS', 2))

    def setUp(self):
        super().setUp()
        # A failure names the seed; TUTTI_TEST_SEED repeats its moments.
        self.seed = int(support.os.environ.get('TUTTI_TEST_SEED', random.SystemRandom().randrange(10**6)))
        self.draw = random.Random(self.seed)

    def prepare(self, name, options):
        folder = self.directory / name
        folder.mkdir()
        (folder / 'run.cntk').write_text(self.network(examples.config(hidden='64:64', epochs=self.EPOCHS, bits=1)), encoding='utf-8')
        (folder / 'train.ctf').write_text(self.data(), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', 'Train=[SGD=[numMBsToShowResult=0]]'] + options

    def undisturbed(self, ranks, options):
        """The bytes of the saved files, and the seconds to the first model and from there to the end."""
        arguments = self.prepare('undisturbed', options)
        models = self.directory / 'undisturbed/models'
        run = self.start_trainer(arguments, ranks)
        self.wait_for(models / 'model.dnn.0', run)
        start_up = run.seconds()
        result = run.wait()
        self.assertEqual(result.code, 0, str(result))
        return self.saved(models), start_up, result.seconds - start_up

    def saved(self, models):
        """The bytes of every model and checkpoint by name; .config has the command line of its run."""
        return {p.name: p.read_bytes() for p in models.iterdir() if not p.name.endswith(('.lock', '.config'))}

    def wait_for(self, path, run):
        while run.running() and not path.exists():
            time.sleep(0.005)

    def kill_some(self, arguments, ranks, whom, models, start_up, latest, kills):
        """How many of up to `kills` runs in a row were killed while they trained."""
        killed = 0
        for _ in range(kills):
            goes_on = (models / 'model.dnn.0').exists()
            run = self.start_trainer(arguments, ranks)
            self.wait_for(models / 'model.dnn.0', run)
            time.sleep(self.draw.uniform(0, latest + start_up if goes_on else latest))
            if not run.running():
                run.wait()
                break
            if whom == 'all':
                run.kill_all()
                killed += 1
            else:
                killed += run.kill_rank(self.draw.randrange(ranks))
            result = run.wait()
            if (models / 'model.dnn').exists():
                break  # the kill came too late to matter
            self.assertNotEqual(result.code, 0, f'a killed run must not claim success (seed {self.seed}):\n{result}')
        return killed

    def disturb_and_compare(self, ranks, whom, options=()):
        for name in ('undisturbed', 'disturbed'):  # of a comparison before
            shutil.rmtree(self.directory / name, ignore_errors=True)
        expected, start_up, seconds = self.undisturbed(ranks, list(options))
        arguments = self.prepare('disturbed', list(options))
        models = self.directory / 'disturbed/models'
        # A machine that has become faster meanwhile ends the run before the kill: then once more, killed earlier.
        for haste in range(1, 6):
            killed = self.kill_some(arguments, ranks, whom, models, start_up, seconds * 1.4 / self.KILLS / haste, self.KILLS)
            if killed:
                break
            shutil.rmtree(models)
        self.assertGreater(killed, 0, f'no run was killed (seed {self.seed}); the undisturbed one trained for {seconds:.1f} s')
        result = self.run_trainer(arguments, ranks)
        found = self.saved(models)
        self.assertEqual(sorted(found), sorted(expected), f'other files than those of the undisturbed run (seed {self.seed})\n{result}')
        self.assertFalse([name for name in found if found[name] != expected[name]],
                         f'files that differ from those of the undisturbed run (seed {self.seed})\n{result}')

    def test_one_of_two_ranks(self):
        self.disturb_and_compare(2, 'one')

    def test_one_of_three_ranks_within_epochs(self):
        self.disturb_and_compare(3, 'one', ['Train=[SGD=[checkpointEverySamples=480]]'])

    def test_all_of_two_ranks_within_epochs(self):
        self.disturb_and_compare(2, 'all', ['Train=[SGD=[checkpointEverySamples=700]]'])

    def test_all_of_three_ranks(self):
        self.disturb_and_compare(3, 'all')

    def test_averaging_within_blocks(self):
        """The momentum and the weights of each rank are its own; checkpoints lie between exchanges."""
        method = 'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=1000]'
        self.disturb_and_compare(3, 'one', [f'Train=[SGD=[checkpointEverySamples=480;ParallelTrain=[{method}]]]'])

    def test_running_statistics(self):
        """Each rank gathers statistics of its own share; at checkpoints they become the same for all."""
        self.network = examples.normalized
        options = 'Train=[SGD=[dropoutRate=0.2;checkpointEverySamples=480]]'
        self.disturb_and_compare(2, 'all', [options])
        self.disturb_and_compare(3, 'one', [options, 'Train=[SGD=[ParallelTrain=[parallelizationMethod=ModelAveragingSGD]]]'])

    def test_recurrent_state(self):
        """The state of sequences goes on from minibatch to minibatch; truncated ones are resumed at the ends of epochs."""
        self.network = examples.recurrent
        lengths = [self.draw.randint(1, 40) for _ in range(200)]
        self.data = lambda: examples.points(0, sequence_lengths=lengths)
        self.disturb_and_compare(2, 'all', ['Train=[SGD=[dropoutRate=0.2;checkpointEverySamples=480]]'])
        self.disturb_and_compare(2, 'one', ['Train=[SGD=[dropoutRate=0.2;truncated=true];reader=[truncated=true;truncationLength=8]]'])

    def test_block_momentum_within_blocks(self):
        method = 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=1000;resetSGDMomentum=false]'
        self.disturb_and_compare(2, 'all', [f'Train=[SGD=[checkpointEverySamples=480;ParallelTrain=[{method}]]]'])

    def test_one_bit_in_fragments_under_way(self):
        """Checkpoints meet an exchange whose result is used two minibatches later, and weights that hold residuals."""
        method = ('parallelizationMethod=BlockMomentumSGD;'
                  'BlockMomentumSGD=[blockSize=1000;exchangeBits=1;fragments=2;overlap=2]')
        self.disturb_and_compare(2, 'all', [f'Train=[SGD=[checkpointEverySamples=480;ParallelTrain=[{method}]]]'])

    def interrupted(self, options=()):
        """A run of two ranks that was stopped after its second epoch. Returns (arguments, folder of models, expected files)."""
        expected, *_ = self.undisturbed(2, list(options))
        arguments = self.prepare('disturbed', list(options))
        models = self.directory / 'disturbed/models'
        # Slow enough that it is not over before it is stopped.
        run = self.start_trainer([*arguments, 'Train=[SGD=[ParallelTrain=[faultHook=[rank=0;sleep=0.002]]]]'], 2)
        self.wait_for(models / 'model.dnn.2', run)
        run.kill_all()
        run.wait()
        self.assertFalse((models / 'model.dnn').exists(), 'the run was over before it could be stopped')
        return arguments, models, expected

    def newest(self, models, suffix):
        def epoch(path):
            return int(path.name.removeprefix('model.dnn.').removesuffix('.ckp').split('.')[0])
        found = [p for p in models.iterdir() if p.name.startswith('model.dnn.') and p.name.endswith('.ckp') == (suffix == '.ckp')
                 and not p.name.endswith(('.tmp', '.lock', '.config'))]
        return max(found, key=epoch)

    def damage(self, file, how):
        content = bytearray(file.read_bytes())
        if how == 'flip':
            content[len(content) // 2] ^= 0x10
        elif how == 'cut':
            del content[len(content) * 2 // 3:]
        else:
            content.clear()
        file.write_bytes(content)

    def test_damaged_files_fall_back(self):
        """The state or the model of the last epoch is damaged: the epoch before it is used."""
        self.EPOCHS = 5
        arguments, models, expected = self.interrupted()
        spare = self.directory / 'spare'
        shutil.copytree(models, spare)
        for suffix, how in (('.ckp', 'flip'), ('.ckp', 'cut'), ('.ckp', 'empty'), ('', 'flip'), ('', 'cut')):
            shutil.rmtree(models)
            shutil.copytree(spare, models)
            victim = self.newest(models, suffix)
            self.damage(victim, how)
            with self.subTest(how=how, file=victim.name):
                result = self.run_trainer(arguments, 2)
                self.assertRegex(result.text, rf'(?m)^Warning: .*{victim.name}', str(result))
                self.assertTrue((models / 'model.dnn').read_bytes() == expected['model.dnn'], f'the model differs\n{result}')

    def test_other_number_of_ranks(self):
        """Unquantised, a run may go on with another number of ranks and see every sample once."""
        self.EPOCHS = 5
        options = ['Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]']
        arguments, models, _ = self.interrupted(options)
        result = self.run_trainer(arguments, 3)
        last = support.epochs(result.text)[-1]
        self.assertEqual(last['totalSamplesSeen'], 4000 * self.EPOCHS)
        self.assertTrue((models / 'model.dnn').exists())


class DeadRankTest(support.TrainerTest):
    def test_a_dead_rank_ends_the_others_by_name(self):
        self.write('run.cntk', examples.config(hidden='64:64', epochs=100000))
        self.write('train.ctf', examples.points(2000))
        run = self.start_trainer(['configFile=run.cntk', 'Train=[SGD=[numMBsToShowResult=0]]'], 3)
        while run.running() and not (self.directory / 'models/model.dnn.1').exists():
            time.sleep(0.02)
        pids = run.pids_by_rank()
        self.assertEqual(sorted(pids), [0, 1, 2])
        self.assertTrue(run.kill_rank(1))
        start = time.monotonic()
        result = run.wait()
        self.assertLess(time.monotonic() - start, 15, 'the others live on')
        self.assertNotEqual(result.code, 0)
        self.assertRegex(result.text, r'rank 1\b')
        self.assertTrue(support.all_end(pids.values()), 'a process still runs')

    def test_a_failing_rank_ends_the_others_by_name(self):
        """Rank 1 alone cannot write its log: a folder stands where the file should be."""
        self.write('run.cntk', examples.config(epochs=100000))
        self.write('train.ctf', examples.points(200))
        (self.directory / 'run.log.rank1').mkdir()
        result = self.run_trainer(['configFile=run.cntk', 'stderr=run.log', 'Train=[SGD=[numMBsToShowResult=0]]'], 3, expect=None)
        self.assertLess(result.seconds, 30)
        self.assertRegex(result.text, r'rank 1\b')
        self.assertIn('run.log.rank1', result.text)


if __name__ == '__main__':
    support.main()
