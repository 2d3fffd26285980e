# SPDX-License-Identifier: Apache-2.0
"""kernelChoices: libraries are timed once and kept, a run that continues keeps those of its checkpoint, and a file replays them."""
import os
import re
import shutil
import unittest.mock

import support

NETWORK = '''
command = Train
modelPath = "models/m"
numCPUThreads = 1
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        features = Input {600}
        labels = Input {4}
        z = Sequential (DenseLayer {700, activation = ReLU} : DenseLayer {800, activation = ReLU} : LinearLayer {4}) (features)
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce)
        outputNodes = (z)
    ]
    SGD = [ minibatchSize = 128 ; learningRatesPerMB = 0.05 ; maxEpochs = 2 ; epochSize = 512 ; numMBsToShowResult = 0
            ParallelTrain = [ parallelizationMethod = "DataParallelSGD" ; DataParallelSGD = [ gradientBits = 32 ] ] ]
    reader = [ readerType = "SyntheticReader" ; kind = "random" ; samples = 512
               input = [ features = [ dim = 600 ; format = "dense" ] ; labels = [ labelDim = 4 ] ] ]
]
'''
# Of the two hidden layers with 128 samples: two forward, one gradient of data, two of weights.
KINDS = ('NN:128:700:600', 'NN:128:800:700', 'NT:128:700:800', 'TN:128:700:0', 'TN:128:800:0')
LINE = re.compile(r'^(?:# )?  products   (\d) of (\d) kinds by the usual library(?:; (.*))?$', re.MULTILINE)


class KernelChoicesTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', NETWORK)
        self.cache = self.directory / 'cache'
        changed = unittest.mock.patch.dict(os.environ, TUTTI_CACHE=str(self.cache))
        changed.start()
        self.addCleanup(changed.stop)

    def train(self, *words, ranks=None, **options):
        return self.run_trainer(['configFile=run.cntk', *words], ranks, **options)

    def products(self, text):
        found = LINE.search(text)
        self.assertTrue(found, text)
        return found.group(3) or ''

    def kept(self):
        return (self.cache / 'products.txt').read_text(encoding='utf-8').splitlines()

    def model(self, name):
        return (self.directory / name).read_bytes()

    def chosen(self, library, *kinds):
        """A file of choices as the cache has it, for this processor."""
        made_for = self.kept()[0].split(' ', 2)[2]
        return ''.join(f'{kind} {library if kind in kinds else "by_shape"} {made_for}\n' for kind in KINDS)

    def test_timed_once_and_kept(self):
        checked = LINE.search(self.train('--check').text).group(0)
        lines = self.kept()
        self.assertEqual(sorted(line.split()[0] for line in lines), sorted(KINDS))
        self.assertEqual(LINE.search(self.train('--check').text).group(0), checked)
        self.assertIn('as timed before', self.products(self.train('modelPath=a/m').text))
        self.assertEqual(self.kept(), lines)
        # Two ranks have other shares, and the same processor: one of them times.
        self.assertIn('timed in ', self.products(self.train('modelPath=b/m', ranks=2).text))
        more = [line.split()[0] for line in self.kept()[len(KINDS):]]
        self.assertEqual(len(set(more)), len(more))
        self.assertTrue(all(':64:' in kind for kind in more) and len(more) >= 4, more)
        self.train('modelPath=c/m', ranks=2)
        self.assertEqual(self.model('b/m'), self.model('c/m'))
        shutil.rmtree(self.cache)
        self.assertIn('timed in ', self.products(self.train('modelPath=d/m').text))

    def test_a_cache_that_cannot_be_written(self):
        os.environ['TUTTI_CACHE'] = '/proc/nowhere'
        self.assertIn('timed in ', self.products(self.train().text))
        os.environ['TUTTI_CACHE'] = ''
        self.assertIn('timed in ', self.products(self.train('modelPath=a/m').text))

    def test_without_timing(self):
        for word in ('Train=[kernelChoices=none]', 'forceDeterministicAlgorithms=true'):
            run = self.train(word, 'makeMode=false')
            self.assertFalse(LINE.search(run.text), run.text)
        self.assertFalse(self.cache.exists())
        # Small products have nothing to choose from.
        run = self.train('modelPath=a/m', 'Train=[SGD=[minibatchSize=8]]')
        self.assertFalse(LINE.search(run.text), run.text)

    def test_a_file_replays_choices(self):
        self.train('--check')
        self.write('packed.txt', self.chosen('packed', KINDS[0], KINDS[2]))
        text = self.train('modelPath=a/m', 'Train=[kernelChoices=packed.txt]').text
        if 'packed' not in self.products(text):
            self.skipTest('a processor without AVX2')
        self.assertEqual(self.products(text), f"{KINDS[0]} by packed, {KINDS[2]} by packed; as in 'packed.txt'")
        self.train('modelPath=b/m', 'Train=[kernelChoices=packed.txt]')
        self.assertEqual(self.model('a/m'), self.model('b/m'))
        # A checkpoint holds them, too: after one epoch of a longer run.
        self.train('modelPath=c/m', 'Train=[kernelChoices=packed.txt;SGD=[keepCheckPointFiles=true]]')
        text = self.train('modelPath=d/m', 'Train=[kernelChoices=c/m.1.ckp]').text
        self.assertIn("as in 'c/m.1.ckp'", self.products(text))
        self.assertEqual(self.model('a/m'), self.model('d/m'))

    def test_a_run_that_continues_keeps_them(self):
        self.train('--check')
        self.write('packed.txt', self.chosen('packed', *KINDS))
        whole = 'Train=[kernelChoices=packed.txt;SGD=[maxEpochs=4]]'
        for ranks in (None, 2):
            folder = f'r{ranks}'
            if ranks:  # other shares
                self.write('packed.txt', self.chosen('packed', *KINDS).replace(':128:', ':64:'))
            self.train(f'modelPath={folder}/whole', whole, ranks=ranks)
            self.train(f'modelPath={folder}/m', 'Train=[kernelChoices=packed.txt]', ranks=ranks)
            text = self.train(f'modelPath={folder}/m', 'Train=[SGD=[maxEpochs=4]]', ranks=ranks).text
            self.assertIn('as in the checkpoint', self.products(text))
            self.assertEqual(self.model(f'{folder}/m'), self.model(f'{folder}/whole'))

    def test_choices_of_another_processor(self):
        self.write('other.txt', ''.join(f'{kind} by_shape Other processor, no OpenBLAS\n' for kind in KINDS))
        text = self.train('Train=[kernelChoices=other.txt]').text
        self.assertIn("'other.txt' was made for other processors or libraries than these", text)
        self.assertIn("as in 'other.txt'", self.products(text))

    def test_wrong_files(self):
        self.write('empty.txt', 'nothing\n')
        for file, reason in (('missing.txt', 'missing.txt'), ('empty.txt', "'empty.txt' holds no choices of kernels")):
            for ranks in (None, 2):
                run = self.train(f'Train=[kernelChoices={file}]', ranks=ranks, expect=None)
                self.assertNotEqual(run.code, 0)
                self.assertIn(reason, run.text)

    def test_where_it_has_no_effect(self):
        self.write('some.txt', f'{KINDS[0]} by_shape Other\n')
        text = self.train('Train=[kernelChoices=some.txt;SGD=[minibatchSize=8]]').text
        self.assertIn('kernelChoices has no effect: the network has no large products', text)


if __name__ == '__main__':
    support.main()
