# SPDX-License-Identifier: Apache-2.0
"""Shares of unequal size, empty ones included: every run ends, every sample is seen once an epoch, whatever the number of ranks."""
import pathlib
import shutil
import examples
import support


class UnevenTest(support.TrainerTest):
    def train(self, data, ranks, bits, options=(), samples=10):
        self.write('train.ctf', data)
        self.write('run.cntk', examples.config(minibatch=4, epochs=3, bits=bits))
        result = self.run_trainer(['configFile=run.cntk', 'makeMode=false', *options], ranks)
        found = support.epochs(result.text)
        self.assertEqual([e['epoch'] for e in found], [1, 2, 3], str(result))
        self.assertNotIn('left out', result.text)
        for number, epoch in enumerate(found, 1):
            self.assertEqual(epoch['CrossEntropyWithSoftmax'][1], samples, epoch['line'])
            self.assertEqual(epoch['EvalClassificationError'][1], samples, epoch['line'])
            self.assertEqual(epoch['totalSamplesSeen'], number * samples)
        return found, support.intervals(result.text)

    def counts(self, intervals):
        return [i[3]['CrossEntropyWithSoftmax'][1] for i in intervals if i[0] == 1]

    def same_on_all(self, data, samples, counts, options=()):
        """The minibatches of one rank, on two, three and five; unquantised with the same criterion."""
        reference, lines = self.train(data, None, 32, options, samples)
        self.assertEqual(self.counts(lines), counts)
        for ranks in (2, 3, 5):
            found, lines = self.train(data, ranks, 32, options, samples)
            self.assertEqual(self.counts(lines), counts)
            for a, b in zip(reference, found):
                self.assertAlmostEqual(a['CrossEntropyWithSoftmax'][0], b['CrossEntropyWithSoftmax'][0], delta=1e-6)
                self.assertEqual(a['EvalClassificationError'], b['EvalClassificationError'])
        _, lines = self.train(data, 3, 1, options, samples)
        self.assertEqual(self.counts(lines), counts)

    def block_methods(self):
        return ['parallelizationMethod=ModelAveragingSGD',
                'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=5]',
                'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=2]',
                'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=100;outerOptimizer=nesterov]']

    def test_methods_that_exchange_weights(self):
        """More ranks than samples, and uneven ends (tests/actions has the other combinations)."""
        for method in self.block_methods():
            for samples in (2, 7):
                with self.subTest(method=method, samples=samples):
                    self.train(examples.points(samples), 3, 32, [f'Train=[SGD=[ParallelTrain=[{method}]]]'], samples)

    def test_ten_samples_in_fours(self):
        self.same_on_all(examples.points(10), 10, [4, 4, 2])

    def test_ten_samples_in_file_order(self):
        self.same_on_all(examples.points(10), 10, [4, 4, 2], ['Train=[reader=[randomize=false]]'])

    def test_sequences(self):
        """Whole sequences up to four samples, at least one: 3+1 | 2 | 6 | 1+1+1 in file order. Without momentum, whose strength
        depends on packing gaps and so on how many ranks pack."""
        data = examples.points(0, sequence_lengths=[3, 1, 2, 6, 1, 1, 1])
        self.same_on_all(data, 15, [4, 2, 6, 3], ['Train=[reader=[randomize=false];SGD=[momentumPerMB=0]]'])

    def test_one_sequence_on_three_ranks(self):
        self.same_on_all(examples.points(0, sequence_lengths=[5]), 5, [5], ['Train=[reader=[randomize=false]]'])

    def test_epoch_that_is_no_multiple_of_the_data(self):
        """Epochs of 7 cut the endless row of sweeps of 10; minibatches end at both."""
        options = ['Train=[SGD=[epochSize=7]]']
        one, lines = self.train(examples.points(10), None, 32, options, samples=7)
        for ranks in (2, 3):
            found, lines_there = self.train(examples.points(10), ranks, 32, options, samples=7)
            for a, b in zip(one, found):
                self.assertAlmostEqual(a['CrossEntropyWithSoftmax'][0], b['CrossEntropyWithSoftmax'][0], delta=1e-6)
            self.assertEqual([i[:3] for i in lines], [i[:3] for i in lines_there])
        self.assertEqual(self.counts(lines), [4, 3])

    def test_validation_and_test_on_three_ranks(self):
        self.write('train.ctf', examples.points(10))
        self.write('test.ctf', examples.points(7, seed=2))
        self.write('run.cntk', examples.config(minibatch=4) + 'command = Train:Test\n')
        cv = 'Train=[cvReader=[readerType=CNTKTextFormatReader;file=test.ctf;input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]]'
        seen = []
        for ranks in (None, 3):
            result = self.run_trainer(['configFile=run.cntk', 'makeMode=false', cv, 'Test=[minibatchSize=4]'], ranks)
            validation = support.epochs(result.text, 'Validate')
            self.assertEqual([v['CrossEntropyWithSoftmax'][1] for v in validation], [7, 7])
            final = support.final_results(result.text)
            self.assertEqual(final['CrossEntropyWithSoftmax'][1], 7)
            self.assertAlmostEqual(final['CrossEntropyWithSoftmax'][0], validation[-1]['CrossEntropyWithSoftmax'][0], delta=1e-6)
            seen.append(final)
        self.assertAlmostEqual(seen[0]['CrossEntropyWithSoftmax'][0], seen[1]['CrossEntropyWithSoftmax'][0], delta=1e-6)
        self.assertEqual(seen[0]['EvalClassificationError'], seen[1]['EvalClassificationError'])

    def test_broken_image_is_left_out_of_its_minibatch(self):
        """Three images of which one is cut off: named by the rank that met it, the same numbers on any number of ranks."""
        cases = pathlib.Path(__file__).resolve().parent / 'broken'
        shutil.copytree(cases / 'data', self.directory / 'data')
        shutil.copy(cases / 'pictures.cntk', self.directory)
        options = ['configFile=pictures.cntk', 'makeMode=false', 'Train=[reader=[file=data/pictures_cut.map;maxErrors=1]]',
                   'Train=[SGD=[maxEpochs=2;minibatchSize=2;ParallelTrain=[parallelizationMethod=DataParallelSGD]]]']
        seen = []
        for ranks in (None, 2, 3):
            result = self.run_trainer(options, ranks)
            self.assertIn('data/pictures_cut.map:2:1: warning: broken JPEG', result.text)
            self.assertIn('1 of 3 samples were skipped in epoch 2', result.text)
            found = support.epochs(result.text)
            self.assertEqual([e['CrossEntropyWithSoftmax'][1] for e in found], [2, 2], str(result))
            seen.append([e['CrossEntropyWithSoftmax'][0] for e in found])
        for other in seen[1:]:
            for a, b in zip(seen[0], other):
                self.assertAlmostEqual(a, b, delta=1e-6)


if __name__ == '__main__':
    support.main()
