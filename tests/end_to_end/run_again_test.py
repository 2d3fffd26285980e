# SPDX-License-Identifier: Apache-2.0
"""A run that is started once more: with more epochs, with its log, and while the first still runs."""
import os
import re
import time

import examples
import support


class RunAgainTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(bits=1))
        self.write('train.ctf', examples.points(200))

    def train(self, *options, ranks=None, expect=0):
        return self.run_trainer(['configFile=run.cntk', *options], ranks, expect)

    def files(self, folder):
        return {p.name: p.read_bytes() for p in (self.directory / folder).iterdir() if not p.name.endswith('.config')}  # settings differ

    # --- more epochs after the end
    def longer_equals_whole(self, name, *options, ranks=None):
        self.train('Train=[SGD=[maxEpochs=5]]', f'modelPath=whole-{name}/m', *options, ranks=ranks)
        self.train(f'modelPath=parts-{name}/m', *options, ranks=ranks)
        text = self.train('Train=[SGD=[maxEpochs=5]]', f'modelPath=parts-{name}/m', *options, ranks=ranks).text
        self.assertIn(f"The final model 'parts-{name}/m' has 2 epochs and maxEpochs is now 5: training continues from it.", text)
        self.assertEqual([e['epoch'] for e in support.epochs(text)], [3, 4, 5])
        whole, parts = self.files(f'whole-{name}'), self.files(f'parts-{name}')
        self.assertEqual(sorted(whole), sorted(parts))
        for file, content in whole.items():
            self.assertEqual(parts[file] == content, True, f'{file} differs')

    def test_more_epochs_equal_as_many_at_once(self):
        self.longer_equals_whole('one')
        self.longer_equals_whole('two', ranks=2)

    def test_more_epochs_of_methods_with_state(self):
        for name, settings in (('blocks', 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=70;resetSGDMomentum=false]'),
                               ('elastic', 'parallelizationMethod=EASGD;EASGD=[period=3]')):
            with self.subTest(name=name):
                self.longer_equals_whole(name, f'Train=[SGD=[ParallelTrain=[{settings}]]]', 'Train=[SGD=[keepCheckPointFiles=true]]', ranks=2)

    def test_more_epochs_of_another_size(self):
        text = self.train().text
        for options, warned in (([], False), (['Train=[SGD=[epochSize=150]]'], True), (['Train=[SGD=[epochSize=150]]'], False)):
            epochs = support.epochs(text)[-1]['epoch']
            text = self.train(*options, f'Train=[SGD=[maxEpochs={epochs + 1}]]').text
            found = re.findall(r'(?m)^Warning: the checkpoint was written with (\d+) samples per epoch, this run has (\d+): ', text)
            self.assertEqual(found, [('200', '150')] if warned else [])

    def test_longer_run_that_is_interrupted(self):
        self.train('Train=[SGD=[maxEpochs=5]]', 'modelPath=whole/m', ranks=2)
        self.train(ranks=2)
        models = self.directory / 'models'
        more = ['configFile=run.cntk', 'Train=[SGD=[maxEpochs=5]]']
        run = self.start_trainer([*more, 'Train=[SGD=[ParallelTrain=[faultHook=[rank=0;sleep=0.01]]]]'], 2)
        while run.running() and not (models / 'model.dnn.3').exists():
            time.sleep(0.005)
        run.kill_all()
        run.wait()
        self.train('Train=[SGD=[maxEpochs=5]]', ranks=2)
        self.assertEqual((models / 'model.dnn').read_bytes() == (self.directory / 'whole/m').read_bytes(), True)

    def test_a_clock_that_was_set_back(self):
        """The final model of the run before is newer than all that the run from scratch writes."""
        self.train('Train=[SGD=[maxEpochs=4]]', ranks=2)
        models, tomorrow = self.directory / 'models', time.time() + 86400
        for file in models.iterdir():
            os.utime(file, (tomorrow, tomorrow))
        before = (models / 'model.dnn').read_bytes()
        changed = 'Train=[SGD=[maxEpochs=4;learningRatesPerMB=0.001]]'
        self.train('makeMode=false', changed, 'Train=[SGD=[ParallelTrain=[faultHook=[rank=1;exit=true;firstStep=30]]]]', ranks=2, expect=None)
        self.assertEqual((models / 'model.dnn').read_bytes() == before, True)
        text = self.train(changed, ranks=2).text
        self.assertIn('Starting from checkpoint.', text)
        self.assertEqual(support.epochs(text)[-1]['epoch'], 4)
        self.assertEqual((models / 'model.dnn').read_bytes() == before, False)

    def test_a_finished_run_says_how_to_go_on(self):
        self.train()
        for options, words in (([], 'To continue training from this model, raise maxEpochs above 2.'),
                               (['Train=[SGD=[maxEpochs=1]]'], 'To continue training from this model, raise maxEpochs above 2.')):
            text = self.train(*options).text
            self.assertIn('No further training is necessary.', text)
            self.assertIn(words, text)
            self.assertIn('makeMode = false starts from scratch.', text)
        (self.directory / 'models/model.dnn.ckp').unlink()
        text = self.train('Train=[SGD=[maxEpochs=3]]').text
        self.assertIn("To continue training: 'models/model.dnn.ckp' is missing", text)

    def test_settings_are_kept_of_every_training_that_has_something_to_do(self):
        for epochs, kept in ((2, 2), (3, 3), (1, 3)):
            self.train(f'Train=[SGD=[maxEpochs={epochs}]]')
            self.assertRegex((self.directory / 'models/model.dnn.config').read_text(), rf'(?m)^ *maxEpochs = {kept}$')

    # --- the log
    def log(self, name='run.log'):
        return (self.directory / name).read_text()

    def test_a_resumed_run_appends_to_its_log(self):
        options = ['stderr=run.log', 'Train=[SGD=[ParallelTrain=[faultHook=[rank=0;sleep=0.01]]]]']
        run = self.start_trainer(['configFile=run.cntk', *options, 'Train=[SGD=[maxEpochs=3]]'], 2)
        while run.running() and not (self.directory / 'models/model.dnn.1').exists():
            time.sleep(0.005)
        run.kill_all()
        run.wait()
        before, other = self.log(), self.log('run.log.rank1')
        self.assertIn('Finished Epoch[ 1 of 3]', before)
        text = self.train(*options, 'Train=[SGD=[maxEpochs=3]]', ranks=2).text
        self.assertIn('Redirecting stderr to file run.log (appending)', text)
        self.assertTrue(self.log().startswith(before))
        self.assertTrue(self.log('run.log.rank1').startswith(other))
        self.assertRegex(self.log(), r'(?m)^Log continued at \d{4}/\d\d/\d\d \d\d:\d\d:\d\d; the lines above are from earlier runs\.$')
        self.assertEqual({e['epoch'] for e in support.epochs(self.log())}, {1, 2, 3})

    def test_other_runs_begin_a_new_log(self):
        self.train('stderr=run.log')
        self.train('stderr=run.log', 'makeMode=false')
        self.assertEqual(len(support.epochs(self.log())), 2)
        self.train('stderr=run.log', 'makeMode=false', 'appendLogFile=true')
        self.assertEqual(len(support.epochs(self.log())), 4)
        self.train('stderr=run.log')  # there is a final model: nothing is trained, and nothing lost
        self.assertEqual(len(support.epochs(self.log())), 4)

    def test_a_run_that_only_reads_the_model_appends(self):
        self.write('test.ctf', examples.points(30, seed=2))
        self.train('stderr=run.log', 'command=Train:Test')
        before = self.log()
        self.train('stderr=run.log', 'command=Test')
        self.assertTrue(self.log().startswith(before))
        self.assertEqual(self.log().count('Final Results'), 2)
        self.train('stderr=run.log', 'command=Test', 'makeMode=false')  # which is about trainings
        self.assertTrue(self.log().startswith(before))
        self.assertEqual(self.log().count('Final Results'), 3)

    # --- two runs on one model
    def endless(self, ranks=None):
        run = self.start_trainer(['configFile=run.cntk', 'stderr=first.log', 'Train=[SGD=[maxEpochs=1000000;numMBsToShowResult=0]]'], ranks)
        while run.running() and not (self.directory / 'models/model.dnn.1').exists():
            time.sleep(0.005)
        return run

    def test_the_second_run_on_a_model_is_refused(self):
        first = self.endless()
        log = self.log('first.log')
        text = self.train('stderr=first.log', expect=2).text
        self.assertRegex(text, rf"another run works on the model 'models/model.dnn': process {first.process.pid} on \S+, started \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d")
        self.assertIn('choose another modelPath', text)
        self.assertTrue(self.log('first.log').startswith(log), 'the log of the first is not touched')
        self.train('modelPath=other/m', '--check')
        self.run_trainer(['--check', 'configFile=run.cntk'])
        self.train('modelPath=other/m')
        self.assertTrue(first.running())
        first.kill_all()
        first.wait()
        self.assertTrue((self.directory / 'models/model.dnn.lock').exists(), 'a killed run leaves the file')
        self.train('makeMode=false')
        self.assertFalse((self.directory / 'models/model.dnn.lock').exists())

    def test_a_killed_run_of_several_ranks_holds_nobody_up(self):
        run = self.endless(ranks=2)
        run.kill_rank(1)
        run.wait()
        self.train('makeMode=false', ranks=2)


if __name__ == '__main__':
    support.main()
