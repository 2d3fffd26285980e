# SPDX-License-Identifier: Apache-2.0
"""The Python package, installed by pip from the tree, with files that the trainer reads and writes."""
import os
import subprocess
import unittest

import support
import pip_venv

CONFIG = '''
command = Train
Train = [ action = "train"; modelPath = "net.dnn"; SGD = [ minibatchSize = 4; learningRatesPerMB = 0.1; maxEpochs = 3 ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"; input = [ features = [ dim = 6 ; format = "dense" ]; labels = [ dim = 3 ; format = "sparse" ] ] ]
    BrainScriptNetworkBuilder = { features = Input {(3:2)}; labels = Input {3}; z = LinearLayer {3} (features); ce = CrossEntropyWithSoftmax (labels, z)
        featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); outputNodes = (z) } ]
Sequences = [ action = "train"; modelPath = "seq.dnn"; SGD = [ minibatchSize = 4; learningRatesPerMB = 0.1; maxEpochs = 1 ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "seq.ctf"; input = [ x = [ dim = 2 ; format = "dense" ]; y = [ dim = 3 ; format = "sparse" ] ] ]
    BrainScriptNetworkBuilder = { x = Input {2}; y = Input {3}; z = LinearLayer {3} (RecurrentLSTMLayer {2} (x)); ce = CrossEntropyWithSoftmax (y, z)
        featureNodes = (x); labelNodes = (y); criterionNodes = (ce); outputNodes = (z) } ]
'''

WRITE = '''
import numpy, tutti
random = numpy.random.default_rng(3)
x, y = random.standard_normal((40, 2, 3)).astype(numpy.float32), random.integers(0, 3, 40)
tutti.write_ctf('train.ctf', features=x, labels=tutti.one_hot(y, 3))
numpy.save('x.npy', x), numpy.save('y.npy', y)
lengths = [3, 1, 5]
tutti.write_ctf('seq.ctf', x=[random.standard_normal((n, 2)) for n in lengths], y=[tutti.one_hot(random.integers(0, 3, n), 3) for n in lengths])
for wrong in ({}, {'x': [[1, 2]], 'y': numpy.zeros((3, 1))}, {'x': numpy.array([[numpy.nan]])}, {'a b': numpy.zeros((1, 1))}, {'x': tutti.one_hot([5], 3)}):
    try:
        tutti.write_ctf('wrong.ctf', **wrong)
    except ValueError:
        continue
    raise SystemExit(f'{wrong} was written')
one, two = [numpy.zeros((0, 2)), numpy.ones((1, 2))], [numpy.ones((1, 1)), numpy.zeros((0, 1))]
tutti.write_ctf('empty.ctf', f=one, g=two)
assert open('empty.ctf').read() == '0 |g 1\\n1 |f 1 1\\n'
for wrong, why in (({'f': one}, "sequence 0 is empty in all streams: 'f'"), ({'f': numpy.zeros((0, 3))}, "no samples: 'f'"), ({'f': numpy.zeros((3, 0))}, "'f' has samples without values")):
    try:
        tutti.write_ctf('wrong.ctf', **wrong)
    except ValueError as e:
        assert why in str(e), e
        continue
    raise SystemExit(f'{wrong} was written')
assert list(tutti.one_hot(numpy.array([2.0, 0.0]), 3).indices[:, 0]) == [2, 0]
for wrong in ([1.5], [0, numpy.nan]):
    try:
        tutti.one_hot(wrong, 3)
    except ValueError:
        continue
    raise SystemExit(f'{wrong} are classes')
'''

