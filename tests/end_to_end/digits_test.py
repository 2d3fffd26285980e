# SPDX-License-Identifier: Apache-2.0
"""The sample that the quick start trains, on digits drawn by the program: it learns, on any number of ranks alike."""
import pathlib

import support


class DigitsTest(support.TrainerTest):
    def run_sample(self, ranks, *options):
        # Neat digits: a few thousand samples are enough to learn them.
        self.run_trainer([f'configFile={support.SOURCE}/samples/digits/digits.cntk', f'OutputDir={self.directory}', 'makeMode=false',
                          'Noise=0.1', 'Scrawl=1', 'traceLevel=1', 'Train=[SGD=[epochSize=2560;maxEpochs=3;minibatchSize=64]]', 'Test=[epochSize=1000]', *options], ranks)
        log = (self.directory / 'digits.log').read_text(encoding='utf-8')
        return support.epochs(log), support.final_results(log)

    def test_32_bits_same_on_1_2_4_ranks(self):
        bits = 'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]'
        one, final = self.run_sample(1, bits)
        self.assertEqual(final['errs'][1], 1000)
        self.assertLess(one[-1]['ce'][0], 0.7 * one[0]['ce'][0], 'it learns')
        for ranks in (2, 4):
            found, final_there = self.run_sample(ranks, bits)
            for a, b in zip(one, found):
                self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=1e-4 * a['ce'][0])
                # A sum in another order may turn a tie; an error or two of thousands.
                self.assertAlmostEqual(a['errs'][0], b['errs'][0], delta=2.5 / 2560)
            self.assertAlmostEqual(final['errs'][0], final_there['errs'][0], delta=2.5 / 1000)

    def test_1_bit_learns(self):
        longer = 'Train=[SGD=[maxEpochs=5]]'
        _, full = self.run_sample(2, longer, 'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]')
        _, one_bit = self.run_sample(2, longer, 'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1]]]]')
        self.assertLess(one_bit['errs'][0], full['errs'][0] + 0.05)

    def test_bfloat16_learns_as_float32_does(self):
        cpu = pathlib.Path('/proc/cpuinfo')
        if not cpu.exists() or 'avx512_bf16' not in cpu.read_text(encoding='utf-8'):
            self.skipTest('this processor does not compute in bfloat16')
        bits = 'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]'
        exact, final = self.run_sample(1, bits)
        found, final_there = self.run_sample(1, bits, 'computeType=bfloat16')
        self.assertIn('products in bfloat16', (self.directory / 'digits.log').read_text(encoding='utf-8'))
        model = (self.directory / 'models/digits.dnn').read_bytes()
        for a, b in zip(exact, found):
            self.assertNotEqual(a['ce'][0], b['ce'][0])
            self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=0.02 * a['ce'][0])
        self.assertLess(final_there['errs'][0], final['errs'][0] + 0.01)
        self.run_sample(1, bits, 'computeType=bfloat16')
        self.assertEqual((self.directory / 'models/digits.dnn').read_bytes() == model, True, 'two runs differ')

    def model_after(self, ranks, parallel):
        for old in (self.directory / 'models').glob('*'):
            old.unlink()
        result = self.run_trainer([f'configFile={support.SOURCE}/samples/digits/digits.cntk', f'OutputDir={self.directory}', 'makeMode=false', 'traceLevel=1',
                                   'stderr=""', 'command=Train', f'Train=[SGD=[epochSize=320;maxEpochs=2;minibatchSize=64;ParallelTrain=[{parallel}]]]'], ranks)
        return (self.directory / 'models/digits.dnn').read_bytes(), result.text

    def test_every_transport_leads_to_the_same_model(self):
        late = 'DataParallelSGD=[useBufferedAsyncGradientAggregation=true;gradientBits=32]'
        within = 'DataParallelSGD=[gradientBits=1];groups=n:2;insideGroups=[parallelizationMethod=DataParallelSGD;transport=%s]'
        for ranks, parallel in ((2, 'transport=%s;DataParallelSGD=[gradientBits=1]'), (3, 'transport=%s;' + late), (4, within),
                                (2, 'transport=%s;parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=160;exchangeBits=16]')):
            with self.subTest(ranks=ranks, parallel=parallel):
                messages, text = self.model_after(ranks, parallel % 'messages')
                self.assertNotIn('through shared memory', text.partition('within them')[2] if 'groups' in parallel else text)
                shared, text = self.model_after(ranks, parallel % 'sharedMemory')
                self.assertIn('through shared memory', text)
                self.assertEqual(shared == messages, True, 'the two models differ')

    def test_a_rank_that_goes_away_ends_those_that_wait_for_its_counters(self):
        self.run_trainer([f'configFile={support.SOURCE}/samples/digits/digits.cntk', f'OutputDir={self.directory}', 'makeMode=false', 'stderr=""',
                          'command=Train', 'Train=[SGD=[epochSize=6400;maxEpochs=2;minibatchSize=64;ParallelTrain=[transport=sharedMemory;'
                          'faultHook=[rank=1;exit=true;firstStep=5]]]]'], 3, expect=None)

    def test_same_run_same_bytes(self):
        models = []
        for _ in range(2):
            self.run_sample(2, 'Train=[SGD=[epochSize=1280;maxEpochs=2]]')
            models.append((self.directory / 'models/digits.dnn').read_bytes())
        self.assertEqual(models[0] == models[1], True, 'two runs of the same command differ')


if __name__ == '__main__':
    support.main()
