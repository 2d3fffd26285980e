# SPDX-License-Identifier: Apache-2.0
"""What methods that exchange weights say before and in a run, and that their saved model is what was learned."""
import pathlib

import examples
import support


class MethodsTest(support.TrainerTest):
    def train(self, ranks, parallel, *options, samples=50, expect=0):
        self.write('train.ctf', examples.points(samples))
        self.write('run.cntk', examples.config(minibatch=12, epochs=2, bits=32))
        return self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[ParallelTrain=[{parallel}]]]', *options], ranks, expect=expect).text

    def test_easgd_saves_what_was_learned_though_its_period_is_long(self):
        for policy in ('sync', 'async'):
            for ranks in (1, 2):
                with self.subTest(policy=policy, ranks=ranks):
                    settings = f'parallelizationMethod=EASGD;EASGD=[period=1000;policy={policy}]'
                    text = self.train(ranks, settings)
                    self.assertIn('EASGD: this training has only 2 exchanges (5 minibatches per epoch, period = 1000)', text)
                    learned = pathlib.Path(self.directory / 'models/model.dnn').read_bytes()
                    # Ranks that are not pulled to a center leave it where it was.
                    self.train(ranks, settings.replace('period', 'movingRate=0;period'))
                    self.assertNotEqual(learned, pathlib.Path(self.directory / 'models/model.dnn').read_bytes())

    def test_easgd_tells_how_long_exchanges_took(self):
        for policy in ('sync', 'async'):
            with self.subTest(policy=policy):
                settings = f'parallelizationMethod=EASGD;EASGD=[period=1;policy={policy}]'
                self.assertNotIn('model aggregation stats', self.train(2, settings))
                text = self.train(2, 'syncPerfStats=5;' + settings)
                self.assertIn('5-th sync point was hit, introducing a', text)
                self.assertIn('5-th sync: totalThroughput = ', text)
                self.assertNotIn('this training has', text)

    def test_asa_tells_how_long_exchanges_took(self):
        for settings, words in (('exchange=weights', '5-th sync point was hit'), ('allReduce=library', 'Actual gradient aggregation time: '),
                                ('exchangeBits=16', 'Actual gradient aggregation time: ')):
            with self.subTest(settings=settings):
                settings = f'parallelizationMethod=ASA;ASA=[{settings}]'
                self.assertNotIn(words, self.train(2, settings))
                self.assertIn(words, self.train(2, 'syncPerfStats=5;' + settings))

    def test_fragments_are_as_many_as_there_are(self):
        blocks = 'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=24;fragments=%d]'
        text = self.train(2, blocks % 1000)
        self.assertRegex(text, r'fragments = 1000, but the weights of this network travel in (\d+) at most: \1 (is|are) used. fix: fragments = \1')
        self.assertNotIn('in 1000 fragments:', text)
        self.assertNotIn('of this network travel in', self.train(2, blocks % 2))

    def test_momentum_that_fragments_keep_is_said(self):
        blocks = 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=24;fragments=2%s]'
        self.assertIn('with fragments or overlap the momentum of SGD is kept', self.train(2, blocks % ''))
        self.assertNotIn('the momentum of SGD is kept', self.train(2, blocks % ';resetSGDMomentum=false'))

    def test_short_blocks_with_overlap_are_advised_against(self):
        blocks = 'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=24;overlap=%d]'
        self.assertIn('fix: set blockSize = 240 or more (20 minibatches), or overlap = 0', self.train(2, blocks % 2))
        self.assertNotIn('minibatches late', self.train(2, blocks % 0))

    def test_levels_that_both_run_behind_are_advised_against(self):
        late = 'DataParallelSGD=[useBufferedAsyncGradientAggregation=true]'
        groups = f'parallelizationMethod=DataParallelSGD;groups=n:2;{late};insideGroups=[{late}]'
        self.assertIn('gradients are two minibatches late', self.train(4, groups))

    def test_soft_sync_divides_the_workers(self):
        mixed = 'parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=mixed;syncPeriod=4;softSync=%d]'
        for wrong in (2, 5):
            self.assertIn(f'softSync = {wrong} does not divide 3 workers', self.train(3, mixed % wrong, expect=2))
        self.assertIn('fix: softSync = 1, 3', self.train(3, mixed % 2, '--check', expect=2))
        self.train(3, mixed % 3)


if __name__ == '__main__':
    support.main()