READ = '''
import numpy, tutti
model = tutti.read_model('net.dnn')
weights = tutti.read_safetensors('net.safetensors')
assert model.kind == 'model' and 'LearnableParameter' in model.graph
assert sorted(model) == sorted(weights), (sorted(model), sorted(weights))
assert all(numpy.array_equal(model[n], weights[n]) and model[n].shape == weights[n].shape for n in model)
W, = [w for w in model.values() if w.size == 18]
b, = [w for w in model.values() if w.size == 3]
z = numpy.tensordot(numpy.load('x.npy'), W, 2) + b
predicted = tutti.read_predictions('z.npy')
numpy.testing.assert_allclose(predicted, z, rtol=1e-5, atol=1e-5)
for name in ('z.csv', 'z.json'):
    rows = tutti.read_predictions(name)
    assert rows['sample'].dtype.kind == 'i' and list(rows['sample']) == list(range(40)), name
    assert list(rows['class'].astype(int)) == list(z.argmax(1)) if name == 'z.json' else rows['class1'].astype(int).tolist() == z.argmax(1).tolist()
numpy.testing.assert_allclose(tutti.read_predictions('z.json')['values'], z, rtol=1e-5, atol=1e-5)
for name, cut, place in (('z.csv', 'sample,z\\n0,1\\n1', 'cut.csv:3'), ('z.csv', 'sample,z\\n0,1,2\\n', 'cut.csv:2'), ('z.json', '[\\n{"sample": 0', 'cut.json:2'),
                         ('z.csv', 'sample,z,z\\n0,1,2\\n', "cut.csv:1: there are two columns 'z'"), ('z.json', '{"sample": 0}', 'cut.json: no list')):
    with open('cut' + name[1:], 'w') as f:
        f.write(cut)
    try:
        tutti.read_predictions('cut' + name[1:])
    except ValueError as e:
        assert place in str(e), e
        continue
    raise SystemExit(f'{cut} was read')
with open('text.csv', 'w') as f:
    f.write('file,class,score,class0\\n1e5,nan,0.5,1.5\\n')
assert {n: v.tolist() for n, v in tutti.read_predictions('text.csv').items()} == {'file': ['1e5'], 'class': ['nan'], 'score': [0.5], 'class0': [1.5]}
for header, why in (('[]', 'byte 8'), ('{', 'byte 8'), ('{"a": 3}', "'a'"), ('{"a": {"dtype": "F32", "shape": [1]}}', "'a'"),
                    ('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}', "'a'"), ('{"a": {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]}}', "'a'"),
                    ('{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}', "'a'")):
    open('wrong.safetensors', 'wb').write(len(header).to_bytes(8, 'little') + header.encode() + bytes(8))
    try:
        tutti.read_safetensors('wrong.safetensors')
    except ValueError as e:
        assert 'wrong.safetensors: ' in str(e) and why in str(e), e
        continue
    raise SystemExit(f'{header} was read')
log = tutti.read_log('train.log')
assert list(log['epoch']) == [1, 2, 3] and log['ce'][2] < log['ce'][0] and list(log['totalSamplesSeen']) == [40, 80, 120], log
with open('m.jsonl', 'w') as f:
    f.write('{"step": 1, "loss": 2.5, "ranks": {"wait": 0.5}}\\n{"step": 2, "loss": null}\\n{"step": 3, "lo')
metrics = tutti.read_metrics('m.jsonl')
assert list(metrics['step']) == [1, 2] and metrics['loss'][0] == 2.5 and numpy.isnan(metrics['loss'][1]) and metrics['ranks/wait'][0] == 0.5
with open('back.log', 'w') as f:
    for epoch, ce in ((1, 0.5), (2, 0.25), (3, 9.0)):
        f.write(f'Finished Epoch[ {epoch} of 4]: [Training] ce = {ce} * 40; totalSamplesSeen = {40 * epoch}\\n')
    f.write('Loading (rolling back to) previous model with best training-criterion value: models/net.dnn.2.\\n')
assert list(tutti.read_log('back.log')['ce']) == [0.5, 0.25]
with open('two.log', 'w') as f:
    for command, values in (('First', (0.5, 0.25)), ('Second', (0.75,))):
        f.write(f'# {command} command (train action)   #\\n')
        for epoch, ce in enumerate(values, 1):
            f.write(f'Finished Epoch[ {epoch} of 2]: [Training] ce = {ce} * 40; totalSamplesSeen = {40 * epoch}\\n')
assert [list(tutti.read_log('two.log', command=c)['ce']) for c in ('First', 'Second')] == [[0.5, 0.25], [0.75]]
for command in (None, 'Third'):
    try:
        tutti.read_log('two.log', command=command)
    except ValueError as e:
        assert "two.log: trainings: 'First', 'Second'" in str(e), e
        continue
    raise SystemExit(f'two.log was read for {command}')
checkpoint = tutti.read_model('net.dnn.ckp')
assert checkpoint.kind == 'checkpoint' and any(name.startswith('optimizer/') for name in checkpoint), list(checkpoint)
data = open('net.dnn', 'rb').read()
for cut in (0, 50, len(data) // 2, len(data) - 1):
    open('cut.dnn', 'wb').write(data[:cut])
    try:
        tutti.read_model('cut.dnn')
    except ValueError as e:
        assert 'cut.dnn, byte' in str(e)
        continue
    raise SystemExit(f'{cut} bytes were read')
changed = {name: 2 * array for name, array in model.items()}
tutti.write_safetensors('changed.safetensors', changed)
'''


class PythonPackageTest(support.TrainerTest):
    def run_python(self, text):
        done = subprocess.run([self.python, '-c', text], cwd=self.directory, capture_output=True, text=True, check=False,
                              env=os.environ | {'PYTHONPATH': str(self.directory / 'site')})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_round(self):
        self.python = pip_venv.python_with('numpy')
        pip_venv.install(self.python, '--no-deps', '--target', str(self.directory / 'site'), str(support.SOURCE / 'python'))
        self.write('net.cntk', CONFIG)
        self.run_python(WRITE)
        self.run_trainer(['configFile=net.cntk', 'stderr=train.log'])
        self.run_trainer(['configFile=net.cntk', 'command=Sequences'])
        self.run_trainer(['export', 'net.dnn', '--safetensors', 'net.safetensors'])
        self.run_trainer(['predict', 'net.dnn', '--input', 'x.npy', '--output', 'z.npy'])
        self.run_trainer(['predict', 'net.dnn', '--input', 'train.ctf', '--output', 'z.csv', '--top', '1'])
        self.write('names', '0\n1\n2\n')
        self.run_trainer(['predict', 'net.dnn', '--input', 'train.ctf', '--output', 'z.json', '--classes', 'names'])
        self.run_python(READ)
        self.run_trainer(['import', 'changed.safetensors', 'changed.dnn', '--into', 'net.dnn'])
        self.run_python("import tutti; a, b = tutti.read_model('net.dnn'), tutti.read_model('changed.dnn'); assert all((2 * a[n] == b[n]).all() for n in a)")


if __name__ == '__main__':
    support.main()
