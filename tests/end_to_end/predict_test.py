# SPDX-License-Identifier: Apache-2.0
"""trainer predict: images, CTF and arrays in; CSV, JSON and arrays out. Values are those of action write."""
import csv
import json
import math
import struct
import unittest
import zlib

import support

NET = '''
command = Train
Train = [ action = "train"; modelPath = "net.dnn"; SGD = [ minibatchSize = 4; learningRatesPerMB = 0.1; maxEpochs = 0 ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "data.ctf"; input = [ features = [ dim = 12 ; format = "dense" ]; labels = [ dim = 3 ; format = "dense" ] ] ]
    BrainScriptNetworkBuilder = { features = Input {(2:2:3)}; labels = Input {3}; z = LinearLayer {3} (features - 128) .* 0.01
        ce = CrossEntropyWithSoftmax (labels, z); featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); outputNodes = (z) } ]
Write = [ action = "write"; modelPath = "net.dnn"; outputPath = "out"; format = [ precisionFormat = ".9" ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "data.ctf"; randomize = false; input = [ features = [ dim = 12 ; format = "dense" ] ] ] ]
'''
SEQUENCES = '''
command = Train
Train = [ action = "train"; modelPath = "seq.dnn"; SGD = [ minibatchSize = 4; learningRatesPerMB = 0.1; maxEpochs = 0 ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "seq.ctf"; input = [ x = [ alias = "S0"; dim = 2 ; format = "dense" ]; y = [ alias = "S1"; dim = 2 ; format = "dense" ] ] ]
    BrainScriptNetworkBuilder = { x = Input {2}; y = Input {2}; z = RecurrentLSTMLayer {2} (x); ce = SquareError (y, z)
        featureNodes = (x); labelNodes = (y); criterionNodes = (ce); outputNodes = (z) } ]
Write = [ action = "write"; modelPath = "seq.dnn"; outputPath = "out"; format = [ precisionFormat = ".9" ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "seq.ctf"; randomize = false; input = [ x = [ alias = "S0"; dim = 2 ; format = "dense" ] ] ] ]
'''


