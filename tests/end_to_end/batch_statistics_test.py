# SPDX-License-Identifier: Apache-2.0
"""Action bnstat: running statistics of batch normalisation from the data, the same for any number of ranks."""
import examples
import support

CONFIG = '''
modelPath = "models/model.dnn"
numCPUThreads = 1
reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"
           input = [ features = [ alias = "x" ; dim = 2 ; format = "dense" ]; labels = [ alias = "y" ; dim = 2 ; format = "dense" ] ] ]
Train = [
    action = "train"
    BrainScriptNetworkBuilder = {
        features = Input {2}; labels = Input {2}
        n = BatchNormalizationLayer {} (features)
        h = Sigmoid (BatchNormalizationLayer {normalizationTimeConstant=100} (LinearLayer {5} (n)))
        z = LinearLayer {2} (h)
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce); outputNodes = (z)
    }
    SGD = [ minibatchSize = 20; learningRatesPerMB = 0.5; maxEpochs = 2 ]
]
Statistics = [ action = "bnstat"; minibatchSize = 50; itersPerNode = 4 ]
'''


class BatchStatisticsTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', CONFIG)
        self.points = examples.points(200)
        self.write('train.ctf', self.points)
        self.run_trainer(['configFile=run.cntk', 'command=Train'])

    def values(self, model, node):
        self.run_trainer(['configFile=run.cntk', 'command=Dump',
                          f'Dump=[action=dumpNode;modelPath={model};nodeName={node};outputFile=dump.txt;printMetadata=false]'])
        return [float(v) for v in (self.directory / 'dump.txt').read_text().split('####')[0].split()]

    def test_statistics_are_those_of_the_data(self):
        self.run_trainer(['configFile=run.cntk', 'command=Statistics'])
        rows = [[float(v) for v in line.split('|')[1].split()[1:]] for line in self.points.splitlines()]
        means = [sum(r[k] for r in rows) / len(rows) for k in (0, 1)]
        for seen, wanted in zip(self.values('models/model.dnn.PBN', 'n.runMean'), means):
            self.assertAlmostEqual(seen, wanted, delta=1e-6)
        for node in ('n.scale', 'n.bias', 'z.W'):
            self.assertEqual(self.values('models/model.dnn.PBN', node), self.values('models/model.dnn', node))

    def test_ranks_agree(self):
        seen = {}
        for ranks in (None, 2, 3):
            self.run_trainer(['configFile=run.cntk', 'command=Statistics', f'newModelPath=models/of{ranks}'], ranks)
            names = [n for n in self.dump(f'models/of{ranks}') if n.endswith(('runMean', 'runVariance'))]
            self.assertEqual(len(names), 4)
            seen[ranks] = [v for n in names for v in self.values(f'models/of{ranks}', n)]
        for ranks in (2, 3):
            for one, other in zip(seen[None], seen[ranks]):
                self.assertAlmostEqual(one, other, delta=1e-5 * max(1, abs(one)))

    def test_channels_that_are_the_first_axis(self):
        config = CONFIG.replace('z = LinearLayer', """s = BatchNormalization (NewReshape (RowStack (features : 2 * features + 1), (2:2:1)), ParameterTensor {(2:1)}, ParameterTensor {(2:1)},
            ParameterTensor {(2:1), initValue=0, learningRateMultiplier=0}, ParameterTensor {(2:1), initValue=1, learningRateMultiplier=0}, true, imageLayout='HWC')
        z = LinearLayer""").replace('outputNodes = (z)', 'outputNodes = (z : s)')
        self.write('run.cntk', config)
        self.run_trainer(['configFile=run.cntk', 'command=Train:Statistics', 'modelPath=models/first.dnn'])
        rows = [[float(v) for v in line.split('|')[1].split()[1:]] for line in self.points.splitlines()]
        names = [n for n in self.dump('models/first.dnn') if n.startswith('s.')]
        means = [sum(r[k] + 2 * r[k] + 1 for r in rows) / len(rows) / 2 for k in (0, 1)]
        found = [self.values('models/first.dnn.PBN', n) for n in names]
        self.assertTrue(any(all(abs(a - b) < 1e-5 for a, b in zip(f, means)) for f in found if len(f) == 2), f'{names} {found} {means}')

    def dump(self, model):
        self.run_trainer(['configFile=run.cntk', 'command=Dump',
                          f'Dump=[action=dumpNode;modelPath={model};outputFile=all.txt;printValues=false]'])
        return [line.split('=')[0] for line in (self.directory / 'all.txt').read_text().splitlines() if '=' in line]

    def test_missing_statistics_are_told(self):
        missing = "Warning: the batch normalisation of 'n', 'h._' has seen no samples"
        untrained = CONFIG.replace('Train = [\n    action = "train"', 'Look = [\n    modelPath = "none"')
        self.write('look.cntk', untrained)
        for action, more in (('write', 'Look=[outputPath=out;outputNodeNames=z]'), ('test', '')):
            text = self.run_trainer(['configFile=look.cntk', 'command=Look', f'Look=[action={action}]', *([more] if more else [])]).text
            self.assertIn(missing, text)
        # The models that cv compares begin with the one before the first epoch.
        for action, more in (('write', 'Look=[outputPath=out;outputNodeNames=z]'), ('test', ''), ('cv', '')):
            text = self.run_trainer(['configFile=run.cntk', 'command=Look', f'Look=[action={action}]', *([more] if more else [])]).text
            self.assertNotIn('has seen no samples', text)

    def test_a_loaded_network_goes_on_from_its_statistics(self):
        """Frozen normalisation keeps what it has; otherwise the running statistics move on."""
        tune = '''Tune=[action=train;modelPath=tuned.dnn;SGD=[minibatchSize=20;learningRatesPerMB=0.1;maxEpochs=1];BrainScriptNetworkBuilder={
            net = BS.Network.Load ("models/model.dnn")
            f = BS.Network.CloneFunction (net.features, net.h, parameters="%s"); features = Input {2}; labels = Input {2}
            z = LinearLayer {2} (f (features)); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }]'''
        before = self.values('models/model.dnn', 'n.runMean')
        self.run_trainer(['configFile=run.cntk', 'command=Tune', tune % 'constant'])
        self.assertEqual(self.values('tuned.dnn', 'f.n.runMean'), before)
        self.run_trainer(['configFile=run.cntk', 'command=Tune', 'makeMode=false', tune % 'constant', 'Tune=[SGD=[batchNormalizationTimeConstant=50]]'])
        self.assertEqual(self.values('tuned.dnn', 'f.n.runMean'), before)
        self.run_trainer(['configFile=run.cntk', 'command=Tune', 'makeMode=false', tune % 'learnable'])
        self.assertEqual(self.values('tuned.dnn.0', 'f.n.runMean'), before)
        self.assertNotEqual(self.values('tuned.dnn', 'f.n.runMean'), before)


if __name__ == '__main__':
    support.main()
