# SPDX-License-Identifier: Apache-2.0
"""action = edit with scripts of the model editing language: layers added between trainings, criteria added for a test, values copied."""
import re

import examples
import support

MACROS = '''
BFF(in, rows, cols)
{
    B = Parameter(rows, init="fixedValue", value=0)
    W = Parameter(rows, cols)
    T = Times(W, in)
    P = Plus(T, B)
}
SBFF(in, rows, cols)
{
    BFF = BFF(in, rows, cols)
    S = Sigmoid(BFF)
}
SMBFF(x, r, c, labels)
{
    BFF = BFF(x, r, c)
    SM = CrossEntropyWithSoftmax(labels, BFF)
}
'''
NET = '''
load = ndlMacros
run = net
ndlMacros = [
    Norm(x)
    {
        m = Mean(x)
        s = InvStdDev(x)
        n = PerDimMeanVarNormalization(x, m, s)
    }
]
net = [
    features = Input(2)
    labels = Input(2)
    norm = Norm(features)
    L1 = SBFF(norm, 8, 2)
    CE = SMBFF(L1, 2, 8, labels)
    Err = ClassificationError(labels, CE.BFF.P)
    FeatureNodes = (features)
    LabelNodes = (labels)
    CriterionNodes = (CE)
    EvalNodes = (Err)
    OutputNodes = (CE.BFF.P)
]
'''
ADD_LAYER = '''
m1 = LoadModel($oldModel$, format=cntk)   # no quotes
SetDefaultModel(m1)
HDim = 8
L$new$ = SBFF(L$old$.S, HDim, HDim)
SetInput(CE.*.T, 1, L$new$.S)
SetInput(L$new$.*.T, 1, L$old$.S)
SaveModel(m1, "$newModel$", format=cntk)
Dump(m1, "$newModel$.dump.txt")
'''
CONFIG = '''
command = First:Add:Second:Test
traceLevel = 1
ndlMacros = "macros.ndl"
SGD = [ epochSize = 0; minibatchSize = 20; learningRatesPerMB = 0.5; momentumPerMB = 0.9; maxEpochs = 2
        ParallelTrain = [ parallelizationMethod = "DataParallelSGD" ] ]
reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"; input = [ features = [ alias = "x"; dim = 2; format = "dense" ]; labels = [ alias = "y"; dim = 2; format = "dense" ] ] ]
First = [ action = "train"; modelPath = "one/net.dnn"; NDLNetworkBuilder = [ networkDescription = "net.ndl" ] ]
Add = [
    action = "edit"
    old = 1
    new = 2
    oldModel = "one/net.dnn"
    newModel = "two/net.dnn.0"
    editPath = "add.mel"
]
Second = [ action = "train"; modelPath = "two/net.dnn"; NDLNetworkBuilder = [ networkDescription = "net.ndl" ] ]
Test = [ action = "test"; modelPath = "two/net.dnn" ]
'''


class EditingTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', CONFIG)
        self.write('macros.ndl', MACROS)
        self.write('net.ndl', NET)
        self.write('add.mel', ADD_LAYER)
        self.write('train.ctf', examples.points(200))

    def run_commands(self, *options, ranks=None, expect=0):
        return self.run_trainer(['configFile=run.cntk', *options], ranks, expect)

    def edit(self, script, *options, expect=0):
        self.write('edit.mel', script)
        return self.run_commands('command=Edit', 'Edit=[action=edit;editPath=edit.mel]', *options, expect=expect)

    def nodes(self, model):
        """The lines of dumpNode: {name: what stands behind the name}."""
        self.run_commands('command=Dump', f'Dump=[action=dumpNode;modelPath={model};outputFile=dump.txt;printValues=false]')
        lines = (self.directory / 'dump.txt').read_text().splitlines()
        return dict(line.split('=', 1) for line in lines if '=' in line)

    def values(self, model, node):
        self.run_commands('command=Dump', f'Dump=[action=dumpNode;modelPath={model};nodeName={node};outputFile=dump.txt;printMetadata=false]')
        return (self.directory / 'dump.txt').read_text().split()

    def test_a_layer_is_added_between_two_trainings(self):
        text = self.run_commands().text
        self.assertIn("Edited model saved to 'two/net.dnn.0'.", text)
        self.assertIn("the network is that of 'two/net.dnn.0'; the description in", text)
        dumped = (self.directory / 'two/net.dnn.0.dump.txt').read_text()
        self.assertIn('L2.BFF.T=Times ( L2.BFF.W , L1.S )', dumped)
        self.assertIn('CE.BFF.T=Times ( CE.BFF.W , L2.S )', dumped)
        self.assertEqual(self.values('two/net.dnn.0', 'L1.BFF.W'), self.values('one/net.dnn', 'L1.BFF.W'))
        self.assertEqual(self.values('two/net.dnn.0', 'norm.m'), self.values('one/net.dnn', 'norm.m'))
        nodes = self.nodes('two/net.dnn')
        self.assertIn('L2.S', nodes)
        self.assertNotEqual(self.values('two/net.dnn', 'L2.BFF.W'), self.values('two/net.dnn.0', 'L2.BFF.W'))
        self.assertEqual(len(support.epochs(text)), 4)
        self.assertEqual(text.count('Precomputing --> Completed.'), 1, 'statistics of the first training are kept')
        self.assertIn('Err', support.final_results(text))

    def test_a_layer_that_is_left_out_keeps_its_weights(self):
        self.run_commands('command=First:Add:Second')
        self.edit('m = LoadModel("two/net.dnn")\nSetInput(CE.*.T, 1, L1.S)\nSaveModel(m, "without.dnn")')
        self.edit('m = LoadModel("without.dnn")\nSetInput(CE.*.T, 1, L2.S)\nSaveModel(m, "with.dnn")')
        weights = self.values('two/net.dnn', 'L2.BFF.W')
        self.assertNotEqual(weights, self.values('two/net.dnn.0', 'L2.BFF.W'))
        for model in ('without.dnn', 'with.dnn'):
            self.assertEqual(self.values(model, 'L2.BFF.W'), weights)

    def test_two_ranks_go_the_same_way(self):
        self.run_commands('command=First:Add:Second')
        together = self.run_commands('command=First:Add:Second', 'First=[modelPath=p/net.dnn]',
                                     'Add=[oldModel=p/net.dnn;newModel=q/net.dnn.0]', 'Second=[modelPath=q/net.dnn]', ranks=2)
        self.assertEqual(len(support.epochs(together.text)), 4)
        for node in ('L2.BFF.W', 'CE.BFF.B'):
            ours, theirs = self.values('two/net.dnn', node), self.values('q/net.dnn', node)
            self.assertEqual(len(ours), len(theirs))
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(float(a), float(b), delta=1e-4)

    def test_a_killed_training_of_an_edited_model_goes_on(self):
        self.run_commands('command=First:Add:Second')
        final = (self.directory / 'two/net.dnn').read_bytes()
        for name in ('net.dnn', 'net.dnn.ckp'):
            (self.directory / 'two' / name).unlink(missing_ok=True)
        text = self.run_commands('command=Second').text
        self.assertGreater(len(support.epochs(text)), 0)
        self.assertEqual((self.directory / 'two/net.dnn').read_bytes(), final)

    def test_statistics_that_a_script_adds_are_computed(self):
        self.write('net.ndl', NET.replace('Norm(features)', 'Pass(features)'))
        self.write('add.mel', '''
            m = LoadModel("one/net.dnn")
            mean = Mean(features)
            scale = InvStdDev(features)
            scaled = PerDimMeanVarNormalization(features, mean, scale)
            SetInput(norm, 0, scaled)
            SaveModel("two/net.dnn.0")
        ''')
        text = self.run_commands('command=First:Add:Second').text
        self.assertEqual(text.count('Precomputing --> Completed.'), 1)
        samples = [re.search(r'\|x (\S+) (\S+)', line).groups() for line in (self.directory / 'train.ctf').read_text().splitlines()]
        computed = [float(v) for v in self.values('two/net.dnn', 'mean') if re.fullmatch(support.NUMBER, v)]
        for column in range(2):
            self.assertAlmostEqual(computed[column], sum(float(s[column]) for s in samples) / len(samples), delta=1e-4)

    def test_a_criterion_for_the_test(self):
        self.run_commands('command=First')
        self.edit('''
            m = LoadModel("one/net.dnn")
            Top2 = ClassificationError(labels, OutputNodes.P, topN=2, tag="eval")
            SaveModel("one/net.top2")
        ''')
        final = support.final_results(self.run_commands('command=Test', 'Test=[modelPath=one/net.top2]').text)
        self.assertEqual(final['Top2'][0], 0)
        self.assertGreater(final['Err'][0], 0)

    def test_a_node_that_no_other_uses_is_written(self):
        self.run_commands('command=First')
        self.edit('''
            m = LoadModel("one/net.dnn")
            V = Parameter(3, 2, init="fixedValue", value=0.5)
            u = Times(V, features)
            SaveModel("one/net.u")
        ''')
        self.run_commands('command=Write', 'Write=[action=write;modelPath=one/net.u;outputNodeNames=u:CE.BFF.P;outputPath=out]')
        samples = [re.search(r'\|x (\S+) (\S+)', line).groups() for line in (self.directory / 'train.ctf').read_text().splitlines()]
        rows = (self.directory / 'out.u').read_text().splitlines()
        self.assertEqual(len(rows), len(samples))
        for row, sample in zip(rows, samples):
            for value in row.split():
                self.assertAlmostEqual(float(value), sum(map(float, sample)) / 2, delta=1e-4)
        known = (self.directory / 'out.CE.BFF.P').read_text()
        self.run_commands('command=Write', 'Write=[action=write;modelPath=one/net.dnn;outputNodeNames=CE.BFF.P;outputPath=out]')
        self.assertEqual((self.directory / 'out.CE.BFF.P').read_text(), known)

    def test_copies_and_properties(self):
        self.run_commands('command=First')
        self.edit('''
            a = LoadModel("one/net.dnn")
            b = LoadModel("one/net.dnn.0")
            Copy(a.L1.*, b.L1.*, copy=value)
            Copy(L1.*, L2.*)
            SetInputs(L2.BFF.T, L2.BFF.W, norm.n)   # L2 is a second L1
            Sum = Plus(L1.S, L2.S)
            SetInput(CE.*.T, 1, Sum)
            SetPropertyForSubTree(L1.S, needGradient, false)
            SetProperty(L2.BFF.W, learningRateMultiplier, 2)
            SetProperty(Err, Evaluation, false)
            Rename(L1.*, Bottom.*)
            SaveModel(a, "a.dnn")
            SaveModel(b, "b.dnn")
            DumpNode(b.L1.BFF.W, "w.txt", includeData=true)
        ''')
        self.assertEqual(self.values('b.dnn', 'L1.BFF.W'), self.values('one/net.dnn', 'L1.BFF.W'))
        self.assertEqual(self.values('b.dnn', 'CE.BFF.W'), self.values('one/net.dnn.0', 'CE.BFF.W'))
        self.assertEqual(self.values('a.dnn', 'L2.BFF.W'), self.values('one/net.dnn', 'L1.BFF.W'))
        nodes = self.nodes('a.dnn')
        self.assertEqual(nodes['CE.BFF.T'], 'Times ( CE.BFF.W , Sum )')
        self.assertEqual(nodes['Sum'], 'Plus ( Bottom.S , L2.S )')
        self.assertIn('NeedsGradient=false', nodes['Bottom.BFF.W'])
        self.assertIn('learningRateMultiplier=2.0', nodes['L2.BFF.W'])
        self.assertIn('L1.BFF.W=LearnableParameter [8,2]', (self.directory / 'w.txt').read_text())
        final = support.final_results(self.run_commands('command=Test', 'Test=[modelPath=a.dnn]').text)
        self.assertEqual(list(final), ['CE.SM'])
        # It trains on, and what is frozen stays.
        (self.directory / 'c').mkdir()
        (self.directory / 'a.dnn').rename(self.directory / 'c/net.dnn.0')
        self.run_commands('command=Second', 'Second=[modelPath=c/net.dnn]')
        self.assertEqual(self.values('c/net.dnn', 'Bottom.BFF.W'), self.values('one/net.dnn', 'L1.BFF.W'))
        self.assertNotEqual(self.values('c/net.dnn', 'L2.BFF.W'), self.values('one/net.dnn', 'L1.BFF.W'))

    def test_new_parameters_from_a_file_and_snippets(self):
        self.run_commands('command=First')
        self.write('w.txt', '\n'.join(f'{i} {-i}' for i in range(8)))
        self.write('other.ndl', 'tail = [\n x = Input(3)\n y = BFF(x, 2, 3)\n OutputNodes = (y)\n]\n')
        self.edit('''
            m = LoadModel("one/net.dnn")
            ReviseParameter(L1.BFF.W, "w.txt")
            SaveModel("revised.dnn")
            n = [
                Twice(x) = Plus(x, x)
                x = Input(2)
                z = Twice(x)
                OutputNodes = (z)
            ]
            SaveModel(n, "n.dnn")
            LoadNDLSnippet(t, "other.ndl", section=tail)
            SaveModel(t, "t.dnn")
            CreateModelWithName(e)
            CopySubTree(m.CE.SM, e, "my.")
            SetProperty(e.my.CE.SM, criterion, true)
            SaveModel(e, "e.dnn")
        ''')
        self.assertEqual(self.values('revised.dnn', 'L1.BFF.W')[:4], ['0', '0', '1', '-1'])
        self.assertEqual(self.nodes('n.dnn')['z'], 'Plus ( x , x )')
        self.assertEqual(self.nodes('t.dnn')['y.P'], 'Plus ( y.T , y.B )')
        self.assertEqual(self.nodes('e.dnn')['my.CE.BFF.T'], 'Times ( my.CE.BFF.W , my.L1.S )')

    def test_a_check_runs_the_script_and_writes_nothing(self):
        self.run_commands('command=First')
        script = 'm = LoadModel("one/net.dnn")\nDelete(L1.S)\nSaveModel(m, "x.dnn")\n'
        self.write('edit.mel', script)
        result = self.run_commands('command=Edit', 'Edit=[action=edit;editPath=edit.mel]', '--check', expect=2)
        self.assertIn("edit.mel:3:1: error: input 1 of the node 'CE.BFF.T' (Times) is not set", result.text)
        self.write('edit.mel', script.replace('Delete(L1.S)', ''))
        self.run_commands('command=Edit', 'Edit=[action=edit;editPath=edit.mel]', '--check')
        self.assertFalse((self.directory / 'x.dnn').exists())


if __name__ == '__main__':
    support.main()
