# SPDX-License-Identifier: Apache-2.0
"""Shares of unequal size, empty ones included: every run ends, every sample is seen once an epoch, whatever the number of ranks."""
import pathlib
import shutil
import examples
import support


class UnevenTest(support.TrainerTest):
    def train(self, runs, ranks):
        """One start that trains once for each (settings of Train, samples of an epoch): [(epoch lines, interval lines)]."""
        said, text = self.train_each(examples.config(minibatch=4, epochs=3), [settings for settings, _ in runs], ranks)
        self.assertNotIn('left out', text)
        for (settings, samples), part in zip(runs, said):
            found = support.epochs(part)
            self.assertEqual([e['epoch'] for e in found], [1, 2, 3], f'{settings}: {text}')
            for number, epoch in enumerate(found, 1):
                self.assertEqual(epoch['CrossEntropyWithSoftmax'][1], samples, epoch['line'])
                self.assertEqual(epoch['EvalClassificationError'][1], samples, epoch['line'])
                self.assertEqual(epoch['totalSamplesSeen'], number * samples)
        return [(support.epochs(part), support.intervals(part)) for part in said]

    def counts(self, intervals):
        return [i[3]['CrossEntropyWithSoftmax'][1] for i in intervals if i[0] == 1]

    def block_methods(self):
        return ['parallelizationMethod=ModelAveragingSGD',
                'parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=5]',
                'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=2]',
                'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=100;outerOptimizer=nesterov]']

    def test_methods_that_exchange_weights(self):
        """More ranks than samples, and uneven ends (tests/actions has the other combinations)."""
        for samples in (2, 7):
            self.write(f'points{samples}.ctf', examples.points(samples))
        self.train([(f'SGD=[ParallelTrain=[{method}]];reader=[file=points{samples}.ctf]', samples)
                    for method in self.block_methods() for samples in (2, 7)], 3)

    # settings of Train, samples of an epoch, those of the minibatches of the first one. Whole sequences make up to four samples, at least one:
    # 3+1 | 2 | 6 | 1+1+1 in file order. They train without momentum, whose strength depends on packing gaps and so on how many ranks pack.
    SAME = [('reader=[file=ten.ctf]', 10, [4, 4, 2]),
            ('reader=[file=ten.ctf;randomize=false]', 10, [4, 4, 2]),
            ('reader=[file=sequences.ctf;randomize=false];SGD=[momentumPerMB=0]', 15, [4, 2, 6, 3]),
            ('reader=[file=sequence.ctf;randomize=false]', 5, [5])]

    def test_the_same_on_any_number_of_ranks(self):
        """The minibatches of one rank, on two, three and five; unquantised with the same criterion."""
        self.write('ten.ctf', examples.points(10))
        self.write('sequences.ctf', examples.points(0, sequence_lengths=[3, 1, 2, 6, 1, 1, 1]))
        self.write('sequence.ctf', examples.points(0, sequence_lengths=[5]))
        exact = [(settings, samples) for settings, samples, _ in self.SAME]
        one_bit = [(f'{settings};SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1]]]', samples) for settings, samples in exact]
        reference = self.train(exact, None)
        for ranks in (None, 2, 3, 5):
            found = reference if ranks is None else self.train(exact + one_bit if ranks == 3 else exact, ranks)
            for i, (epochs, lines) in enumerate(found):
                settings, _, counts = self.SAME[i % len(exact)]
                with self.subTest(ranks=ranks, settings=settings, one_bit=i >= len(exact)):
                    self.assertEqual(self.counts(lines), counts)
                    for a, b in zip(reference[i][0], epochs) if i < len(exact) else ():
                        self.assertAlmostEqual(a['CrossEntropyWithSoftmax'][0], b['CrossEntropyWithSoftmax'][0], delta=1e-6)
                        self.assertEqual(a['EvalClassificationError'], b['EvalClassificationError'])

    def test_epoch_that_is_no_multiple_of_the_data(self):
        """Epochs of 7 cut the endless row of sweeps of 10; minibatches end at both."""
        self.write('train.ctf', examples.points(10))
        (one, lines), = self.train([('SGD=[epochSize=7]', 7)], None)
        for ranks in (2, 3):
            (found, lines_there), = self.train([('SGD=[epochSize=7]', 7)], ranks)
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
