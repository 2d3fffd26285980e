# SPDX-License-Identifier: Apache-2.0
"""Models that CNTK wrote: shown, imported, evaluated, and trained on. What CNTK itself wrote and computed is compared where
it is at hand (reference/cntk-models beside the real data); the other tests write a model as CNTK does.
"""
import re
import shutil
import struct
import unittest

import support

SAMPLES = support.DATA.parent / 'reference' / 'cntk-models'


def text(s):
    return s.encode('utf-16le') + b'\0\0'


def u64(n):
    return struct.pack('<Q', n)


def shape(*dims):
    return struct.pack(f'<I{len(dims)}I', len(dims), *dims)


def matrix(rows, values):
    return b'd' + text('BMAT') + u64(4) + text('unnamed') + struct.pack('<i', 0) + u64(rows) + u64(len(values) // rows) \
        + struct.pack(f'<{len(values)}f', *values) + text('EMAT')


def parameter(rows, columns, values):
    return struct.pack('<f', 1) + shape(rows, columns) + matrix(rows, values)


def input_value(dim):
    return u64(0) + u64(0) + shape(dim) + struct.pack('<I', 1) + text('') + struct.pack('<f', 0)


def model(nodes, criteria=('ce',), outputs=('z',)):
    """A file of format version 18; nodes are (class, name, inputs, content)."""
    b = text('BCN') + text('BVersion') + u64(18) + text('EVersion') + u64(len(nodes)) + text('BNodeList')
    for kind, name, _, content in nodes:
        b += text('float') + text(kind) + text(name) + content
    b += text('ENodeList') + text('BRelation')
    for _, name, inputs, _ in nodes:
        b += text(name) + u64(len(inputs)) + b''.join(text(i) for i in inputs)
    b += text('ERelation') + text('BRootNodes')
    for kind, names in (('Feature', ['features']), ('Label', ['labels']), ('Criterion', criteria), ('Eval', ['errs']), ('Output', outputs)):
        b += text(f'B{kind}Nodes') + u64(len(names)) + b''.join(text(n) for n in names) + text(f'E{kind}Nodes')
    return b + text('ERootNodes') + text('ECN')


# z = W x + b, column by column.
SMALL = [('InputValue', 'features', [], input_value(2)), ('InputValue', 'labels', [], input_value(2)),
         ('LearnableParameter', 'W', [], parameter(2, 2, [1, 2, 3, 4])), ('LearnableParameter', 'b', [], parameter(2, 1, [0.5, -0.5])),
         ('Times', 'Wx', ['W', 'features'], u64(1) + struct.pack('<i', -1)), ('Plus', 'z', ['Wx', 'b'], b''),
         ('CrossEntropyWithSoftmax', 'ce', ['labels', 'z'], b''), ('ErrorPrediction', 'errs', ['labels', 'z'], b'')]
# Momentum of W and b after 40 samples.
STATE = text('BVersion') + u64(2) + text('EVersion') + text('BCKP') + text('BLearnRate') + u64(40) + struct.pack('<dd', 0.01, 0.7) \
    + text('ELearnRate') + text('BMinibatchSize') + u64(10) + text('EMinibatchSize') + text('BGradient') \
    + matrix(2, [0.1, -0.1, 0.2, -0.2]) + matrix(2, [0.05, -0.05]) + text('EGradient') + text('BCount') + struct.pack('<dd', 0, 0) \
    + text('ECount') + text('ECKP')

READER = '''reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"; randomize = false
               input = [ features = [ dim = 2 ; format = "dense" ]; labels = [ dim = 2 ; format = "dense" ] ] ]'''
CONFIG = f'''
command = Write
Write = [ action = "write"; modelPath = "$model$"; outputPath = "out"; format = [ precisionFormat = ".4" ]; {READER} ]
Test = [ action = "test"; modelPath = "$model$"; {READER} ]
Train = [
    action = "train"; modelPath = "$model$"
    BrainScriptNetworkBuilder = {{ features = Input {{2}}; labels = Input {{2}}; z = LinearLayer {{2}} (features)
        ce = CrossEntropyWithSoftmax (labels, z); featureNodes = (features); labelNodes = (labels); criterionNodes = (ce) }}
    SGD = [ minibatchSize = 10; learningRatesPerMB = 0.1; maxEpochs = 3 ]
    {READER}
]
Tune = [
    action = "train"; modelPath = "$out$/net.dnn"
    BrainScriptNetworkBuilder = {{
        net = BS.Network.Load ("$model$")
        f = BS.Network.CloneFunction (net.features, net.z)
        features = Input {{2}}; labels = Input {{2}}; z = LinearLayer {{2}} (f (features))
        ce = CrossEntropyWithSoftmax (labels, z); featureNodes = (features); labelNodes = (labels); criterionNodes = (ce) }}
    SGD = [ minibatchSize = 10; learningRatesPerMB = 0.1; maxEpochs = 2 ]
    {READER}
]
model = "net.dnn"
'''
POINTS = ''.join(f'|labels {int(i % 2 == 0)} {i % 2} |features {i % 7 - 3} {i % 5 - 2 + 3 * (i % 2)}\n' for i in range(40))


class CntkModelsTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('net.cntk', CONFIG)
        self.write('train.ctf', POINTS)
        (self.directory / 'net.dnn').write_bytes(model(SMALL))

    def trainer(self, *words, **more):
        return self.run_trainer(['configFile=net.cntk', *words], **more)

    def test_outputs(self):
        self.trainer()
        rows = [[float(v) for v in line.split()] for line in (self.directory / 'out.z').read_text().splitlines()]
        expected = [[1 * x + 3 * y + 0.5, 2 * x + 4 * y - 0.5] for x, y in ((i % 7 - 3, i % 5 - 2 + 3 * (i % 2)) for i in range(40))]
        self.assertEqual(rows, expected)
        self.assertIn('errs = ', self.trainer('command=Test').text)

    def test_info(self):
        shown = self.run_trainer(['info', 'net.dnn']).stdout
        self.assertIn("'net.dnn': model of CNTK, format version 18, float\n8 nodes\n", shown)
        self.assertRegex(shown, r'\n  Wx +Times +\[2\] +W, features\n')
        self.assertRegex(shown, r'\n  W +parameter +\[2 x 2\] +2.5 +1.11803 +1 +4\n')
        self.assertIn('6 trained and 0 other values in 2 parameters and 0 statistics', shown)
        (self.directory / 'net.dnn.ckp').write_bytes(STATE)
        self.assertIn('samples seen        40\n', self.run_trainer(['info', 'net.dnn.ckp']).stdout)

    def test_import(self):
        text = self.run_trainer(['import', 'net.dnn', 'new/own.dnn']).stdout
        self.assertIn("'net.dnn' (model of CNTK, format version 18) is saved as 'new/own.dnn'.", text)
        theirs, ours = (self.run_trainer(['info', name]).stdout.split('\n', 1) for name in ('net.dnn', 'new/own.dnn'))
        self.assertEqual(theirs[1], ours[1])
        self.assertIn("'new/own.dnn': model, format version 1", ours[0])

    def test_words_and_files_that_are_none(self):
        for words, message in ((['info'], "'info' takes one file"), (['import', 'net.dnn'], "'import' takes two files"),
                               (['info', 'net.cntk'], "error: 'net.cntk' is neither a model or checkpoint of this program nor one of CNTK"),
                               (['info', 'none'], "error: opening 'none'"), (['import', 'net.dnn', 'net.dnn'], 'are the same file')):
            with self.subTest(words):
                self.assertIn(message, self.run_trainer(words, expect=2).stderr)

    # A model that is trained on from CNTK's file is the same, bit for bit, as one from the imported file.
    def test_training_is_that_of_our_own_model(self):
        self.run_trainer(['import', 'net.dnn', 'own.dnn'])
        for name in ('net', 'own'):
            self.trainer('command=Tune', f'model={name}.dnn', f'out={name}')
        self.assertEqual((self.directory / 'net/net.dnn').read_bytes(), (self.directory / 'own/net.dnn').read_bytes())

    def test_a_run_goes_on(self):
        for name in ('a', 'b'):
            (self.directory / name).mkdir()
            (self.directory / name / 'net.dnn.1.ckp').write_bytes(STATE)
        shutil.move(self.directory / 'net.dnn', self.directory / 'a' / 'net.dnn.1')
        self.run_trainer(['import', 'a/net.dnn.1', 'b/net.dnn.1'])
        texts = [self.trainer('command=Train', f'model={name}/net.dnn').text for name in ('a', 'b')]
        for shown in texts:
            self.assertIn("the description in 'Train' is not used", shown)
            self.assertIn('40 samples seen; the state of the optimizer is taken over', shown)
            epochs = re.findall(r'Finished Epoch\[ *(\d) of 3\].* totalSamplesSeen = (\d+)', shown)
            self.assertEqual(epochs, [('2', '80'), ('3', '120')])
        self.assertEqual((self.directory / 'a/net.dnn').read_bytes(), (self.directory / 'b/net.dnn').read_bytes())
        # From a file of ours that the run has made, with the network of CNTK's as before.
        (self.directory / 'a/net.dnn').unlink()
        (self.directory / 'a/net.dnn.1').unlink()
        self.trainer('command=Train', 'model=a/net.dnn')
        self.assertEqual((self.directory / 'a/net.dnn').read_bytes(), (self.directory / 'b/net.dnn').read_bytes())

    def test_what_cannot_be_read_is_found_by_check(self):
        unknown = SMALL[:5] + [('OptimizedRNNStack', 'rnn', ['W', 'features'], b'')] + SMALL[5:]
        for content, message in ((model(unknown), "the node 'rnn' is of the class 'OptimizedRNNStack', which this version does not know"),
                                 (model(SMALL)[:-9], "is damaged at byte"), (model(SMALL).replace(u64(18), u64(30), 1), 'format version 30')):
            (self.directory / 'net.dnn').write_bytes(content)
            for words in (['--check'], ['--check', 'command=Test'], ['--check', 'command=Tune', 'out=out']):
                with self.subTest(message=message, words=words):
                    result = self.trainer(*words, expect=2)
                    self.assertIn(message, result.stderr)
                    self.assertIn('net.cntk:', result.stderr)
            self.assertIn(message, self.run_trainer(['info', 'net.dnn'], expect=2).stderr)


class SamplesTest(support.TrainerTest):
    """Models that CNTK trained, with its own outputs."""

    def setUp(self):
        super().setUp()
        if not SAMPLES.exists():
            raise unittest.SkipTest(f'models of CNTK not found: {SAMPLES}')

    def copy(self, name, files=('*',)):
        for pattern in files:
            for f in (SAMPLES / name).glob(pattern):
                if not f.name.startswith('output.txt'):
                    shutil.copyfile(f, self.directory / f.name)
        data = {'atis': 'atis/atis.train.ctf', 'sequ': 'atis/atis.train.ctf', 'mlp-': 'simple2d/SimpleDataTrain_cntk_text.txt',
                'simp': 'simple2d/SimpleDataTrain_cntk_text.txt', 'ndl-': 'simple2d/SimpleDataTrain_cntk_text.txt'}
        images = SAMPLES / 'images8x8.train.ctf'
        if not name.startswith('released') and not (self.directory / 'train.ctf').exists():
            shutil.copyfile(support.DATA / data[name[:4]] if name[:4] in data and name != 'ndl-conv' else images, self.directory / 'train.ctf')

    def test_outputs_are_those_of_cntk(self):
        for folder in sorted(SAMPLES.iterdir()):
            if not folder.is_dir() or not [f for f in folder.iterdir() if f.suffix in ('.dnn', '.cmf')]:
                continue
            with self.subTest(folder.name):
                for f in self.directory.iterdir():
                    f.unlink()
                self.copy(folder.name)
                self.run_trainer(['configFile=config.cntk'])
                for expected in folder.glob('output.txt.*'):
                    theirs = [float(v) for v in expected.read_text().split()]
                    ours = [float(v) for v in (self.directory / expected.name).read_text().split()]
                    self.assertEqual(len(theirs), len(ours))
                    for a, b in zip(theirs, ours):
                        self.assertAlmostEqual(a, b, delta=max(1e-4 * abs(a), 1e-9))

    def test_the_second_epoch_is_that_of_cntk(self):
        self.copy('simple2d-builder', ['config.cntk', 'input.ctf', 'model.dnn.1', 'model.dnn.1.ckp'])
        found = support.epochs(self.run_trainer(['configFile=config.cntk']).text)
        self.assertEqual(len(found), 1)
        self.assertAlmostEqual(found[0]['CrossEntropyWithSoftmax'][0], 0.33839509, delta=0.33839509e-6)


if __name__ == '__main__':
    support.main()
