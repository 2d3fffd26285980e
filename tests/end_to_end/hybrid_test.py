# SPDX-License-Identifier: Apache-2.0
"""Layers divided among ranks, as a user starts them: the same losses as one rank, the bytes of the table, clear refusals."""
import re
import unittest

import support

CONFIG = '''
command = Train
parallelTrain = true
traceLevel = 1
modelPath = "models/net.dnn"
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        features = Input {64}
        labels   = Input {40}
        model    = Sequential (DenseLayer {512, activation = ReLU} : Dropout : DenseLayer {256, activation = ReLU} : LinearLayer {40})
        z        = model (features)
        ce       = CrossEntropyWithSoftmax (labels, z)
        errs     = ClassificationError (labels, z)
        featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (ce) ; evaluationNodes = (errs) ; outputNodes = (z)
    ]
    SGD = [
        maxEpochs = 2 ; epochSize = 0 ; minibatchSize = 64 ; learningRatesPerMB = 0.2 ; momentumPerMB = 0.9 ; dropoutRate = 0.3
        numMBsToShowResult = 1
        ParallelTrain = [ parallelizationMethod = DataParallelSGD ; DataParallelSGD = [ gradientBits = 32 ] ]
    ]
    reader = [ readerType = SyntheticReader ; kind = random ; samples = 640 ; input = [ features = [ shape = 64 ] ; labels = [ labelDim = 40 ] ] ]
]
'''


