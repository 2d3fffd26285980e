# SPDX-License-Identifier: Apache-2.0
"""Networks that were exported as ONNX give onnxruntime's outputs: every network of samples/ (those of configs/ are the same with other
methods), and one with each operation. onnxruntime comes from PyPI, into a virtual environment of the test."""
import contextlib
import filecmp
import json
import math
import shutil
import subprocess
import unittest

import support
import pip_venv

# config: settings, inputs of one-hot vectors, streams that only say the layout, lengths of sequences (or None)
ZOO = {
    'mnist/mnist': {}, 'mnist/lenet': {}, 'cifar10/resnet20': {}, 'cifar10/resnet110': {}, 'digits/digits': {}, 'methods/plain': {}, 'simple2d/simple2d': {},
    'imagenet/alexnet': {}, 'imagenet/googlenet': {}, 'imagenet/vgg16': {}, 'imagenet/vgg19': {}, 'imagenet/resnet50': {}, 'hybrid/alexnet': {},
    'hybrid/vgg-e': {'settings': ['Pooling=3']},
    'hybrid/words': {'settings': ['Words=300'], 'sparse': ['x'], 'lengths': [5, 1, 9]},
    'atis/atis': {'sparse': ['query'], 'lengths': [7, 1, 12]}, 'atis/bidirectional': {'sparse': ['query'], 'lengths': [7, 1, 12]},
    'characters/characters': {'sparse': ['x'], 'lengths': [20, 3]}, 'events/events': {'lengths': [4, 1, 9], 'extra': {'labels': 3}},
}
# The dense layers of AlexNet and VGG, which have half a gigabyte of weights, are as narrow here.
WIDE, NARROW = 'Dense {4096}', 'Dense {64}'

WRITE = '''
Write = [ action = "write"; modelPath = "$model$"; outputPath = "out"; minibatchSize = 64; format = [ precisionFormat = ".9" ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "data.ctf"; randomize = false; input = [ STREAMS ] ] ]
'''

TRAIN = '''
Train = [ action = "train"; modelPath = "net.dnn"; SGD = [ minibatchSize = 8; learningRatesPerMB = 0.1; maxEpochs = 0 ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"; input = [ %s ] ]
    BrainScriptNetworkBuilder = { %s
        label = Input {1}; loss = SquareError (label, Sigmoid (ReduceSum (%s)))
        featureNodes = (%s); labelNodes = (label); criterionNodes = (loss); outputNodes = (%s) } ]
'''


class OnnxTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        help_text = self.run_trainer(['export', '--help']).stdout
        self.assertIn('--onnx FILE', help_text)
        python = pip_venv.python_with('numpy', 'onnxruntime')
        # One process for the whole test: it takes longer to load onnxruntime than to run most networks.
        with open(self.directory / 'errors', 'wb') as errors:
            self.process = subprocess.Popen([python, support.SOURCE / 'tests/end_to_end/onnx_run.py', 'serve'], cwd=self.directory,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(self.process.communicate)  # the end of its input ends it

    def run_python(self, *words):
        with contextlib.suppress(BrokenPipeError):  # 'errors' says more
            self.process.stdin.write(json.dumps([str(word) for word in words]) + '\n')
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        self.assertTrue(answer, (self.directory / 'errors').read_text(encoding='utf-8', errors='replace'))
        succeeded, said = json.loads(answer)
        self.assertTrue(succeeded, said)
        return said

    def export(self, *words, expect=0):
        result = self.run_trainer(['export', *words], expect=expect)
        if 'built without ONNX' in result.text:
            raise unittest.SkipTest('this trainer was built without ONNX')
        return result

    # Compares `trainer write` with onnxruntime on random data.
    def compare(self, model, sparse=(), lengths=None, extra=None, samples=3, again=False):
        shown = self.export(model, '--onnx', 'net.onnx').stdout
        if again:  # the same bytes every time
            (self.directory / 'net.onnx').rename(self.directory / 'first.onnx')
            self.export(model, '--onnx', 'net.onnx')
            self.assertTrue(filecmp.cmp(self.directory / 'first.onnx', self.directory / 'net.onnx', shallow=False))
        inputs = {}
        for line in shown.splitlines():
            if line.startswith('  input '):
                dims = line[line.index('[') + 1:-1].split(', ')
                inputs[line.split()[1]] = [int(d) for d in dims[2 if lengths else 1:]]
        spec = {'inputs': inputs, 'sparse': list(sparse), 'extra': extra or {}} | ({'lengths': lengths} if lengths else {'samples': samples})
        self.run_python('data', json.dumps(spec), 'data.ctf', 'data.npz')
        streams = dict(extra or {}) | {name: math.prod(dims) for name, dims in inputs.items()}
        described = '; '.join(f'{name} = [ dim = {dim}; format = "{"sparse" if name in sparse else "dense"}" ]' for name, dim in streams.items())
        self.write('write.cntk', WRITE.replace('STREAMS', described))
        self.run_trainer(['configFile=write.cntk', 'command=Write', f'model={model}'])
        return self.run_python('compare', 'net.onnx', 'data.npz', 'out')

    def first_model(self, name, settings):
        """The network of a sample as it begins, and with other weights."""
        folder = self.directory / 'samples'
        command = 'Train' if name in ('digits/digits', 'methods/plain', 'simple2d/simple2d', 'hybrid/words') else 'Synthetic'
        if name == 'simple2d/simple2d':
            self.write('points/SimpleDataTrain_cntk_text.txt', ''.join(f'|features {i % 7} {i % 5 + 1} |labels {i % 2} {1 - i % 2}\n' for i in range(50)))
        self.run_trainer([f'configFile={folder / name}.cntk', f'command={command}', f'OutputDir={self.directory}', 'makeMode=false', 'stderr=log', 'DataDir=points',
                          'modelPath=net.dnn', f'{command}=[modelPath=net.dnn;SGD=[maxEpochs=0]]', *settings])
        self.run_trainer(['export', 'net.dnn', '--safetensors', 'net.safetensors'])
        self.run_python('shake', 'net.safetensors', 'shaken.safetensors')
        self.run_trainer(['import', 'shaken.safetensors', 'shaken.dnn', '--into', 'net.dnn'])
        return 'shaken.dnn'

    def test_every_sample_is_tried(self):
        folder = support.SOURCE / 'samples'
        configs = {str(p.relative_to(folder).with_suffix('')) for p in folder.glob('*/*.cntk') if p.stem != 'data' and p.parent.name != 'methods'}
        self.assertEqual(configs | {'methods/plain'}, set(ZOO))

    def test_zoo(self):
        for folder in ('samples', 'configs'):
            shutil.copytree(support.SOURCE / folder, self.directory / folder)
        narrow = 0
        for config in (self.directory / 'samples').glob('*/*.cntk'):
            text = config.read_text(encoding='utf-8')
            narrow += text.count(WIDE)
            config.write_text(text.replace(WIDE, NARROW), encoding='utf-8')
        self.assertEqual(narrow, 4)
        for name, of in ZOO.items():
            with self.subTest(name):
                model = self.first_model(name, of.get('settings', []))
                said = self.compare(model, of.get('sparse', ()), of.get('lengths'), of.get('extra'))
                print(f'{name}: {said.strip()}')
                for f in self.directory.glob('*.*'):
                    f.unlink()

    def network(self, text, outputs, inputs):
        described = '; '.join(f'{name} = [ dim = {dim}; format = "dense" ]' for name, dim in (inputs | {'label': 1}).items())
        self.write('train.ctf', ''.join('|label 1 ' + ' '.join(f'|{name} ' + ' '.join(['0.5'] * dim) for name, dim in inputs.items()) + '\n' for _ in range(8)))
        self.write('net.cntk', TRAIN % (described, text, next(iter(inputs)), ':'.join(inputs), ':'.join(outputs)))
        self.run_trainer(['configFile=net.cntk', 'command=Train', 'makeMode=false'])

    def operations(self, lines, inputs, declared, lengths=None):
        names = [f'o{i}' for i in range(len(lines))]
        text = declared + '\n' + '\n'.join(f'{name} = {line}' for name, line in zip(names, lines))
        self.network(text, names, inputs)
        print(self.compare('net.dnn', lengths=lengths, samples=4, again=True).strip())

    def test_operations_on_vectors(self):
        self.operations([
            'x + b', 'x - Slice (0, 1, x)', 'x .* w3', 'W * x', 'TransposeTimes (V, x)', 'DiagTimes (w4, x)', 'KhatriRaoProduct (x, Slice (1, 3, x))',
            'Times (T, x, outputRank = 2)', 'LookupTable (E, Softmax (x))', 'LogPlus (x, W * x)', 'Less (x, b)', 'Equal (x, x)', 'GreaterEqual (x, b)',
            'NotEqual (x, b)', 'Greater (x, b)', 'LessEqual (x, b)', 'BS.Boolean.If (Less (x, b), x, b)', 'Clip (-0.5, 0.5, x)', 'Clip (0.5, b, x)', '-x', 'Reciprocal (x .* Less (b, x))',
            'Sigmoid (x)', 'Tanh (x)', 'RectifiedLinear (x)', 'Exp (x)', 'Log (x)', 'Sqrt (x)', 'Abs (x)', 'Floor (x)', 'Ceil (x)', 'Round (3 * x)', 'Sin (x)',
            'Cosine (x)', 'Pass (x)', 'Dropout (x)', 'Softmax (x)', 'LogSoftmax (x)', 'Hardmax (x)', 'ReduceSum (x)', 'ReduceMean (x)', 'ReduceMax (x)',
            'ReduceMin (x)', 'ReduceLogSum (x)', 'SumColumnElements (x)', 'CosDistance (x, W * x)', 'Slice (1, -1, x)', 'RowStack (x : b)', 'RowRepeat (x, 3)',
            'Splice (x : x, axis = 2)', 'LinearLayer {3} (x)', 'BatchNormalizationLayer {} (x)', 'StabilizerLayer {} (x)', 'LayerNormalizationLayer {} (x)'],
            {'x': 4}, '''x = Input {4}; b = Parameter (4, 1, init = "uniform", initValueScale = 1); w3 = Parameter (1, 1, init = "fixedValue", value = 0.3)
                w4 = Parameter (4, 1, init = "uniform"); W = Parameter (4, 4, init = "uniform"); V = Parameter (4, 5, init = "uniform")
                T = ParameterTensor {(2:3:4), init = "uniform"}; E = Parameter (5, 4, init = "uniform")''')

    def test_operations_on_images(self):
        self.operations([
            'ConvolutionalLayer {3, (3:3)} (x)', 'ConvolutionalLayer {3, (3:2), pad = true, stride = 2} (x)', 'ConvolutionalLayer {4, (2:2), stride = (2:1), pad = (false:true)} (x)',
            'MaxPoolingLayer {(2:2), stride = 2} (x)', 'MaxPoolingLayer {(3:3), stride = 2, pad = true} (x)', 'AveragePoolingLayer {(3:2), stride = (2:1), pad = true} (x)',
            'AveragePoolingLayer {(3:3), stride = 2, pad = true, ceilOutDim = true, includePad = true} (x)',
            'AveragePoolingLayer {(2:3), stride = 3} (x)', 'BatchNormalizationLayer {spatialRank = 2} (x)', 'DenseLayer {5} (x)', 'ReduceSum (x, axis = 2)', 'ReduceMean (x, axis = 3)',
            'ReduceMax (x, axis = 1)', 'Softmax (x, axis = 3)', 'Softmax (x)', 'LogSoftmax (x, axis = 1)', 'TransposeDimensions (x, 1, 3)', 'ReshapeDimension (x, 1, (2:3))',
            'NewReshape (x, (5:12))', 'Splice (x : x, axis = 3)', 'Slice (1, 4, x, axis = 2)', 'x + bias', 'x .* row', 'MaxPoolingLayer {(1:1), stride = 2, pad = true} (x)',
            'ConvolutionalLayer {2, (1:1), stride = 2, pad = true} (x)',
            'Convolution (M, x, (2:2), mapDims = 2, stride = 1, autoPadding = false, imageLayout = "HWC")', 'Pooling (x, "max", (2:2), stride = 2, imageLayout = "HWC")',
            'LocalResponseNormalization (x, 1, 2, 0.5, 0.75)', 'Convolution (K1, x, (3:2:2), mapDims = 3, autoPadding = (true:true:false))', 'Convolution (D, x, (3:2), mapDims = 3, stride = (2:3), autoPadding = (false:false), transpose = true)'],
            {'x': 60}, '''x = Input {(6:5:2)}; bias = ParameterTensor {(1:1:2), init = "uniform"}; row = ParameterTensor {6, init = "uniform"}; D = ParameterTensor {(3:2:3:2), init = "uniform"}
            M = ParameterTensor {(2:2:6:2), init = "uniform"}; K1 = ParameterTensor {(3:2:2:3), init = "uniform"}''')

    def test_operations_in_time(self):
        self.operations([
            'PastValue (4, x)', 'FutureValue (4, x)', 'PastValue (4, x, timeStep = 3, defaultHiddenActivation = 0.25)', 'FutureValue (4, x, timeStep = 2)',
            'RecurrentLSTMLayer {5} (x)', 'RecurrentLSTMLayer {5, goBackwards = true} (x)', 'RecurrentLSTMLayer {5, enableSelfStabilization = true} (x)',
            'Splice (DelayLayer {T = 1} (x) : DelayLayer {T = -2} (x))', 'BS.RNNs.RecurrentGRU (5, x).h', 'loop.h', 'both.h', 'BS.Sequences.First (x) + 0 .* BS.Sequences.First (x)',
            'RecurrentLSTMLayer {5, trainInitialState = true} (x)', 'RecurrentLSTMLayer {3, goBackwards = true} (2 .* x)', 'gru (G * x, Hg, false)', 'gru (G * x + g, Hg, true)',
            'new ComputationNode { operation = "GRU" ; inputs = (G * x + g) : Hg : g ; resetAfter = true ; backwards = true }', 'gru (2 * (G * x), Hg, false)', 'gru (2 * (G * x), Hg, true)',
            'new ComputationNode { operation = "GRU" ; inputs = (2 * (G * x)) : Hg : g ; resetAfter = true }', 'new ComputationNode { operation = "LSTM" ; inputs = (2 * (L * x)) : Hl ; backwards = true }',
            'new ComputationNode { operation = "TimeReverse" ; inputs = x }', 'DenseLayer {3} (x)', 'BS.Loop.IsFirst (x)', 'BatchNormalizationLayer {} (x)', 'back.h'],
            {'x': 4}, '''x = Input {4}; R = Parameter (3, 3, init = "uniform"); U = Parameter (3, 4, init = "uniform"); s = Parameter (3, 1, init = "uniform")
                G = Parameter (6, 4, init = "uniform", initValueScale = 20); g = Parameter (6, 1, init = "uniform", initValueScale = 20); Hg = Parameter (6, 2, init = "uniform", initValueScale = 20)
                L = Parameter (8, 4, init = "uniform", initValueScale = 20); Hl = Parameter (8, 2, init = "uniform", initValueScale = 20)
                gru (p, h, after) = new ComputationNode { operation = "GRU" ; inputs = p : h ; resetAfter = after }
                loop = { h = Tanh (U * x + R * PastValue (3, h, timeStep = 2, defaultHiddenActivation = 0.3)) }
                both = { h = Sigmoid (U * x + c); c = R * PastValue (3, h) + PastValue (3, c) }
                back = { h = Tanh (U * x + R * FutureValue (3, h)) }''', lengths=[6, 1, 3, 2])

    def test_refusals(self):
        self.network('x = Input {4}; h = RectifiedLinear (x); z = BS.Sequences.Gather (Less (Slice (0, 1, h), Slice (1, 2, h)), h)', ['z'], {'x': 4})
        error = self.export('net.dnn', '--onnx', 'net.onnx', expect=2).stderr
        for words in ('have no counterpart in ONNX', '(GatherPacked)', '(Where)', '(PackedIndex)', 'fix: export the nodes before them'):
            self.assertIn(words, error)
        self.assertFalse((self.directory / 'net.onnx').exists())
        self.export('net.dnn', '--onnx', 'net.onnx', '--output', 'h')
        self.assertIn("'loss' (SquareError): a criterion", self.export('net.dnn', '--onnx', 'n', '--output', 'loss', expect=2).stderr)
        self.assertIn("did you mean 'h'?", self.export('net.dnn', '--onnx', 'n', '--output', 'hh', expect=2).stderr)
        self.assertIn('without --onnx', self.export('net.dnn', '--npz', 'n', '--output', 'h', expect=2).stderr)


if __name__ == '__main__':
    support.main()
