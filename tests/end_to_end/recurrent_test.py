# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks from the config to results: the same on any number of ranks, written in the order of the data, trained on truncated
sequences, and the tutorial's slot tagging on the real data."""
import random

import support

CONFIG = '''
command = Train:Test:Write
precision = "float"
modelPath = "$OutputDir$/models/net.dnn"
stderr = "$OutputDir$/net.log"
traceLevel = 1
Train = [
  action = "train"
  BrainScriptNetworkBuilder = {
    x = Input {5}; labels = SparseInput {5}
    R = ParameterTensor {16:16, init='glorotUniform'}
    h = Tanh (DenseLayer {16} (x) + R * PastValue (0, h))
    both = Splice (h : RecurrentLSTMLayer {6, goBackwards=true} (x))
    z = DenseLayer {5} (both)
    ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
    last = BS.Sequences.Last (z)
    featureNodes = (x); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z : last)
  }
  SGD = [ maxEpochs = 3; minibatchSize = 60; learningRatesPerSample = 0.03; momentumPerMB = 0; numMBsToShowResult = 0 ]
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/train.ctf"; randomize = true
             input = [ x = [ alias = "x"; dim = 5; format = "dense" ]; labels = [ alias = "y"; dim = 5; format = "sparse" ] ] ]
]
Test = [ action = "test"; minibatchSize = 500
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/test.ctf"
             input = [ x = [ alias = "x"; dim = 5; format = "dense" ]; labels = [ alias = "y"; dim = 5; format = "sparse" ] ] ] ]
Write = [ action = "write"; outputPath = "$OutputDir$/out"; minibatchSize = $WriteSize$
  format = [ sequenceEpilogue = "\\n#\\n" ]
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/test.ctf"; randomize = false
             input = [ x = [ alias = "x"; dim = 5; format = "dense" ]; labels = [ alias = "y"; dim = 5; format = "sparse" ] ] ] ]
'''


def make_data(path, sequences, seed):
    """Ragged sequences; the label of a step is the class of two steps before, 0 at the beginning."""
    draw = random.Random(seed)
    lengths = []
    with open(path, 'w', encoding='utf-8') as out:
        for s in range(sequences):
            classes = [draw.randrange(5) for _ in range(draw.randint(1, 9))]
            lengths.append(len(classes))
            for t, c in enumerate(classes):
                label = classes[t - 2] if t >= 2 else 0
                out.write(f'{s} |x {" ".join("1" if i == c else "0" for i in range(5))} |y {label}:1\n')
    return lengths


class RecurrentTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        (self.directory / 'net.cntk').write_text(CONFIG, encoding='utf-8')
        make_data(self.directory / 'train.ctf', 400, 1)
        self.lengths = make_data(self.directory / 'test.ctf', 60, 2)

    def run_net(self, ranks, *options):
        self.run_trainer([f'configFile={self.directory}/net.cntk', f'OutputDir={self.directory}', 'makeMode=false', 'WriteSize=7', *options], ranks)
        log = (self.directory / 'net.log').read_text(encoding='utf-8')
        return support.epochs(log), support.final_results(log)

    def written(self, node):
        text = (self.directory / f'out.{node}').read_text(encoding='utf-8')
        return [[[float(v) for v in line.split()] for line in part.strip().split('\n')] for part in text.split('#\n') if part.strip()]

    def test_same_on_1_2_3_ranks(self):
        one, final = self.run_net(1)
        self.assertLess(one[-1]['ce'][0], 0.8 * one[0]['ce'][0], 'it learns')
        self.assertEqual(final['errs'][1], sum(self.lengths))
        for ranks in (2, 3):
            found, final_there = self.run_net(ranks, 'command=Train:Test')
            for a, b in zip(one, found):
                self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=1e-4 * a['ce'][0])
            self.assertAlmostEqual(final['errs'][0], final_there['errs'][0], delta=2.5 / sum(self.lengths))

    def test_outputs_stand_in_the_order_of_the_data(self):
        self.run_net(1)
        z, last = self.written('z'), self.written('last')
        self.assertEqual([len(s) for s in z], self.lengths)
        self.assertEqual([len(s) for s in last], [1] * len(z))
        for whole, end in zip(z, last):
            self.assertEqual(whole[-1], end[0])
        self.run_net(1, 'command=Write', 'WriteSize=1000')  # in one minibatch
        for a, b in zip(z, self.written('z')):
            for row_a, row_b in zip(a, b):
                for x, y in zip(row_a, row_b):
                    self.assertAlmostEqual(x, y, delta=2e-6)

    def test_truncated_sequences_same_on_1_2_ranks(self):
        truncated = ['command=Train:Test', 'Train=[SGD=[truncated=true;maxEpochs=8];reader=[truncated=true;truncationLength=4]]']
        text = CONFIG.replace("Splice (h : RecurrentLSTMLayer {6, goBackwards=true} (x))", 'RecurrentLSTMLayer {16} (h)')
        self.assertNotEqual(text, CONFIG)
        (self.directory / 'net.cntk').write_text(text, encoding='utf-8')
        one, final = self.run_net(1, *truncated)
        self.assertLess(one[-1]['ce'][0], 0.8 * one[0]['ce'][0], 'it learns')
        two, final_there = self.run_net(2, *truncated)
        for a, b in zip(one, two):
            self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=1e-4 * a['ce'][0])
        self.assertEqual(final['errs'][1], final_there['errs'][1])

    def test_looking_ahead_in_truncated_sequences_is_an_error(self):
        result = self.run_trainer([f'configFile={self.directory}/net.cntk', f'OutputDir={self.directory}', 'makeMode=false', 'WriteSize=7',
                                   'Train=[SGD=[truncated=true];reader=[truncated=true;truncationLength=4]]'], 1, expect=None)
        self.assertNotEqual(result.code, 0)
        log = (self.directory / 'net.log').read_text(encoding='utf-8') + result.text
        self.assertIn('work only with networks that depend on the past', log)

    def test_ends_of_sequences_next_to_labels_of_the_default_axis(self):
        draw = random.Random(4)
        with open(self.directory / 'ends.ctf', 'w', encoding='utf-8') as out:
            for s in range(120):
                classes = [draw.randrange(5) for _ in range(draw.randint(1, 6))]
                for t, c in enumerate(classes):
                    out.write(f'{s} |x {c}:1' + (f' |y {classes[-1]}:1' if t == 0 else '') + '\n')
        network = '''{ x = SparseInput {5, dynamicAxis=DynamicAxis ()}; labels = Input {5}
            F = RecurrentLSTMLayer {8}; G = RecurrentLSTMLayer {8, goBackwards=true}
            first = BS.Sequences.First (G (x)); ends = Splice (BS.Sequences.Last (F (x)) : FIRST)
            z = DenseLayer {5} (ends)
            ce = CrossEntropyWithSoftmax (labels, Z); errs = ClassificationError (labels, Z)
            featureNodes = (x); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z) }'''

        def train(first, z, ranks):
            (self.directory / 'ends.cntk').write_text(f'''
                command = Train; modelPath = "{self.directory}/ends.dnn"; makeMode = false
                Train = [ action = "train"; BrainScriptNetworkBuilder = {network.replace('FIRST', first).replace('Z', z)}
                  SGD = [ maxEpochs = 4; minibatchSize = 60; learningRatesPerSample = 0.05; momentumPerMB = 0 ]
                  reader = [ file = "{self.directory}/ends.ctf"; input = [ x = [ dim = 5; format = "sparse" ]; labels = [ alias = "y"; dim = 5; format = "sparse" ] ] ] ]
                ''', encoding='utf-8')
            text = self.run_trainer([f'configFile={self.directory}/ends.cntk'], ranks).text
            return text, [e['ce'] for e in support.epochs(text)]

        plain, found = train('first', 'z', None)
        self.assertIn('lie on different dynamic axes', plain)
        self.assertEqual(plain.count('state that their sequences have equal lengths'), 3, plain)
        self.assertEqual([count for _, count in found], [120] * 4)
        self.assertLess(found[-1][0], found[0][0])
        said, explicit = train('ReconcileDynamicAxis (first, BS.Sequences.Last (F (x)))', 'ReconcileDynamicAxis (z, labels)', None)
        self.assertEqual(len(found), len(explicit), said)
        for (a, _), (b, _), (c, _) in zip(found, explicit, train('first', 'z', 2)[1]):
            self.assertAlmostEqual(a, b, delta=1e-5)
            self.assertAlmostEqual(a, c, delta=1e-4)

    def test_atis(self):
        data = support.data_or_skip('atis')
        self.run_trainer([f'configFile={support.SOURCE}/samples/atis/atis.cntk', f'DataDir={data}', f'OutputDir={self.directory}', 'makeMode=false',
                          'Train=[SGD=[maxEpochs=1;epochSize=6000]]'], 1)
        text = (self.directory / 'atis.log').read_text(encoding='utf-8')
        final = support.final_results(text)
        self.assertEqual(final['errs'][1], 10984)
        self.assertRegex(text, r'Final Results: .*; perplexity = ')
        self.assertLess(final['errs'][0], 0.2)


if __name__ == '__main__':
    support.main()