class HybridTest(support.TrainerTest):
    config = CONFIG

    def train(self, ranks, sgd='', *options, expect=0):
        self.write('run.cntk', self.config)
        return self.run_trainer(['configFile=run.cntk', f'Train=[SGD=[{sgd}]]', *options], ranks, expect=expect).text

    @staticmethod
    def losses(text):
        return [float(v) for v in re.findall(r'ce = ([\d.]+) \* (?:64|128);', text)]

    def assert_close(self, one, more):
        self.assertEqual(len(one), len(more))
        for a, b in zip(one, more):
            self.assertLess(abs(a - b), 1e-5 * a)

    def losses_of_each(self, ranks, settings):
        """Of one start that trains with each of these settings of SGD. Those in one place of two lists begin with the same weights."""
        said, _ = self.train_each(self.config, [f'SGD=[{sgd}]' for sgd in settings], ranks)
        return [self.losses(text) for text in said]

    def test_losses_are_those_of_one_rank(self):
        placements = ('ModelParallel=[dense=shard]', 'ModelParallel=[dense=single]', 'ModelParallel=[dense=auto]', 'shardOptimizer=true')
        whole = self.losses_of_each(1, ['useNAG=false'] * len(placements))
        for ranks in (2, 3):
            for settings, one, more in zip(placements, whole, self.losses_of_each(ranks, placements)):
                with self.subTest(ranks=ranks, settings=settings):
                    self.assertEqual(len(one), 20)
                    self.assert_close(one, more)

    def test_goes_on_under_another_placement(self):
        one = self.losses(self.train(1, '', 'makeMode=false'))
        first = self.losses(self.train(3, 'maxEpochs=1;ModelParallel=[dense=shard]', 'makeMode=false'))
        text = self.train(2, 'ModelParallel=[dense=single];shardOptimizer=true')
        self.assertNotIn('without the local state', text)  # 32 bits leave no residuals
        self.assert_close(one, first + self.losses(text))

    def test_goes_on_without_the_block(self):
        """In 32 bits nothing is lost with it, nor with all ranks but one."""
        for before, after in (((2, 'ModelParallel=[dense=shard]'), (2, '')), ((2, ''), (2, 'ModelParallel=[dense=shard]')), ((2, 'ModelParallel=[dense=single]'), (1, ''))):
            with self.subTest(before=before, after=after):
                self.train(before[0], f'maxEpochs=1;{before[1]}', 'makeMode=false')
                self.assertNotIn('without the local state', self.train(*after))

    def test_residuals_belong_to_a_placement(self):
        one_bit = 'ParallelTrain=[DataParallelSGD=[gradientBits=1]]'
        lost = 'the exchange starts without the local state of each rank'
        for ranks, before, after in ((2, '[dense=replicate;layers=[3=shard]]', '[dense=shard]'), (3, '[dense=replicate;layers=[1=shard]]', '[dense=replicate;layers=[3=shard]]')):
            with self.subTest(before=before, after=after):
                self.train(ranks, f'{one_bit};maxEpochs=1;ModelParallel={before}', 'makeMode=false')
                self.assertNotIn(lost, self.train(ranks, f'{one_bit};maxEpochs=2;ModelParallel={before}'))
                self.assertIn(lost, self.train(ranks, f'{one_bit};maxEpochs=3;ModelParallel={after}'))

    def test_a_weight_that_is_a_result(self):
        """It stays whole on every rank."""
        self.config = CONFIG.replace('LinearLayer {40})', 'LinearLayer {40})\n        W = ParameterTensor {40:40} ; sum = ReduceSum (W)') \
            .replace('z        = model (features)', 'z        = W * model (features)').replace('(errs)', '(errs : W)')
        one = self.train(2, '', 'makeMode=false')
        for placement in ('shard', 'single'):
            more = self.train(2, f'ModelParallel=[dense={placement}]', 'makeMode=false')
            self.assert_close(self.losses(one), self.losses(more))
            values = [[float(v) for v in re.findall(r' W = ([\d.e+-]+)', text)] for text in (one, more)]
            self.assertGreater(len(values[0]), 0)
            for a, b in zip(*values):
                self.assertAlmostEqual(a, b, places=3)

    def test_minibatches_in_parts(self):
        """Ranks whose shares differ have as many parts; the numbers stay."""
        parts = ('numSubminibatches=3', 'maxSamplesInRAM=9', 'gradientAccumulationSteps=2', 'gradientAccumulationSteps=2;numSubminibatches=2')
        whole = self.losses_of_each(1, parts)
        for ranks, divided in ((2, 'ModelParallel=[dense=shard]'), (3, 'ModelParallel=[dense=single]'), (3, 'ModelParallel=[dense=shard]')):
            for settings, one, more in zip(parts, whole, self.losses_of_each(ranks, [f'{part};{divided}' for part in parts])):
                with self.subTest(parts=settings, ranks=ranks, divided=divided):
                    self.assertGreater(len(one), 0)
                    self.assert_close(one, more)

    def test_statistics_before_minibatches_in_parts(self):
        """Rank 0 alone computes the statistics of the data."""
        self.config = CONFIG.replace('model (features)', 'model ((features - Mean (features)) .* InvStdDev (features))')
        one = self.losses(self.train(1, 'numSubminibatches=2', 'makeMode=false'))
        self.assertEqual(len(one), 20)
        self.assert_close(one, self.losses(self.train(2, 'numSubminibatches=2;ModelParallel=[dense=shard]', 'makeMode=false')))

    def test_statistics_of_a_loaded_model(self):
        self.config = CONFIG.replace('model (features)', 'model (PerDimMeanVarDeNormalization (LinearLayer {64} (features), Mean (features), InvStdDev (features)))')
        self.train(1, '', 'makeMode=false')
        loaded = 'Train=[modelPath="loaded/net.dnn";BrainScriptNetworkBuilder=(BS.Network.Load("models/net.dnn"))]'
        one = self.losses(self.train(1, '', 'makeMode=false', loaded))
        self.assertEqual(len(one), 20)
        self.assert_close(one, self.losses(self.train(2, 'ModelParallel=[dense=shard]', 'makeMode=false', loaded)))

    def test_running_statistics_of_groups(self):
        """The validation uses the ones of the model: the mean over the groups."""
        self.config = CONFIG.replace('DenseLayer {512, activation = ReLU}', 'DenseLayer {512} : BatchNormalizationLayer {} : ReLU')
        reader = self.config[self.config.index('    reader = ['):].strip()[:-1]
        self.config = self.config.replace('    reader = [', '    cvReader' + reader[6:] + '\n    reader = [') + f'Test = [ action = "test" ; minibatchSize = 64 ; {reader} ]\n'
        groups = 'ParallelTrain=[parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=64];groups=size:2]'
        text = self.train(4, f'ModelParallel=[dense=shard];{groups}', 'makeMode=false', 'command=Train:Test')
        validation, test = [float(re.search(rf'{line}.* ce = ([\d.]+)', text).group(1)) for line in (r'Epoch\[ 2 of 2\]: \[Validate\]', 'Final Results:')]
        self.assert_close([validation], [test])

    def test_warm_start(self):
        """Before the place where 1-bit gradients or block momentum begin, ranks that divide layers or the optimizer sum in 32 bits."""
        starts = (('parallelizationStartEpoch=2', 10), ('parallelizationStartEpoch=2;parallelizationStartSample=320', 15), ('parallelizationStartEpoch=3', 20))
        whole = self.losses_of_each(1, ['useNAG=false'] * len(starts))
        one_bit = 'DataParallelSGD=[gradientBits=1]'
        momentum = 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=64];groups=size:2'
        for ranks, divided, method in ((2, 'ModelParallel=[dense=replicate;layers=[1=shard]]', one_bit), (3, 'ModelParallel=[dense=replicate;layers=[1=single]]', one_bit),
                                       (3, 'shardOptimizer=true', one_bit), (4, 'ModelParallel=[dense=shard]', momentum)):
            found = self.losses_of_each(ranks, [f'{divided};ParallelTrain=[{method};{start}]' for start, _ in starts])
            for (start, in_32_bits), one, losses in zip(starts, whole, found):
                with self.subTest(ranks=ranks, divided=divided, method=method, start=start):
                    self.assertEqual(len(one), 20)
                    self.assert_close(one[:in_32_bits], losses[:in_32_bits])
                    if in_32_bits < 20:
                        self.assertNotEqual([f'{v:.4f}' for v in one], [f'{v:.4f}' for v in losses], 'the method begins')
            with self.subTest(ranks=ranks, divided=divided, method=method):
                settings = f'{divided};ParallelTrain=[{method};{starts[1][0]}]'
                undisturbed = self.losses(self.train(ranks, f'{settings};maxEpochs=3', 'makeMode=false'))
                resumed = self.losses(self.train(ranks, f'{settings};maxEpochs=1', 'makeMode=false'))
                for epochs in (2, 3):  # stopped before the method begins, and after
                    resumed += self.losses(self.train(ranks, f'{settings};maxEpochs={epochs}'))
                self.assertEqual(undisturbed, resumed, 'a resumed run')

    def test_sends_what_the_table_says(self):
        for dense in ('shard', 'replicate'):
            with self.subTest(dense):
                text = self.train(4, f'ModelParallel=[dense={dense}]', 'makeMode=false')
                said = float(re.search(r'all dense layers +([\d.]+)', text).group(1)) * 1e6
                counted = re.search(r'Exchange of Epoch\[ 2 of 2\]: ([\d.]+) (\w)B sent', text)
                per_step = float(counted.group(1)) * {'k': 1e3, 'M': 1e6}[counted.group(2)] / 10
                biases = 8 * (512 + 256 + 40) * 3 / 4 if dense == 'replicate' else 8 * 256 * 3 / 4
                self.assertLess(abs(per_step - said - biases), 0.03 * said, text)

    def test_check_shows_placements_and_conversions(self):
        text = self.train(2, 'ModelParallel=[dense=shard]', '--check')
        self.assertRegex(text, r'conversions between ranks: .*AllGather.*ReduceScatter')
        self.assertRegex(text, r'64 x 512 +shard')
        text = self.train(2, 'ModelParallel=[layers=[1=shard]]', '--check')
        self.assertRegex(text, r'(?s)64 x 512 +shard.*512 x 256 +replicate.*256 x 40 +replicate')

    def test_mistakes_have_a_place(self):
        for settings, words in (('ModelParallel=[layers=[fc9=shard]]', "has no dense layer 'fc9'"),
                                ('ModelParallel=[dense=halve]', "dense cannot be 'halve'"),
                                ('ModelParallel=[dense=shard];ParallelTrain=[parallelizationMethod=DataParallelASGD]', 'needs ranks that make every step'),
                                ('ModelParallel=[dense=shard];gaussianNoiseInjectStd=0.1', 'gaussianNoiseInjectStd does not work with ModelParallel'),
                                ('shardOptimizer=true;gaussianNoiseInjectStd=0.1', 'would draw other noise'),
                                ('ModelParallel=[dense=single];ParallelTrain=[DataParallelSGD=[useBufferedAsyncGradientAggregation=true]]',
                                 'does not go with gradients that come one minibatch late'),
                                ('shardOptimizer=true;clippingGlobalNormPerSample=1', 'this optimizer needs the gradients of all parameters')):
            with self.subTest(words):
                text = self.train(2, settings, '--check', expect=2)
                self.assertIn(words, text)
                self.assertRegex(text, r':\d+:\d+: error')
                self.assertIn('fix:', text)
        groups = 'ParallelTrain=[groups="size:2";insideGroups=[parallelizationMethod=DataParallelSGD]];ModelParallel=[dense=shard]'
        self.assertIn('ModelParallel needs groups of one size', self.train(3, groups, '--check', expect=2))
        self.assertIn("has no dense layer 'fc9'", self.train(None, 'ModelParallel=[layers=[fc9=shard]]', '--check', expect=2))
        # Without mpiexec, too.
        text = self.train(None, 'ModelParallel=[dense=shard];ParallelTrain=[parallelizationMethod=DataParallelASGD]', 'parallelTrain=false', '--check', expect=2)
        self.assertIn('needs ranks that make every step', text)

    def test_one_rank_keeps_the_whole_optimizer(self):
        for parallel in ('true', 'false'):
            text = self.train(None, 'shardOptimizer=true', f'parallelTrain={parallel}', '--check')
            self.assertIn('shardOptimizer has no effect: the only rank keeps the whole state', text)
        self.assertIn('shardOptimizer needs ranks that make', self.train(2, 'shardOptimizer=true', 'parallelTrain=false', '--check', expect=2))


if __name__ == '__main__':
    unittest.main()
