# SPDX-License-Identifier: Apache-2.0
"""Weights for other programs and back: trainer export --safetensors, --npz, and trainer import --into."""
import io
import json
import struct
import unittest
import zipfile

import support

CONFIG = '''
command = Train
Train = [
    action = "train"; modelPath = "$model$"; randomSeed = $seed$
    BrainScriptNetworkBuilder = {
        features = Input {(4:4:1)}; labels = Input {3}
        net = Sequential (ConvolutionalLayer {2, (3:3), pad = true} : BatchNormalizationLayer {spatialRank = 2} : ReLU : DenseLayer {5, activation = Tanh} : LinearLayer {3, init = "uniform"})
        z = net (features)
        ce = CrossEntropyWithSoftmax (labels, z)
        featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); outputNodes = (z)
    }
    SGD = [ minibatchSize = 8; learningRatesPerMB = 0.1; maxEpochs = $epochs$ ]
    reader = [ readerType = "SyntheticReader"; kind = "random"; samples = 32
               input = [ features = [ dim = 16 ; format = "dense" ]; labels = [ labelDim = 3 ] ] ]
]
Write = [ action = "write"; modelPath = "$model$"; outputPath = "$out$"; format = [ precisionFormat = ".9" ]
    reader = [ readerType = "SyntheticReader"; kind = "random"; samples = 32
               input = [ features = [ dim = 16 ; format = "dense" ]; labels = [ labelDim = 3 ] ] ] ]
'''


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack('<Q', data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != '__metadata__':
            begin, end = entry['data_offsets']
            found[name] = (tuple(entry['shape']), data[8 + length + begin:8 + length + end])
    return found


def write_safetensors(path, tensors):
    header, data = {}, b''
    for name, (shape, values) in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def read_npz(path):
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            (length,) = struct.unpack('<H', data[8:10])
            header = eval(data[10:10 + length])  # as NumPy itself reads it
            assert header['descr'] == '<f4' and not header['fortran_order']
            found[name.removesuffix('.npy')] = (header['shape'], data[10 + length:])
    return found


class ExportTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('net.cntk', CONFIG)

    def train(self, model, seed=1, epochs=1):
        self.run_trainer(['configFile=net.cntk', f'model={model}', f'seed={seed}', f'epochs={epochs}', 'out=none'])

    def outputs(self, model):
        self.run_trainer(['configFile=net.cntk', 'command=Write', f'model={model}', 'out=out', 'seed=1', 'epochs=1'])
        return (self.directory / 'out.z').read_text()

    def test_there_and_back_is_the_same_model(self):
        self.train('a.dnn')
        said = self.run_trainer(['export', 'a.dnn', '--safetensors', 'new/a.safetensors', '--npz=a.npz']).stdout
        self.assertIn("'a.npz': 11 tensors of 'a.dnn' as npz", said)
        tensors = read_safetensors(self.directory / 'new/a.safetensors')
        self.assertEqual(tensors, read_npz(self.directory / 'a.npz'))
        for name in ('new/a.safetensors', 'a.npz'):
            self.assertRegex(self.run_trainer(['info', name]).stdout, r'11 tensors.*\n[^|]*W +float32 +\(2, 1, 3, 3\)')
        shapes = sorted(shape for shape, _ in tensors.values())
        self.assertIn((2, 1, 3, 3), shapes)  # maps, channels, height, width
        self.train('b.dnn', seed=7, epochs=0)  # the same network with other weights
        self.assertNotEqual(self.outputs('a.dnn'), self.outputs('b.dnn'))
        for weights in ('new/a.safetensors', 'a.npz'):
            with self.subTest(weights):
                self.run_trainer(['import', weights, 'c.dnn', '--into', 'b.dnn'])
                self.assertEqual(self.outputs('c.dnn'), self.outputs('a.dnn'))
                self.run_trainer(['export', 'c.dnn', '--safetensors', 'c.safetensors', '--npz', 'c.npz'])
                for kind in ('npz', 'safetensors'):
                    first = 'new/a.safetensors' if kind == 'safetensors' else 'a.npz'
                    self.assertEqual((self.directory / f'c.{kind}').read_bytes(), (self.directory / first).read_bytes())

    def test_weights_that_do_not_match(self):
        self.train('a.dnn', epochs=0)
        self.run_trainer(['export', 'a.dnn', '--safetensors', 'a.safetensors'])
        tensors = read_safetensors(self.directory / 'a.safetensors')
        name, (shape, values) = next((n, t) for n, t in tensors.items() if len(t[0]) == 2 and t[0] == (5, 3))

        def message(changed, files=('w.safetensors', 'b.dnn')):
            write_safetensors(self.directory / 'w.safetensors', changed)
            error = self.run_trainer(['import', *files, '--into', 'a.dnn'], expect=2).stderr
            self.assertFalse((self.directory / 'b.dnn').exists())
            return error

        self.assertIn(f"'{name}' is (3, 5), the network has (5, 3): transpose it", message(tensors | {name: ((3, 5), values)}))
        self.assertIn(f"there is no tensor '{name}'", message({n: t for n, t in tensors.items() if n != name}))
        self.assertIn(f"the network has no parameter '{name}x'; did you mean", message(tensors | {name + 'x': (shape, values)}))
        write_safetensors(self.directory / 'w.safetensors', {n: t for n, t in tensors.items() if n.startswith('net.')})  # without the number of samples seen
        said = self.run_trainer(['import', 'w.safetensors', 'c.dnn', '--into', 'a.dnn']).stdout
        self.assertIn('it stays as it is', said)
        self.run_trainer(['export', 'c.dnn', '--safetensors', 'c.safetensors'])
        self.assertEqual(read_safetensors(self.directory / 'c.safetensors'), tensors)

    def test_numbers_beyond_float32_are_named(self):
        self.train('a.dnn', epochs=0)
        self.run_trainer(['export', 'a.dnn', '--safetensors', 'a.safetensors'])
        header, data = {}, b''
        for name, (shape, values) in read_safetensors(self.directory / 'a.safetensors').items():
            numbers = list(struct.unpack(f'<{len(values) // 4}f', values))
            if shape == (5, 3):
                wide, numbers[4] = name, 1e300
            data += struct.pack(f'<{len(numbers)}d', *numbers)
            header[name] = {'dtype': 'F64', 'shape': shape, 'data_offsets': [len(data) - 8 * len(numbers), len(data)]}
        text = json.dumps(header).encode()
        (self.directory / 'w.safetensors').write_bytes(struct.pack('<Q', len(text)) + text + data)
        said = self.run_trainer(['import', 'w.safetensors', 'b.dnn', '--into', 'a.dnn']).stdout
        self.assertIn(f"note: '{wide}' is float64 and rounded to float32, where 1 of its values are infinite\n", said)
        self.assertEqual(said.count('infinite'), 1)

    def test_mistakes(self):
        self.train('a.dnn', epochs=0)
        self.write('text', 'no model, and longer than any magic number at the beginning of a file')
        self.run_trainer(['export', 'a.dnn', '--npz', 'a.npz'])
        for words, message in (
                (['export', 'a.dnn'], "'export' is given no file to write"), (['export'], "'export' takes one file"),
                (['export', 'text', '--npz', 'x'], "'text' is neither a model or checkpoint of this program nor one of CNTK"),
                (['export', 'none.dnn', '--npz', 'x'], "opening 'none.dnn'"),
                (['export', 'a.dnn', '--safetensor', 'x'], "did you mean '--safetensors'?"), (['export', 'a.dnn', '--npz'], "'--npz' needs a value"),
                (['export', 'a.dnn', '--npz', 'a.dnn'], 'are the same file'), (['export', 'a.dnn', '--npz', '/proc/no/a.npz'], '/proc/no'),
                (['import', 'a.npz', 'b.dnn'], '--into MODEL'), (['import', 'text', 'b.dnn', '--into', 'a.dnn'], "'text', byte 0: the header has"),
                (['import', 'a.dnn', 'b.dnn', '--into', 'a.dnn'], 'a model of this program already'),
                (['import', 'a.npz', 'b.dnn', '--into', 'text'], "'text' is neither a model"), (['import', 'none.npz', 'b.dnn', '--into', 'a.dnn'], "opening 'none.npz'")):
            with self.subTest(words):
                said = self.run_trainer(words, expect=2).stderr
                self.assertIn(message, said)
                if '/proc' not in message:
                    self.assertIn('fix: ', said)
        self.assertIn('--safetensors FILE', self.run_trainer(['export', '--help']).stdout)
        self.assertIn('--safetensors FILE', self.run_trainer(['help=export']).stdout)


if __name__ == '__main__':
    support.main()
