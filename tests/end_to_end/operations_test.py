# SPDX-License-Identifier: Apache-2.0
"""Operations that look at several samples, or have weights for each position: trained, saved, and tested from the file, on one rank and on
two. Queries that are sequences are never divided, so ranks find the same weights; negative samples are those of a rank's own share."""
import random

import support

CONFIG = '''
command = Train:Test
makeMode = false
modelPath = "$OutputDir$/net.dnn"
stderr = "$OutputDir$/net.log"
reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/data.ctf"; randomize = false; input = [ %(streams)s ] ]
Train = [
  action = "train"
  %(network)s
  SGD = [ maxEpochs = 4; minibatchSize = 60; learningRatesPerSample = %(rate)s; momentumPerMB = 0; numMBsToShowResult = 0
          ParallelTrain = [ parallelizationMethod = DataParallelSGD; DataParallelSGD = [ gradientBits = 32 ] ] ]
]
Test = [ action = "test"; minibatchSize = 1000 ]
'''

RANKING = '''BrainScriptNetworkBuilder = {
    x = Input {4}; gain = Input {1, tag='label'}; query = Input {1, tag='label'}
    score = DenseLayer {1} (DenseLayer {6, activation=Tanh} (x))
    cost = LambdaRank (gain, score, query, tag='criterion')
    first = NDCG1Eval (gain, score, query, tag='evaluation')
  }'''

LOCAL = '''BrainScriptNetworkBuilder = {
    x = Input {16}; y = Input {3, tag='label'}
    W = ParameterTensor {(3:3:1:2:2:3), init='glorotUniform'}
    own = Convolution (W, NewReshape (x, 4:4:1), (3:3:1), mapDims=3, sharing=false, autoPadding=false)
    z = DenseLayer {3} (Tanh (own))
    ce = CrossEntropyWithSoftmax (y, z, tag='criterion'); errs = ClassificationError (y, z, tag='evaluation')
  }'''
LOCAL_NDL = '''
  x = InputValue(16, tag="feature"); y = InputValue(3, tag="label")
  W = Parameter(3, 36, init="uniform", initValueScale=5)
  own = Convolution(W, Reshape(x, 16, imageWidth=4, imageHeight=4, imageChannels=1), {3, 3}, mapCount=3, sharing=false, autoPadding=false, imageLayout="HWC")
  V = Parameter(3, 12); z = Times(V, Reshape(Tanh(own), 12))
  ce = CrossEntropyWithSoftmax(y, z, tag="criteria"); errs = ClassificationError(y, z, tag="eval")
'''

NEGATIVES = '''BrainScriptNetworkBuilder = {
    q = Input {5}; d = Input {5}
    embed = DenseLayer {4, activation=Tanh}
    cosines = CosDistanceWithNegativeSamples (embed (q), DenseLayer {4, activation=Tanh} (d), Constant (1), 3)
    own = Slice (0, 1, cosines)
    cost = ReduceLogSum (10 * cosines) - 10 * own
    loss = SumElements (cost, tag='criterion'); closeness = SumElements (own, tag='evaluation')
  }'''

WRITE = '''
command = Write
Write = [
  action = "write"; modelPath = "none"; outputPath = "$OutputDir$/out"
  BrainScriptNetworkBuilder = { %(network)s }
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/data.ctf"; randomize = false; input = [ %(streams)s ] ]
]
'''


