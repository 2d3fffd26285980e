# SPDX-License-Identifier: Apache-2.0
"""keepBest keeps the best model of a training, patience ends one that does not get better: with a reason, alike on all ranks, and after a
kill as without one."""
import re

import examples
import support


class BestModelTest(support.TrainerTest):
    EPOCHS = 12

    def prepare(self, name, rates='0.5'):
        folder = self.directory / name
        folder.mkdir()
        config = examples.config(hidden='32', epochs=self.EPOCHS, minibatch=20, bits=1).replace('learningRatesPerMB = 0.5', f'learningRatesPerMB = {rates}')
        (folder / 'run.cntk').write_text(config, encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(400), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', 'Train=[SGD=[numMBsToShowResult=0]]'], folder / 'models'

    def averages(self, text):
        return [e['CrossEntropyWithSoftmax'][0] for e in support.epochs(text)]

    def test_the_best_model_is_that_of_its_epoch(self):
        """Of a training that gets worse at the end: rates that are much too large."""
        rates = '0.5*4:500*8'
        arguments, models = self.prepare('run', rates)
        text = self.run_trainer(arguments + ['Train=[SGD=[keepBest=true]]'], 2).text
        averages = self.averages(text)
        best = averages.index(min(averages)) + 1
        self.assertLess(best, self.EPOCHS)
        self.assertTrue((models / 'model.dnn.best').read_bytes() == (models / f'model.dnn.{best}').read_bytes())
        self.assertFalse((models / 'model.dnn.best').read_bytes() == (models / 'model.dnn').read_bytes())
        self.assertRegex(text, rf"(?m)^Best model: epoch {best}, CrossEntropyWithSoftmax = [\d.]+( \([\d.]+ in epoch \d+ before\))?; saved as '.*model.dnn.best'$")
        self.assertRegex(text, rf'(?m)^Best:   {models}/model.dnn.best, of epoch {best}$')
        # Any action reads it.
        self.write('run/test.ctf', examples.points(100, seed=2))
        self.run_trainer(arguments + ['command=Test', 'Test=[modelPath=models/model.dnn.best]'], 2)

    def test_the_best_model_of_an_epoch_that_is_undone(self):
        """AutoAdjust goes back over two epochs, of which dropout spoils the first, and the second is the best one so far."""
        arguments, models = self.prepare('run', '0.5')
        text = (self.directory / 'run/run.cntk').read_text(encoding='utf-8')
        before, rest = text.split('SimpleNetworkBuilder', 1)
        network = """BrainScriptNetworkBuilder = {
            features = Input {2}; labels = Input {2}
            z = LinearLayer {2} (Dropout (Sigmoid (DenseLayer {16} (features))))
            ce = CrossEntropyWithSoftmax (labels, z)
            criterionNodes = (ce); outputNodes = (z)
        }"""
        (self.directory / 'run/run.cntk').write_text(before + network + rest.split(']', 1)[1], encoding='utf-8')
        options = ['Train=[SGD=[keepBest=true;maxEpochs=4;dropoutRate=0:0:0.8:0;learningRatesPerMB=0.3;AutoAdjust=[autoAdjustLR=adjustAfterEpoch;'
                   'learnRateAdjustInterval=2]]]']
        text = self.run_trainer(arguments + options, 2).text
        self.assertIn('rolling back', text)
        self.assertRegex(text, "Best model: epoch 4, .*; saved as '.*model.dnn.best'")
        # The weights of epoch 4 lie between those of epoch 2 and those that were trained again.
        best = (models / 'model.dnn.best').read_bytes()
        for other in ('model.dnn.1', 'model.dnn.2', 'model.dnn.3', 'model.dnn'):
            if (models / other).exists():
                self.assertFalse((models / other).read_bytes() == best, other)

    def test_patience(self):
        arguments, models = self.prepare('run', '0.5*4:500*8')
        text = self.run_trainer(arguments + ['Train=[SGD=[patience=2]]'], 3).text
        averages = self.averages(text)
        self.assertLess(len(averages), self.EPOCHS)
        best = averages.index(min(averages)) + 1
        self.assertEqual(len(averages), best + 2)
        self.assertRegex(text, rf'(?m)^Training ends after epoch {best + 2} of {self.EPOCHS}: no improvement in 2 epochs')
        worse = sum(a >= min(averages[:i]) for i, a in enumerate(averages) if i > 0)
        self.assertEqual(len(re.findall(r'is not better than', text)), worse)
        self.assertIn('; 2 epochs without improvement (patience = 2)', text)
        self.assertTrue((models / 'model.dnn').exists())
        self.assertFalse((models / 'model.dnn.best').exists())
        # The training is over; started again, it says so. With more epochs, it goes on after the last one that it had.
        for epochs in (self.EPOCHS, self.EPOCHS - 1, best + 1):
            text = self.run_trainer(arguments + [f'Train=[SGD=[patience=2;maxEpochs={epochs}]]'], 3).text
            self.assertIn(f'Its training ended early, after {best + 2} of {self.EPOCHS} epochs.', text)
            self.assertIn('No further training is necessary', text)
            self.assertIn(f'raise maxEpochs above {self.EPOCHS}.', text)
        text = self.run_trainer(arguments + [f'Train=[SGD=[patience=2;maxEpochs={self.EPOCHS + 1}]]'], 3).text
        self.assertIn(f'has {best + 2} epochs and maxEpochs is now {self.EPOCHS + 1}', text)
        self.assertEqual(support.epochs(text)[0]['epoch'], best + 3)

    def test_a_rate_below_the_least_ends_the_training_with_a_model(self):
        arguments, models = self.prepare('run', '0.5*2:1e-6')
        least = ['Train=[SGD=[minLearningRatePerSample=1e-6]]']
        text = self.run_trainer(arguments + least).text
        self.assertIn('is less than minLearningRatePerSample', text)
        self.assertEqual(len(support.epochs(text)), 2)
        self.assertTrue((models / 'model.dnn').read_bytes() == (models / 'model.dnn.2').read_bytes())
        self.assertIn(f'after 2 of {self.EPOCHS} epochs', self.run_trainer(arguments + least).text)
        text = self.run_trainer(arguments + [f'Train=[SGD=[maxEpochs={self.EPOCHS + 1}]]']).text
        self.assertEqual([e['epoch'] for e in support.epochs(text)], list(range(3, self.EPOCHS + 2)))
        # Before the first epoch, too.
        arguments, models = self.prepare('at-once', '1e-6')
        self.run_trainer(arguments + least)
        self.assertTrue((models / 'model.dnn').read_bytes() == (models / 'model.dnn.0').read_bytes())
        self.assertIn(f'after 0 of {self.EPOCHS} epochs', self.run_trainer(arguments + least).text)
        text = self.run_trainer(arguments + [f'Train=[SGD=[maxEpochs={self.EPOCHS + 1}]]']).text
        self.assertEqual(support.epochs(text)[0]['epoch'], 1)

    def test_on_validation_data(self):
        arguments, _ = self.prepare('run')
        reader = 'cvReader=[readerType=CNTKTextFormatReader;file=train.ctf;input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]'
        text = self.run_trainer(arguments + [f'Train=[{reader};SGD=[keepBest=true]]'], 2).text
        self.assertRegex(text, r'(?m)^Best model: epoch 1, CrossEntropyWithSoftmax on the validation data = [\d.]+; saved as ')

    def test_a_killed_run_decides_as_an_undisturbed_one(self):
        options = ['Train=[SGD=[keepBest=true;patience=3;checkpointEverySamples=100]]']
        arguments, models = self.prepare('whole', '0.5*3:500*9')
        expected = self.run_trainer(arguments + options, 2).text
        arguments, again = self.prepare('killed', '0.5*3:500*9')
        slow = arguments + options + ['Train=[SGD=[ParallelTrain=[faultHook=[rank=1;sleep=0.003]]]]']
        text, kills = '', 0
        for epoch in (2, 4, 5):
            run = self.start_trainer(slow, 2)
            while run.running() and not (again / f'model.dnn.{epoch}').exists():
                support.time.sleep(0.002)
            kills += run.running()
            run.kill_all()
            text += run.wait().text
        text += self.run_trainer(arguments + options, 2).text
        self.assertGreater(kills, 0)
        self.assertEqual({p.name for p in models.iterdir()}, {p.name for p in again.iterdir()})
        for name in ('model.dnn', 'model.dnn.best'):
            self.assertTrue((models / name).read_bytes() == (again / name).read_bytes(), name)
        decisions = r'(?m)^(?:Best model|Training ends).*$'
        # An epoch that was repeated has its line twice.
        said = {re.sub(r"'.*'", '', line) for line in re.findall(decisions, text)}
        self.assertEqual(said, {re.sub(r"'.*'", '', line) for line in re.findall(decisions, expected)})


if __name__ == '__main__':
    support.main()
