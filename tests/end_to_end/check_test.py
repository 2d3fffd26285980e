# SPDX-License-Identifier: Apache-2.0
"""--check: what it prints first, what memory it takes and says a run would take; the place of a labelDim that is too small; threads; what a
command needs that runs after a training."""
import os
import re
import resource
import unittest.mock

import examples
import support

GIGABYTE = 1e9


def gigabytes(text):
    """The figure of the memory line, of one rank."""
    number, unit = re.search(r'^#   memory +([\d.]+) (B|kB|MB|GB|TB) for weights', text, re.MULTILINE).groups()
    return float(number) * {'B': 1e-9, 'kB': 1e-6, 'MB': 1e-3, 'GB': 1, 'TB': 1e3}[unit]


# A command that follows the training, and the streams that its network wants.
LATER = '''
Later = [ action = %s
    %s
    reader = [ readerType = CNTKTextFormatReader ; file = "train.ctf" ; input = [ %s ] ] ]
'''
FEATURES, LABELS = 'features = [ alias = x ; dim = 2 ; format = dense ]', 'labels = [ alias = y ; dim = 2 ; format = dense ]'
# Meson has memory filled as it is taken, which makes pages of what is only counted.
os.environ.pop('MALLOC_PERTURB_', None)


class CheckTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(64))

    def check(self, *words, ranks=None):
        return self.run_trainer(['--check', 'configFile=run.cntk', *words], ranks).text

    # --- what is set
    def test_what_is_set_comes_first(self):
        text = self.check('Train=[SGD=[L2RegWeight=0.5]]')
        lines = text.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith('# What the configuration sets'))
        self.assertLess(first, lines.index('# Effective settings:'))
        self.assertTrue(all(line.startswith('# Note: ') for line in lines[:first]), text)
        for line in ('    maxEpochs = 2', '    L2RegWeight = 0.5', '      parallelizationMethod = "DataParallelSGD"', '        dim = 2', 'traceLevel = 1'):
            self.assertIn(line, lines)
        for default in ('L1RegWeight', 'checkpointEverySamples', 'maxErrors', 'All options'):
            self.assertNotIn(default, text)

    def test_all_options_follow_on_request(self):
        for flag in ('-v', '--verbose'):
            text = self.check(flag)
            for default in ('    # L1RegWeight = 0', '    # checkpointEverySamples = 0', '    # maxErrors = 0'):
                self.assertIn(default, text.splitlines())
        text = self.run_trainer(['-v', 'configFile=run.cntk', 'Train=[SGD=[maxEpochs=1]]']).text
        self.assertIn('-v has no effect without --check', text)

    def test_settings_without_effect_are_noted(self):
        for settings, ranks, note in (
                ('dropoutRate=0:0.2', None, "'dropoutRate' in SGD has no effect: the network has no Dropout node"),
                ('batchNormalizationTimeConstant=500', None, "'batchNormalizationTimeConstant' in SGD has no effect: the network has no BatchNormalization node"),
                ('beta1=0.8', None, "'beta1' in SGD has no effect with gradUpdateType = none"),
                ('ParallelTrain=[parallelizationMethod=none;transport=messages]', 2, 'transport has no effect with parallelizationMethod = none')):
            with self.subTest(settings=settings):
                self.assertIn(note, self.check(f'Train=[SGD=[{settings}]]', ranks=ranks))
        self.assertNotIn('has no effect', self.check('Train=[SGD=[dropoutRate=0;batchNormalizationTimeConstant=0]]'))
        self.write('run.cntk', examples.normalized(examples.config()))
        self.assertNotIn('has no effect', self.check('Train=[SGD=[dropoutRate=0.2;batchNormalizationTimeConstant=500]]'))

    # --- memory
    def test_memory_is_planned_and_not_taken(self):
        large = 'Train=[SGD=[minibatchSize=20000000];SimpleNetworkBuilder=[layerSizes=2:1000:2]]'
        text = self.check(large)
        self.assertGreater(gigabytes(text), 80)  # 20 million columns of 1000 floats, at least
        if not support.SANITIZED:
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, GIGABYTE)
        self.assertIn('are free', text)
        vast = self.check(large.replace('20000000', '2000000000'))
        self.assertRegex(vast, r'Warning: the run needs [\d.]+ TB of memory on this host and [\d.]+ .B are free: it would be refused\. fix: lower minibatchSize')
        self.assertNotIn('Warning: the run needs', self.check())

    def test_memory_of_large_samples(self):
        """ResNet-50 with its own minibatch, and the weights of VGG, twice."""
        for sample, least in (('resnet50', 15), ('vgg16', 10)):
            config = support.SOURCE / f'samples/imagenet/{sample}.cntk'
            text = self.run_trainer(['--check', f'configFile={config}', 'command=Synthetic', 'Synthetic=[SGD=[minibatchSize=256]]']).text
            self.assertGreater(gigabytes(text), least)
        if not support.SANITIZED:
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, GIGABYTE)

    def test_memory_of_ranks(self):
        one = gigabytes(self.check('Train=[SGD=[minibatchSize=3000000]]'))
        text = self.check('Train=[SGD=[minibatchSize=3000000]]', ranks=3)
        self.assertRegex(text, r'on this rank, [\d.]+ .B on the 3 ranks of this host')
        self.assertAlmostEqual(gigabytes(text), one / 3, delta=one / 30)

    @support.unittest.skipIf(support.SANITIZED, 'a sanitizer takes more address space than the limit')
    def test_memory_that_the_run_does_not_get(self):
        """The run's own refusal shows no figure that contradicts it."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        done = support.subprocess.run([support.TRAINER, 'configFile=run.cntk', 'Train=[SGD=[minibatchSize=2000000];SimpleNetworkBuilder=[layerSizes=2:1000:2]]'],
                                      cwd=self.directory, preexec_fn=limit, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        needed, left = re.search(r'out of memory: ([\d.]+) GB for the values of the network, ([\d.]+) GB are left', done.stderr).groups()
        self.assertLess(float(left), float(needed))

    # --- labelDim
    def test_label_dim_points_to_its_line(self):
        self.write('labels.txt', '0.5 0.25 1\n0.5 0.25 7\n')
        self.write('table.cntk', examples.config().split('    reader = [')[0].replace('layerSizes = 2:8:2', 'layerSizes = 2:8:5') + '''
    reader = [
        readerType = "UCIFastReader"
        file = "labels.txt"
        features = [ start = 0 ; dim = 2 ]
        labels   = [ start = 2 ; dim = 1 ; labelType = "Category" ; labelDim = 5 ]
    ]
]
''')
        text = self.run_trainer(['configFile=table.cntk'], expect=2).text
        line = 1 + next(i for i, l in enumerate((self.directory / 'table.cntk').read_text().splitlines()) if 'labelDim' in l)
        self.assertRegex(text, rf'table\.cntk:{line}:\d+: error: labelDim = 5 is too small for the data, which need 8')
        self.assertIn('fix: labelDim = 8, or correct the data that the next error shows', text)
        self.assertRegex(text, r"labels\.txt:2:\d+: error: the label '7' is not a class from 0 to 4")

    def test_dim_of_a_sparse_stream(self):
        self.write('train.ctf', '|x 1 2 |y 0:1\n|x 1 2 |y 4:1\n')
        text = self.run_trainer(['--check', 'configFile=run.cntk', 'Train=[reader=[input=[labels=[format=sparse]]]]'], expect=2).text
        line = 1 + next(i for i, l in enumerate((self.directory / 'run.cntk').read_text().splitlines()) if 'alias = "y"' in l)
        self.assertRegex(text, rf'run\.cntk:{line}:\d+: error: dim = 2 is too small for the data, which need 5')
        self.assertIn('train.ctf:2:', text)

    # --- a command after a training
    def check_later(self, action, streams, network='', command='Train:Later', expect=2):
        """The result of --check, and the pattern of an error at a key of that command."""
        text = examples.config() + LATER % (action, network, streams)
        self.write('later.cntk', text)
        line = text[:text.index('reader', text.index('Later ='))].count('\n') + 1
        return self.run_trainer(['--check', 'configFile=later.cntk', f'command={command}'], expect=expect).text, rf'later\.cntk:{line}:5: error: '

    def test_streams_of_a_later_command(self):
        for action in ('test', 'cv', 'write ; outputPath = values', 'bnstat'):
            for streams, said, fix in (
                    (f'X = [ alias = x ; dim = 2 ; format = dense ] ; {LABELS}', "the reader has no stream for the network's input 'features'", 'the reader has: X, labels'),
                    (f'{FEATURES.replace("dim = 2", "dim = 3")} ; {LABELS}', "the reader's stream 'features' has dimension 3, but the network's input 'features' is \\[2\\]",
                     'a reader that delivers 2 values, or a network with an input of 3')):
                if action == 'bnstat' and 'no stream' in said:
                    continue  # without batch normalisation it computes nothing
                with self.subTest(action=action, streams=streams):
                    text, place = self.check_later(action, streams)
                    self.assertRegex(text, place + said)
                    self.assertIn(f'fix: {fix}', text)
        self.check_later('test', f'{FEATURES} ; {LABELS}', expect=0)

    def test_streams_that_a_later_command_needs(self):
        """The labels: for the criterion, but not for the scores."""
        text, place = self.check_later('test', FEATURES)
        self.assertRegex(text, place + "the reader has no stream for the network's input 'labels'")
        self.check_later('write ; outputPath = values', FEATURES, expect=0)
        self.run_trainer(['configFile=later.cntk', 'command=Train:Later'])
        text, place = self.check_later('write ; outputPath = values', FEATURES, 'outputNodeNames = CrossEntropyWithSoftmax', command='Later')
        self.assertRegex(text, place + "the reader has no stream for the network's input 'labels'")

    def test_sparse_input_of_a_later_command(self):
        network = 'BrainScriptNetworkBuilder = { features = SparseInput {2} ; z = LinearLayer {2} (features) ; outputNodes = (z) }'
        text, place = self.check_later('write ; outputPath = values', FEATURES, network)
        self.assertRegex(text, place + "the network's input 'features' is declared sparse, but the reader delivers it dense")
        self.assertIn('fix: read it with format = "sparse"', text)

    def test_description_of_a_later_command(self):
        network = '''BrainScriptNetworkBuilder = { features = Input {2} ; labels = Input {2}
        said = Print ('built once') ; W = ParameterTensor {2:2, value=4} ; z = W * features
        errs = %s (labels, z) ; evaluationNodes = (errs) ; outputNodes = (z) }'''
        for action in ('test', 'test ; evalNodeNames = errs ; confusionTable = true', 'write ; outputPath = values'):
            with self.subTest(action=action):
                text, _ = self.check_later(action, f'{FEATURES} ; {LABELS}', network % 'ClasificationError')
                self.assertEqual(len(re.findall(r"error: 'ClasificationError' is not defined", text)), 1, text)
                self.assertIn("fix: did you mean 'ClassificationError'?", text)
                text, _ = self.check_later(action, f'{FEATURES} ; {LABELS}', network % 'ClassificationError', expect=0)
                self.assertEqual(text.count(': note: built once'), 1, text)
                self.assertEqual(text.count("warning: value= has no effect on the parameter 'W'"), 1, text)

    def test_networks_that_a_later_command_cannot_compute(self):
        for definition, said in (('y = Tanh (features + SumElements (PastValue (0, y)))', 'sums over all samples and feeds a loop through time'),
                                 ('y = Tanh (features + TimeReverse (PastValue (0, y)))', 'needs whole sequences and cannot be part of a loop through time'),
                                 ("W = ParameterTensor {(2:2), initFromLiteral = '1 2 3\n4 5 6'} ; y = W * features", 'is to be filled from a matrix of 2 rows and 3 columns')):
            network = f'BrainScriptNetworkBuilder = {{ features = Input {{2}} ; {definition}\n e = SumElements (y) ; evaluationNodes = (e) ; outputNodes = (y) }}'
            for action in ('test', 'write ; outputPath = values'):
                with self.subTest(definition=definition, action=action):
                    text, _ = self.check_later(action, FEATURES, network)
                    self.assertRegex(text, r'later\.cntk:\d+:\d+: error: .*' + said)

    # --- threads
    def test_threads_of_the_environment(self):
        self.write('run.cntk', examples.config().replace('numCPUThreads = 1\n', ''))
        with unittest.mock.patch.dict(os.environ, OMP_NUM_THREADS='1'):
            self.assertRegex(self.check(), r'processor +1 thread .*, by OMP_NUM_THREADS')
            self.assertNotIn('OMP_NUM_THREADS', self.check('numCPUThreads=0'))
        with unittest.mock.patch.dict(os.environ, OMP_NUM_THREADS='nonsense'):
            self.assertNotIn('OMP_NUM_THREADS, cpu', self.check())


if __name__ == '__main__':
    support.main()
