# SPDX-License-Identifier: Apache-2.0
"""Networks from Keras files and from the older network language, trained: on vectors, images and sequences."""
import json
import random
import re

import examples
import support

CONFIG = '''
modelPath = "models/model.dnn"
command = Train
numCPUThreads = 1
Train = [
    action = "train"
    SGD = [ minibatchSize = 32; learningRatesPerMB = 0.5; maxEpochs = 3; numMBsToShowResult = 0
            ParallelTrain = [ parallelizationMethod = "DataParallelSGD" ] ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"
               input = [ features = [ alias = "x" ; dim = $dim$ ; format = "dense" ]; labels = [ alias = "y" ; dim = $classes$ ; format = "dense" ] ] ]
]
dim = 2
classes = 2
'''


def layer(kind, name, **config):
    return {'class_name': kind, 'config': dict(name=name, **config)}


def model(*layers):
    return json.dumps({'class_name': 'Sequential', 'config': {'name': 's', 'layers': list(layers)}, 'keras_version': '2.4.0'})


class BuildersTest(support.TrainerTest):
    def train(self, builder, *options, ranks=None):
        self.write('run.cntk', CONFIG + f'Train = [ {builder} ]\n')
        text = self.run_trainer(['configFile=run.cntk', *options], ranks).text
        epochs = support.epochs(text)
        self.assertEqual(len(epochs), 3)
        return text, epochs

    def test_keras_perceptron(self):
        self.write('train.ctf', examples.points(400))
        self.write('model.json', model(layer('Dense', 'hidden', units=16, activation='tanh', batch_input_shape=[None, 2]),
                                       layer('Dense', 'top', units=2, activation='softmax')))
        text, epochs = self.train('KerasNetworkBuilder = [ file = "model.json" ]')
        self.assertIn('Training 82 parameters in 4 ', text)
        # Only error rates are percentages, whatever letter a name ends in.
        self.assertRegex(epochs[0]['line'], r' loss = \d\.\d{8} \* 400; errs = \d+\.\d{3}% \* 400;')
        self.assertLess(epochs[-1]['loss'][0], epochs[0]['loss'][0])
        together, shared = self.train('KerasNetworkBuilder = [ file = "model.json" ]', 'makeMode=false', ranks=2)
        for one, other in zip(epochs, shared):
            self.assertAlmostEqual(one['loss'][0], other['loss'][0], places=4)
        tested = self.run_trainer(['configFile=run.cntk', 'command=Test', 'Test=[action=test;reader=[readerType=CNTKTextFormatReader;file=train.ctf;'
                                   'input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]]'])
        self.assertIn('errs', support.final_results(tested.text))

    def test_keras_images(self):
        draw = random.Random(3)
        rows = []
        for _ in range(200):  # a bright bar lies or stands
            kind, at = draw.randrange(2), draw.randrange(6)
            pixels = [[draw.uniform(0, 0.3) + ((r if kind else c) == at) for c in range(6)] for r in range(6)]
            rows.append('|x ' + ' '.join(f'{v:.3f}' for row in pixels for v in row) + f' |y {kind} {1 - kind}\n')
        self.write('train.ctf', ''.join(rows))
        self.write('model.json', model(
            layer('Conv2D', 'conv', filters=6, kernel_size=[3, 3], padding='same', activation='relu', batch_input_shape=[None, 6, 6, 1]),
            layer('BatchNormalization', 'norm', axis=[3], momentum=0.9, epsilon=0.001),
            layer('MaxPooling2D', 'pool', pool_size=[2, 2]), layer('Flatten', 'flat'), layer('Dropout', 'drop', rate=0.1),
            layer('Dense', 'top', units=2, activation='softmax')))
        text, epochs = self.train('KerasNetworkBuilder = [ file = "model.json" ]', 'dim=36')
        self.assertIn('Training 182 parameters in 6 ', text)
        self.assertLess(epochs[-1]['errs'][0], 0.2)

    def test_keras_sequences(self):
        draw = random.Random(5)
        lines = []
        for i in range(150):  # does the first number of the sequence lie above 0?
            values = [draw.uniform(-1, 1) for _ in range(draw.randrange(1, 7))]
            for step, v in enumerate(values):
                label = f' |y {int(values[0] > 0)} {int(values[0] <= 0)}' if step == 0 else ''
                lines.append(f'{i} |x {v:.4f} 1{label}\n')
        self.write('train.ctf', ''.join(lines))
        for kind, count, more in (('LSTM', 4 * 6 * (2 + 6 + 1), {}), ('LSTM', 4 * 6 * (2 + 6 + 1), {'recurrent_activation': 'sigmoid'}), ('GRU', 3 * 6 * (2 + 6 + 2), {'reset_after': True}),
                                  ('GRU', 3 * 6 * (2 + 6 + 1), {'reset_after': False}),
                                  ('SimpleRNN', 6 * (2 + 6 + 1), {'go_backwards': True})):
            self.write('model.json', model(layer(kind, 'cells', units=6, batch_input_shape=[None, None, 2], **more),
                                           layer('Dense', 'top', units=2, activation='softmax')))
            text, epochs = self.train('KerasNetworkBuilder = [ file = "model.json" ]', 'makeMode=false')
            self.assertIn(f'Training {count + 14} parameters', text)
            self.assertEqual(epochs[0]['loss'][1], 150, 'one label for each sequence')
            self.assertLess(epochs[-1]['loss'][0], epochs[0]['loss'][0])

    def test_older_language(self):
        self.write('train.ctf', examples.points(400))
        self.write('net.ndl', '''
load=Macros
run=Net
Macros=[
    Layer(in, out, x) { W=Parameter(out, in, init=uniform, initValueScale=10)
                        b=Parameter(out, 1, init=fixedValue, value=0)
                        z=Plus(Times(W, x), b) }
]
Net=[
    features=Input($dim$); labels=Input($classes$)
    h=Tanh(Layer($dim$, 12, features))
    top=Layer(12, $classes$, h)
    ce=CrossEntropyWithSoftmax(labels, top)
    errs=ErrorPrediction(labels, top)
    FeatureNodes=(features); LabelNodes=(labels); CriterionNodes=(ce); EvalNodes=(errs); OutputNodes=(top)
]
''')
        text, epochs = self.train('NDLNetworkBuilder = [ networkDescription = "net.ndl" ]')
        self.assertIn('Training 62 parameters in 4 ', text)
        self.assertLess(epochs[-1]['ce'][0], epochs[0]['ce'][0])

    def test_older_language_with_a_loop(self):
        lines = []
        draw = random.Random(6)
        for i in range(60):
            total = 0
            for _ in range(draw.randrange(2, 6)):
                v = draw.uniform(-1, 1)
                total += v
                lines.append(f'{i} |x {v:.4f} 1 |y {int(total > 0)} {int(total <= 0)}\n')
        self.write('train.ctf', ''.join(lines))
        text, epochs = self.train('''NDLNetworkBuilder = [ run = net
            net = [ features = Input(2); labels = Input(2)
                    W = Parameter(5, 2); R = Parameter(5, 5); V = Parameter(2, 5)
                    before = PastValue(5, h, timeStep=1, defaultHiddenActivity=0)
                    h = Tanh(Plus(Times(W, features), Times(R, before)))
                    z = Times(V, h)
                    ce = CrossEntropyWithSoftmax(labels, z, tag=criteria) ] ]''')
        self.assertIn('Training 45 parameters in 3 ', text)
        self.assertLess(epochs[-1]['ce'][0], epochs[0]['ce'][0])

    def test_trace_nodes_show_their_values(self):
        self.write('train.ctf', examples.points(200))
        network = '''BrainScriptNetworkBuilder = {
            features = Input {2}; labels = Input {2}
            h = %s
            z = LinearLayer {2} (h); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }'''
        layer = 'DenseLayer {5, activation=Tanh} (features)'
        text, plain = self.train(network % layer)
        self.assertNotIn('Trace[', text)
        text, traced = self.train(network % f'Trace ({layer}, say="hidden", logFirst=2, logFrequency=4, onlyUpToRow=3, onlyUpToT=2)', 'makeMode=false')
        self.assertEqual([e['ce'] for e in plain], [e['ce'] for e in traced])
        shown = re.findall(r'------- Trace\[(\d+)\] hidden --> h\n((?:[-.\d ]+\n)+)', text)
        self.assertEqual([int(number) for number, _ in shown], [1, 2, 5] * 3)  # of 7 minibatches in each of 3 epochs
        for _, values in shown:
            self.assertEqual([len(line.split()) for line in values.splitlines()], [3, 3])


class SeedsTest(support.TrainerTest):
    def test_an_offset_gives_other_initial_weights_of_the_same_network(self):
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(100))
        models = []
        for offset in (0, 0, 1000):
            self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'randomSeedOffset={offset}', 'Train=[SGD=[maxEpochs=0]]'])
            models.append((self.directory / 'models/model.dnn').read_bytes())
        self.assertEqual(models[0], models[1])
        self.assertEqual(len(models[0]), len(models[2]))
        self.assertNotEqual(models[0], models[2])
        self.assertIn("'randomSeedOffset' cannot be negative", self.run_trainer(['configFile=run.cntk', '--check', 'randomSeedOffset=-1'], expect=2).stderr)


if __name__ == '__main__':
    support.main()