class OperationsTest(support.TrainerTest):
    def train(self, network, streams, ranks, *options, rate='0.02'):
        described = ' '.join(f'{n} = [ dim = {d}; format = "dense" ];' for n, d in streams)
        (self.directory / 'net.cntk').write_text(CONFIG % {'network': network, 'streams': described, 'rate': rate}, encoding='utf-8')
        self.run_trainer([f'configFile={self.directory}/net.cntk', f'OutputDir={self.directory}', *options], ranks)
        log = (self.directory / 'net.log').read_text(encoding='utf-8')
        return support.epochs(log), support.final_results(log)

    def test_rankings_of_queries(self):
        draw = random.Random(1)
        wanted = [1, -2, 0.5, 1.5]
        with open(self.directory / 'data.ctf', 'w', encoding='utf-8') as out:
            for q in range(80):
                documents = [[draw.uniform(-1, 1) for _ in wanted] for _ in range(draw.randint(1, 9))]
                for x in sorted(documents, key=lambda x: -sum(map(float.__mul__, map(float, wanted), x))):
                    gain = max(0, round(sum(w * v for w, v in zip(wanted, x))))
                    out.write(f'{q} |x {" ".join(map(str, x))} |gain {gain} |query {q}\n')
        streams = [('x', 4), ('gain', 1), ('query', 1)]
        epochs, one = self.train(RANKING, streams, 1, rate='0.02')
        # A query without any gain costs all that it can.
        self.assertLess(epochs[-1]['cost'][0], 0.6 * epochs[0]['cost'][0])
        self.assertGreater(epochs[-1]['first'][0], epochs[0]['first'][0])
        _, two = self.train(RANKING, streams, 2, rate='0.02')
        # Tested on one rank each: a rank's value is the mean over its own queries.
        _, tested = self.train(RANKING, streams, 1, 'command=Test', rate='0.02')
        for name in ('cost', 'first'):
            self.assertAlmostEqual(one[name][0], tested[name][0], delta=1e-3 * one[name][0])
            self.assertEqual(one[name][1], two[name][1])

    def images(self):
        draw = random.Random(2)
        with open(self.directory / 'data.ctf', 'w', encoding='utf-8') as out:
            for _ in range(300):
                kind = draw.randrange(3)
                x = [draw.gauss(0, 1) + (2 if i // 4 == kind else 0) for i in range(16)]
                out.write(f'|x {" ".join(f"{v:.4f}" for v in x)} |y {" ".join(str(int(k == kind)) for k in range(3))}\n')

    def test_convolution_without_sharing(self):
        self.images()
        (self.directory / 'net.ndl').write_text(LOCAL_NDL, encoding='utf-8')
        for network in (LOCAL, f'NDLNetworkBuilder = [ networkDescription = "{self.directory}/net.ndl" ]'):
            one, tested = self.train(network, [('x', 16), ('y', 3)], 1)
            self.assertLess(one[-1]['ce'][0], 0.8 * one[0]['ce'][0])
            self.assertLess(tested['errs'][0], 0.4)
            two, tested_too = self.train(network, [('x', 16), ('y', 3)], 2)
            for a, b in zip(one, two):
                self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=1e-5)
            self.assertAlmostEqual(tested['ce'][0], tested_too['ce'][0], delta=1e-5)

    def test_negative_samples(self):
        draw = random.Random(3)
        with open(self.directory / 'data.ctf', 'w', encoding='utf-8') as out:
            for _ in range(240):
                q = [draw.uniform(-1, 1) for _ in range(5)]
                out.write(f'|q {" ".join(f"{v:.4f}" for v in q)} |d {" ".join(f"{-v:.4f}" for v in reversed(q))}\n')
        for ranks in (1, 2):
            epochs, tested = self.train(NEGATIVES, [('q', 5), ('d', 5)], ranks, rate='0.01')
            self.assertLess(epochs[-1]['loss'][0], 0.8 * epochs[0]['loss'][0])
            self.assertGreater(tested['closeness'][0], 0.5)

    def write(self, network, streams, lines, *options, expect=0):
        """What action write prints for the outputs of a network that is not trained: the numbers of each sample."""
        described = ' '.join(f'{n} = [ dim = {d}; format = "dense" ];' for n, d in streams)
        (self.directory / 'data.ctf').write_text(lines, encoding='utf-8')
        (self.directory / 'write.cntk').write_text(WRITE % {'network': network, 'streams': described}, encoding='utf-8')
        done = self.run_trainer([f'configFile={self.directory}/write.cntk', f'OutputDir={self.directory}', *options], expect=expect)
        if expect:
            return done.text
        return [[float(v) for v in line.split()] for line in (self.directory / 'out.o').read_text(encoding='utf-8').splitlines()]

    def test_a_loss_along_an_axis_is_masked_sample_by_sample(self):
        lines = '|z 1 2 |y 1 0 |m 1\n|z 0 3 |y 0 1 |m 0\n|z 2 2 |y 1 0 |m 1\n'
        network = 'z = Input {2}; y = Input {2}; m = Input {1}; o = %s (y, z, axis=1) .* m; outputNodes = (o)'
        streams = [('z', 2), ('y', 2), ('m', 1)]
        for size in (1, 3):
            losses = self.write(network % 'CrossEntropyWithSoftmax', streams, lines, f'Write=[minibatchSize={size}]')
            for (found,), wanted in zip(losses, (1.3132617, 0, 0.6931472), strict=True):
                self.assertAlmostEqual(found, wanted, delta=1e-6)
            # Both elements of the last sample are the largest, so its prediction is not the label.
            self.assertEqual(self.write(network % 'ClassificationError', streams, lines, f'Write=[minibatchSize={size}]'), [[1], [0], [1]])

    def test_regions_in_pixels(self):
        lines = '|x ' + ' '.join(map(str, range(16))) + ' |r 32 16 63 63\n'
        network = 'x = Input {4:4:1}; r = Input {4:1}; o = ROIPooling (x, r, (2:1)%s); outputNodes = (o)'
        streams = [('x', 16), ('r', 4)]
        # Columns 2 to 4 and rows 1 to 4 of an image 16 times smaller than the picture, in two parts that share column 3.
        self.assertEqual(self.write(network % ', spatialScale=1/16', streams, lines), [[15, 15]])
        self.assertEqual(self.write(network % '', streams, lines.replace('32 16 63 63', '0 0 0.5 0.5')), [[4, 5]])
        told = self.write(network % '', streams, lines, expect=1)
        self.assertIn("ROIPooling 'o': a region has the value 32, but without spatialScale regions are", told)
        self.assertIn('fix: for regions x1, y1, x2, y2 in pixels of the picture, add spatialScale', told)


if __name__ == '__main__':
    support.main()