def png(width, height, pixels):
    """An RGB image; pixels are rows of (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + bytes(v for p in row for v in p) for row in pixels)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


def npy(shape, values, code='<f4', letter='f'):
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b' ' * (-(len(text) + 11) % 64) + b'\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text + struct.pack(f'<{len(values)}{letter}', *values)


SAMPLES = [[(i * 37 + k * 11) % 256 for k in range(12)] for i in range(5)]  # width fastest, then height, then blue, green, red


class PredictTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('net.cntk', NET)
        self.write('data.ctf', ''.join(f'|features {" ".join(map(str, s))} |labels 1 0 0\n' for s in SAMPLES))
        self.write('names.txt', 'cat\ndog, big\n"owl"\n')
        self.run_trainer(['configFile=net.cntk'])
        self.run_trainer(['configFile=net.cntk', 'command=Write'])
        self.expected = [[float(v) for v in line.split()] for line in (self.directory / 'out.z').read_text().splitlines()]

    def predict(self, *words, **more):
        return self.run_trainer(['predict', 'net.dnn', *words], **more)

    def rows(self, text):
        return list(csv.reader(text.splitlines()))

    def assert_values(self, found, expected=None):
        expected = expected or self.expected
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            for x, y in zip(a, b, strict=True):
                self.assertAlmostEqual(float(x), y, delta=2e-6 * max(1, abs(y)))

    def test_ctf(self):
        rows = self.rows(self.predict('--input', 'data.ctf').stdout)
        self.assertEqual(rows[0], ['sample', 'z[0]', 'z[1]', 'z[2]'])
        self.assertEqual([r[0] for r in rows[1:]], ['0', '1', '2', '3', '4'])
        self.assert_values([r[1:] for r in rows[1:]])
        self.write('other.ctf', ''.join(f'|pixels {" ".join(map(str, s))}\n' for s in SAMPLES))
        again = self.rows(self.predict('--input', 'other.ctf', '--map', 'features=pixels', '--minibatch=2').stdout)
        self.assert_values([r[1:] for r in again[1:]])
        # Without recurrence the lines of a sequence are samples like all others.
        self.write('ids.ctf', ''.join(f'{i // 3} |features {" ".join(map(str, s))}\n' for i, s in enumerate(SAMPLES)))
        rows = self.rows(self.predict('--input', 'ids.ctf').stdout)
        self.assertEqual([r[0] for r in rows], ['sample', '0', '1', '2', '3', '4'])
        self.assert_values([r[1:] for r in rows[1:]])

    def test_images(self):
        for i, s in enumerate(SAMPLES):
            (self.directory / f'pictures/{i % 2}').mkdir(parents=True, exist_ok=True)
            pixels = [[(s[8 + 2 * y + x], s[4 + 2 * y + x], s[2 * y + x]) for x in range(2)] for y in range(2)]
            (self.directory / f'pictures/{i % 2}/{i}.png').write_bytes(png(2, 2, pixels))
        rows = self.rows(self.predict('--input', 'pictures').stdout)
        self.assertEqual([r[0] for r in rows[1:]], [f'pictures/{i % 2}/{i}.png' for i in (0, 2, 4, 1, 3)])
        self.assert_values([r[1:] for r in rows[1:]], [self.expected[i] for i in (0, 2, 4, 1, 3)])
        one = self.rows(self.predict('--input', 'pictures/1/3.png', '--input', 'pictures/0/2.png').stdout)
        self.assert_values([r[1:] for r in one[1:]], [self.expected[3], self.expected[2]])
        # A factor on the pixels is one on the values: as those of a file in CTF.
        self.write('scaled.ctf', ''.join(f'|features {" ".join(str(v / 255) for v in s)}\n' for s in SAMPLES))
        scaled = [[float(v) for v in r[1:]] for r in self.rows(self.predict('--input', 'scaled.ctf').stdout)[1:]]
        for factor in ('1/255', '0.00392156863'):
            rows = self.rows(self.predict('--input', 'pictures', '--scale', factor).stdout)
            self.assert_values([r[1:] for r in rows[1:]], [scaled[i] for i in (0, 2, 4, 1, 3)])
        for factor in ('1/0', 'x', '1:255', '0'):
            self.assertIn(f"--scale '{factor}' is no factor", self.predict('--input', 'pictures', '--scale', factor, expect=2).stderr)
        self.assertIn('--scale is for images', self.predict('--input', 'data.ctf', '--scale', '1/255', expect=2).stderr)
        vector = NET.replace('(2:2:3)', '12').replace('net.dnn', 'vector.dnn')
        self.write('vector.cntk', vector)
        self.run_trainer(['configFile=vector.cntk'])
        self.run_trainer(['configFile=vector.cntk', 'command=Write'])
        expected = [[float(v) for v in line.split()] for line in (self.directory / 'out.z').read_text().splitlines()]
        of_vector = self.run_trainer(['predict', 'vector.dnn', '--input', 'pictures', '--size', '2:2:3']).stdout
        self.assert_values([r[1:] for r in self.rows(of_vector)[1:]], [expected[i] for i in (0, 2, 4, 1, 3)])
        self.assertIn('--size', self.run_trainer(['predict', 'vector.dnn', '--input', 'pictures'], expect=2).stderr)
        # An image that is not square is taken whole, as ImageReader does; only --crop takes its center.
        s = SAMPLES[0]
        (self.directory / 'wide.png').write_bytes(png(3, 4, [[(s[8 + x], s[4 + x], s[x]) for x in range(3)] for _ in range(4)]))
        self.write('wide.ctf', '|features ' + ' '.join(str(s[c + x]) for c in (0, 4, 8) for _ in range(4) for x in range(3)) + '\n')
        self.write('wide.cntk', NET.replace('(2:2:3)', '(3:4:3)').replace('net.dnn', 'wide.dnn').replace('dim = 12', 'dim = 36').replace('data.ctf', 'wide_train.ctf'))
        self.write('wide_train.ctf', ''.join(f'|features {" ".join(["1"] * 36)} |labels 1 0 0\n' for _ in range(3)))
        self.run_trainer(['configFile=wide.cntk'])
        of_values = self.rows(self.run_trainer(['predict', 'wide.dnn', '--input', 'wide.ctf']).stdout)[1][1:]
        of_image = self.rows(self.run_trainer(['predict', 'wide.dnn', '--input', 'wide.png']).stdout)[1][1:]
        self.assert_values([of_image], [[float(v) for v in of_values]])
        self.assertIn('does not make the 12 values', self.run_trainer(['predict', 'vector.dnn', '--input', 'pictures', '--size=2:2:1'], expect=2).stderr)
        (self.directory / 'pictures/broken.png').write_bytes(b'\x89PNG\r\n\x1a\nxx')
        said = self.predict('--input', 'pictures', expect=None).stderr
        self.assertIn("'pictures/broken.png': ", said)
        self.assertIn('fix: replace the image, or leave it out of --input', said)
        for words in ('map.txt', 'maxErrors', 'tutti-predict'):
            self.assertNotIn(words, said)

    def test_arrays(self):
        flat = [v for s in SAMPLES for v in s]
        for shape, code, letter in (((5, 3, 2, 2), '<f4', 'f'), ((5, 12), '|u1', 'B'), ((5, 3, 4), '<f8', 'd')):
            (self.directory / 'x.npy').write_bytes(npy(shape, flat, code, letter))
            self.predict('--input', 'x.npy', '--output', 'new/z.npy', '--minibatch', '2')
            data = (self.directory / 'new/z.npy').read_bytes()
            self.assertIn(b"'shape': (5, 3)", data)
            self.assert_values([struct.unpack_from('<3f', data, 128 + 12 * i) for i in range(5)])
        (self.directory / 'x.npy').write_bytes(npy((4, 15), flat))
        self.assertIn("'features' needs (samples, 3, 2, 2)", self.predict('--input', 'x.npy', expect=2).stderr)
        for shape in ((5, 2, 2, 3), (5, 4, 3), (5, 2, 6)):  # as many values in another order
            (self.directory / 'x.npy').write_bytes(npy(shape, flat))
            self.assertIn("'features' needs (samples, 3, 2, 2)", self.predict('--input', 'x.npy', expect=2).stderr)

    def test_classes(self):
        softmax = [[math.exp(v - max(e)) for v in e] for e in self.expected]
        softmax = [[v / sum(e) for v in e] for e in softmax]
        names = ['cat', 'dog, big', '"owl"']
        best = [names[e.index(max(e))] for e in self.expected]
        rows = self.rows(self.predict('--input', 'data.ctf', '--classes', 'names.txt', '--softmax').stdout)
        self.assertEqual(rows[0], ['sample', 'class', 'score'] + names)
        self.assertEqual([r[1] for r in rows[1:]], best)
        self.assert_values([r[3:] for r in rows[1:]], softmax)
        self.predict('--input', 'data.ctf', '--classes', 'names.txt', '--softmax', '--top', '2', '--output', 'z.json')
        found = json.loads((self.directory / 'z.json').read_text())
        self.assertEqual([f['sample'] for f in found], list(range(5)))
        for f, e in zip(found, softmax):
            order = sorted(range(3), key=lambda i, e=e: -e[i])[:2]
            self.assertEqual([t['class'] for t in f['top']], [names[i] for i in order])
            self.assert_values([[t['score'] for t in f['top']]], [[e[i] for i in order]])
        rows = self.rows(self.predict('--input', 'data.ctf', '--top=1').stdout)
        self.assertEqual(rows[0], ['sample', 'class1', 'score1'])
        self.assertEqual([names[int(r[1])] for r in rows[1:]], best)
        # No two columns have one name. With --top, and in JSON, names head no columns.
        for lines, number, name in (('a\nb\na\n', 3, 'a'), ('a\nscore\nb\n', 2, 'score')):
            self.write('twice.txt', lines)
            said = self.predict('--input', 'data.ctf', '--classes', 'twice.txt', '--output', 'twice.csv', expect=2).stderr
            self.assertIn(f"twice.txt:{number}: '{name}' would be the name of two columns\nfix: another name", said)
            self.assertFalse((self.directory / 'twice.csv').exists())
        self.predict('--input', 'data.ctf', '--classes', 'twice.txt', '--top', '1')
        self.predict('--input', 'data.ctf', '--classes', 'twice.txt', '--format', 'json')

    def test_a_test_counts_the_names_too(self):
        self.write('test.cntk', NET.replace('command = Train', 'command = Test') + '''
Test = [ action = "test"; modelPath = "net.dnn"; confusionTable = true; labelMappingFile = "$names$"
    reader = [ readerType = "CNTKTextFormatReader"; file = "data.ctf"; input = [ features = [ dim = 12 ; format = "dense" ]; labels = [ dim = 3 ; format = "dense" ] ] ] ]
''')
        self.assertIn('dog, big', self.run_trainer(['configFile=test.cntk', 'names=names.txt']).text)
        for count in (2, 4):
            self.write('some.txt', 'a\nb\nc\nd\n'[:2 * count])
            said = self.run_trainer(['configFile=test.cntk', 'names=some.txt'], expect=None).text
            self.assertIn(f"'some.txt' names {count} classes, but 'z' has 3 values", said)
            self.assertIn('fix: ', said)

    def test_an_array_for_a_sparse_input(self):
        self.write('sparse.cntk', NET.replace('Input {(2:2:3)}', 'SparseInput {12}').replace('(features - 128) .* 0.01', '(features)')
                   .replace('dim = 12 ; format = "dense"', 'dim = 12 ; format = "sparse"').replace('net.dnn', 'sparse.dnn'))
        self.write('data.ctf', '|features 1:2 |labels 1 0 0\n')
        self.run_trainer(['configFile=sparse.cntk'])
        (self.directory / 'x.npy').write_bytes(npy((1, 12), [0.0] * 12))
        said = self.run_trainer(['predict', 'sparse.dnn', '--input', 'x.npy'], expect=2).stderr
        self.assertIn("the input 'features' is sparse", said)
        self.assertIn('fix: give a file in CTF: |features INDEX:1', said)
        self.run_trainer(['predict', 'sparse.dnn', '--input', 'data.ctf'])

    def test_sequences(self):
        self.write('seq.cntk', SEQUENCES)
        steps = [[(1, 2), (3, 4), (-1, 0.5)], [(0, 1)], [(2, 2), (1, 1), (0, 0)]]
        self.write('seq.ctf', ''.join(f'{i} |S0 {a} {b} |S1 0 0\n' for i, s in enumerate(steps) for a, b in s))
        self.run_trainer(['configFile=seq.cntk'])
        self.run_trainer(['configFile=seq.cntk', 'command=Write'])
        expected = [[float(v) for v in line.split()] for line in (self.directory / 'out.z').read_text().splitlines() if line.strip()]
        rows = self.rows(self.run_trainer(['predict', 'seq.dnn', '--input', 'seq.ctf', '--map', 'x=S0']).stdout)
        self.assertEqual(rows[0][:2], ['sequence', 'step'])
        self.assertEqual([tuple(map(int, r[:2])) for r in rows[1:]], [(i, k) for i, s in enumerate(steps) for k in range(len(s))])
        self.assert_values([r[2:] for r in rows[1:]], expected)
        (self.directory / 'one.npy').write_bytes(npy((3, 2), [v for p in steps[0] for v in p]))
        rows = self.rows(self.run_trainer(['predict', 'seq.dnn', '--input', 'one.npy']).stdout)
        self.assert_values([r[2:] for r in rows[1:]], expected[:3])
        # One number per step: (time, 1) is a sequence, not sequences of one step.
        self.write('one.cntk', SEQUENCES.replace('dim = 2', 'dim = 1').replace('{2}', '{1}').replace('seq.', 'one.'))
        self.write('one.ctf', ''.join(f'0 |S0 {v} |S1 0\n' for v in (1, -2, 3)))
        self.run_trainer(['configFile=one.cntk'])
        (self.directory / 'line.npy').write_bytes(npy((3, 1), [1, -2, 3]))
        rows = self.rows(self.run_trainer(['predict', 'one.dnn', '--input', 'line.npy']).stdout)
        self.assertEqual(rows, self.rows(self.run_trainer(['predict', 'one.dnn', '--input', 'one.ctf', '--map', 'x=S0']).stdout))
        self.assertEqual([r[:2] for r in rows[1:]], [['0', '0'], ['0', '1'], ['0', '2']])
        (self.directory / 'none.npy').write_bytes(npy((0, 2), []))
        self.assertRegex(self.run_trainer(['predict', 'seq.dnn', '--input', 'none.npy'], expect=2).stderr, 'no samples\nfix: ')
        (self.directory / 'two.npy').write_bytes(npy((2, 3, 2), [v for s in (steps[0], steps[2]) for p in s for v in p]))
        rows = self.rows(self.run_trainer(['predict', 'seq.dnn', '--input', 'x=two.npy']).stdout)
        self.assert_values([r[2:] for r in rows[1:]], expected[:3] + expected[4:])

    def test_mistakes(self):
        (self.directory / 'x.npy').write_bytes(npy((1, 12), [0.0] * 12))
        self.write('bad.ctf', '|features 1 2 x\n')
        for words, message in (
                ([], "'predict' is given no input"), (['--input', 'none.ctf'], "there is no input 'none.ctf'"), (['--input', 'bad.ctf'], 'bad.ctf:1'),
                (['--input', 'data.ctf', '--node', 'zz'], "has no node 'zz'"), (['--input', 'data.ctf', '--node', 'ce'], 'ce'),
                (['--input', 'data.ctf', '--input', 'x.npy'], 'different kinds'), (['--input', 'x.npy', '--output', 'z.npy', '--top', '1'], 'an array holds values'),
                (['--input', 'x.npy', '--format', 'npy'], 'an array needs a file'), (['--input', 'x.npy', '--format', 'xml'], "no format 'xml'"),
                (['--input', 'x.npy', '--top', 'many'], "--top = 'many' is not a whole number"), (['--input', 'x.npy', '--mean', 'm.xml'], '--mean is for images'),
                (['--input', 'x.npy', '--classes', 'data.ctf'], "names 5 classes, but 'z' has 3"), (['--input', 'data.ctf', '--map', 'features=S7'], "has no stream 'S7' for the network's input 'features'"), (['--input', 'data.ctf', '--map', 'labels=S1'], "does not need the input 'labels'"),
                (['--input', 'data.ctf', '--output', 'data.ctf/o.csv'], "data.ctf' is no directory\nfix: name a file that can be written"),
                (['--input', 'data.ctf', '--classes', 'names.txt', '--output', 'names.txt', '--format', 'csv'], "'names.txt' and 'names.txt' are the same file\nfix: "),
                (['--input', 'data.ctf', '--map', 'label=S1'], "'label=S1' names no input of the network"), (['--input', 'data.ctf', '--output', 'o.xlsx'], "no format has the ending '.xlsx'")):
            with self.subTest(words):
                self.assertIn(message, self.predict(*words, expect=2).stderr)
        self.assertFalse((self.directory / 'o.xlsx').exists())
        self.predict('--input', 'data.ctf', '--output', 'o.xlsx', '--format', 'csv')
        self.predict('--input', 'data.ctf', '--output', './plain')
        self.assertEqual((self.directory / 'plain').read_text(), (self.directory / 'o.xlsx').read_text())
        self.assertIn('--softmax', self.predict('--help').stdout)


if __name__ == '__main__':
    support.main()
