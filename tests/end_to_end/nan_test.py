# SPDX-License-Identifier: Apache-2.0
"""A criterion that is not a number: the first bad node, the rank and the sample are named; the run stops, skips the update, or goes back."""
import examples
import support
from preemption_test import METHODS

NAN = 85
NETWORK = '''BrainScriptNetworkBuilder = [
        features = Input {2}
        labels   = Input {2}
        first = Slice (0, 1, features)
        square = first .* first
        h  = Sigmoid (DenseLayer {16} (features) + (square - square))
        z  = LinearLayer {2} (h)
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce)
        outputNodes    = (z)
    ]
'''
BAD = 131  # the line whose square overflows


class NanTest(support.TrainerTest):
    def prepare(self, options, bad=True, epochs=3):
        before, rest = examples.config(minibatch=40, epochs=epochs).split('SimpleNetworkBuilder', 1)
        self.write('run.cntk', before + NETWORK + rest.split(']', 1)[1])
        lines = examples.points(400).splitlines(keepends=True)
        if bad:
            lines[BAD - 1] = '|x 1e30 0.5 |y 1 0\n'
        self.write('train.ctf', ''.join(lines))
        return ['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[numMBsToShowResult=0;{options}]]']

    def test_stop(self):
        for ranks in (None, 1, 3):
            with self.subTest(ranks=ranks):
                result = self.run_trainer(self.prepare(''), ranks, expect=NAN)
                self.assertRegex(result.text, r"'\S*' is the first node with values that are not finite", str(result)[-3000:])
                self.assertRegex(result.text, rf'sample \d+ of the \d+ of this rank, train\.ctf:{BAD}\b', str(result)[-3000:])
                if ranks == 3:
                    self.assertRegex(result.text, r'(?m)^\[rank \d on \S+\] The training criterion is not a number')

    def test_divided_layers(self):
        """Ranks that compute layers together look for node and sample together, and skip the update together."""
        for ranks, dense in ((2, 'shard'), (3, 'shard'), (3, 'single')):
            with self.subTest(ranks=ranks, dense=dense):
                result = self.run_trainer(self.prepare(f'ModelParallel=[dense={dense}]'), ranks, expect=NAN)
                self.assertRegex(result.text, r"'square' is the first node with values that are not finite, on rank (\d); "
                                              rf'sample \d+ of the \d+ of rank \1, train\.ctf:{BAD}\b', str(result)[-3000:])
        for parallel, ranks in ((METHODS['gradients'][1], 3), (METHODS['groups'][1], 4)):
            with self.subTest(parallel=parallel):
                result = self.run_trainer(self.prepare(f'onNaN=skip;ModelParallel=[dense=shard];ParallelTrain=[{parallel}]'), ranks)
                self.assertRegex(result.text, rf'of rank \d, train\.ctf:{BAD} in epoch \d, minibatch \d+: the update is skipped', str(result)[-3000:])
                self.assertLess(support.epochs(result.text)[-1]['ce'][0], 1.0)

    def test_skip(self):
        for name in ('gradients', 'blocks', 'averaging', 'servers', 'delayed', 'groups'):
            ranks, parallel, _ = METHODS[name]
            with self.subTest(method=name):
                result = self.run_trainer(self.prepare(f'onNaN=skip;ParallelTrain=[{parallel}]'), ranks)
                self.assertRegex(result.text, rf'train\.ctf:{BAD} in epoch \d, minibatch \d+: the update is skipped', str(result)[-3000:])
                last = support.epochs(result.text)[-1]
                self.assertLess(last['ce'][0], 1.0)  # a number

    def test_skip_of_a_whole_epoch(self):
        """A run whose updates are all skipped learns nothing: it ends as one with onNaN = stop."""
        arguments = self.prepare('onNaN=skip')
        self.write('train.ctf', '|x 1e30 0.5 |y 1 0\n' * 80)
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                result = self.run_trainer(arguments, ranks, expect=NAN)
                self.assertIn("every update of epoch 1 of command 'Train' was skipped", result.text)
                self.assertFalse((self.directory / 'models/model.dnn').exists())

    def test_skip_with_running_statistics(self):
        text = examples.normalized(examples.config(minibatch=40, epochs=3)).replace('hidden (features)', 'hidden (features + (features .* features - features .* features))')
        self.prepare('')
        self.write('run.cntk', text)
        result = self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[onNaN=skip;numMBsToShowResult=0]]'])
        self.assertLess(support.epochs(result.text)[-1]['ce'][0], 1.0)
        self.write('test.ctf', examples.points(100))
        test = self.run_trainer(['configFile=run.cntk', 'command=Test', 'modelPath=models/model.dnn'])
        self.assertNotRegex(test.text, r'= -?nan')

    def test_skip_costs_nothing_without_nan(self):
        """Without NaN the result has the same bytes."""
        for name in ('gradients', 'averaging'):
            ranks, parallel, _ = METHODS[name]
            self.run_trainer(self.prepare(f'ParallelTrain=[{parallel}]', False), ranks)
            expected = (self.directory / 'models/model.dnn').read_bytes()
            self.run_trainer(self.prepare(f'onNaN=skip;ParallelTrain=[{parallel}]', False), ranks)
            self.assertTrue((self.directory / 'models/model.dnn').read_bytes() == expected, name)

    def test_rewind(self):
        """A rate that is too high: the run goes back to its last checkpoint with a lower one."""
        for name in ('gradients', 'averaging', 'elastic', 'delayed'):
            ranks, parallel, _ = METHODS[name]
            with self.subTest(method=name):
                # No checkpoint within an epoch is made of weights that are not numbers.
                arguments = self.prepare(f'checkpointEverySamples=80;onNaN=rewind;nanRateFactor=1e-38;minLearningRatePerSample=0;ParallelTrain=[{parallel}]', False, 4)
                arguments[1] = 'makeMode=true'
                text = (self.directory / 'run.cntk').read_text(encoding='utf-8')
                self.write('run.cntk', text.replace('Sigmoid (DenseLayer', '(LinearLayer'))  # whose values have no bound
                support.shutil.rmtree(self.directory / 'models', ignore_errors=True)
                # The rate of the third epoch makes NaN of everything.
                result = self.run_trainer([*arguments, 'Train=[SGD=[learningRatesPerMB=0.5:0.5:1e38:0.5]]'], ranks)
                self.assertRegex(result.text, r"Warning: rewind 1 of at most 3: training goes on from 'models/model\.dnn\.\d[.mid]*' with 1e-38 times the learning rate")
                last = support.epochs(result.text)[-1]
                self.assertEqual((last['epoch'], last['totalSamplesSeen']), (4, 1600))
                # Gradients that come late may have spoilt the weights of a checkpoint before the criterion shows it.
                self.assertLessEqual(result.text.count('Warning: rewind'), 2 if name == 'delayed' else 1)

    def test_the_rate_is_lowered_once(self):
        """AutoAdjust goes on from the rate of the list, and the factor of the rewind counts once in every epoch."""
        arguments = self.prepare('onNaN=rewind;nanRateFactor=1e-38;minLearningRatePerSample=0;AutoAdjust=[autoAdjustLR=adjustAfterEpoch;loadBestModel=false;reduceLearnRateIfImproveLessThan=-1e9;'
                                 'increaseLearnRateIfImproveMoreThan=1e9]', False, 6)
        arguments[1] = 'makeMode=true'
        text = (self.directory / 'run.cntk').read_text(encoding='utf-8')
        self.write('run.cntk', text.replace('Sigmoid (DenseLayer', '(LinearLayer'))
        result = self.run_trainer([*arguments, 'Train=[SGD=[learningRatesPerMB=0.1:1e38:1e10]]'])
        rates = {row['epoch']: row['learningRatePerSample'] for row in support.epochs(result.text)}
        self.assertIn('Warning: rewind', result.text)
        self.assertGreater(rates[3], 0)
        self.assertEqual(rates[4], rates[3])
        self.assertEqual(rates[6], rates[3])

    def test_rewinds_end(self):
        result = self.run_trainer(['configFile=run.cntk', *self.prepare('onNaN=rewind;maxRewinds=2')[2:]], 2, expect=NAN)
        self.assertIn('not a number (NAN) after 2 rewinds', result.text)
        self.assertEqual(result.text.count('Warning: rewind'), 2)

    def test_mistakes(self):
        for options, expected in (('onNaN=ignore', 'ignore'), ('nanRateFactor=2', 'must lie above 0, up to 1'), ('maxRewinds=0', 'must be at least 1')):
            result = self.run_trainer([*self.prepare(options), '--check'], expect=2)
            self.assertIn(expected, result.text)
            self.assertIn('fix: ', result.text)


if __name__ == '__main__':
    support.main()
