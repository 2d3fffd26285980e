# SPDX-License-Identifier: Apache-2.0
"""The actions beside training: test, cv, write, dumpNode; and what a run leaves behind (models, doneFile, makeMode)."""
import math

import examples
import support

READER = 'reader=[readerType=CNTKTextFormatReader;randomize=false;file=test.ctf;input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]'


class ActionsTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(epochs=3))
        self.write('train.ctf', examples.points(200))
        self.write('test.ctf', examples.points(30, seed=2))

    def train(self, *options, ranks=None):
        return self.run_trainer(['configFile=run.cntk', *options], ranks)

    def test_models_of_all_epochs(self):
        self.train()
        names = {p.name for p in (self.directory / 'models').iterdir()}
        self.assertLessEqual({'model.dnn.0', 'model.dnn.1', 'model.dnn.2', 'model.dnn'}, names)
        self.assertFalse([n for n in names if n.endswith('.tmp')])

    def test_make_mode(self):
        self.train()
        model = (self.directory / 'models/model.dnn').read_bytes()
        again = self.train()
        self.assertIn('No further training is necessary.', again.text)
        self.assertEqual(support.epochs(again.text), [])
        anew = self.train('makeMode=false')
        self.assertEqual(len(support.epochs(anew.text)), 3)
        self.assertEqual((self.directory / 'models/model.dnn').read_bytes(), model, 'the same run gives the same bytes')

    def test_more_epochs_go_on(self):
        """Training 2 epochs and then up to 4 equals training 4 at once, when the final model is out of the way."""
        self.train('Train=[SGD=[maxEpochs=4]]', 'modelPath=whole/model.dnn')
        self.train('Train=[SGD=[maxEpochs=2]]', 'Train=[SGD=[keepCheckPointFiles=true]]')
        models = self.directory / 'models'
        for name in ('model.dnn', 'model.dnn.ckp'):
            if (models / name).exists():
                (models / name).unlink()
        text = self.train('Train=[SGD=[maxEpochs=4]]').text
        self.assertIn('Starting from checkpoint. Loading network from', text)
        self.assertEqual((models / 'model.dnn').read_bytes(), (self.directory / 'whole/model.dnn').read_bytes())

    def test_done_file(self):
        self.train('doneFile=done.txt', ranks=2)
        self.assertRegex((self.directory / 'done.txt').read_text(), r'^Successfully finished at .+ on .+')

    def test_done_file_in_a_new_folder(self):
        self.train('doneFile=new/done.txt')
        self.assertTrue((self.directory / 'new/done.txt').exists())

    def test_a_done_file_that_cannot_be_written(self):
        """Found before the training, not after it."""
        result = self.run_trainer(['configFile=run.cntk', 'doneFile=train.ctf/done.txt'], expect=2)
        self.assertRegex(result.text, r"<command line>:\d+:\d+: error: doneFile: '\S*train.ctf' is no directory")
        self.assertIn('fix: name a file that can be written', result.text)
        self.assertFalse((self.directory / 'models/model.dnn').exists())

    def test_no_done_file_after_an_error(self):
        self.run_trainer(['configFile=run.cntk', 'doneFile=done.txt', 'Train=[reader=[file=no.ctf]]'], expect=2)
        self.assertFalse((self.directory / 'done.txt').exists())

    def test_test_and_eval_agree_with_every_number_of_ranks(self):
        self.train()
        seen = []
        for action, ranks in (('test', None), ('eval', None), ('test', 2), ('test', 3)):
            text = self.run_trainer(['configFile=run.cntk', 'command=Test', f'Test=[action={action};minibatchSize=8]'], ranks).text
            final = support.final_results(text)
            self.assertNotIn('perplexity = ', text)  # a measure of models of sequences
            self.assertEqual({n: c for n, (_, c) in final.items()}, {'CrossEntropyWithSoftmax': 30, 'EvalClassificationError': 30})
            seen.append(final)
        for other in seen[1:]:
            self.assertEqual(other['EvalClassificationError'], seen[0]['EvalClassificationError'])
            self.assertAlmostEqual(other['CrossEntropyWithSoftmax'][0], seen[0]['CrossEntropyWithSoftmax'][0], delta=1e-7)

    def test_confusion_table(self):
        """It counts every sample once on any number of ranks, and its errors are those of the evaluation node."""
        self.train()
        self.write('names.txt', 'inside\noutside\n')
        seen = set()
        for ranks in (None, 2, 3):
            options = 'confusionTable=true;confusionFile=new/table.csv;labelMappingFile=names.txt;minibatchSize=8'
            text = self.run_trainer(['configFile=run.cntk', 'command=Test', f'Test=[{options}]'], ranks).text
            rows = [line.split(',') for line in (self.directory / 'new/table.csv').read_text().splitlines()]
            self.assertEqual(rows[0], ['class', 'samples', 'precision', 'recall', 'f1', 'inside', 'outside'])
            counts = [[int(v) for v in row[5:]] for row in rows[1:]]
            self.assertEqual(sum(map(sum, counts)), 30)
            errors = (counts[0][1] + counts[1][0]) / 30
            self.assertAlmostEqual(errors, support.final_results(text)['EvalClassificationError'][0], delta=1e-7)
            self.assertIn(f'accuracy {1 - errors:.4f}', text)
            self.assertAlmostEqual(float(rows[1][2]), counts[0][0] / max(counts[0][0] + counts[1][0], 1))
            self.assertAlmostEqual(float(rows[1][3]), counts[0][0] / sum(counts[0]))
            seen.add((self.directory / 'new/table.csv').read_text())
        self.assertEqual(len(seen), 1)
        bad = self.run_trainer(['configFile=run.cntk', 'command=Test', 'Test=[confusionTable=true;labelMappingFile=no.txt]'], expect=2)
        self.assertIn("there is no file 'no.txt'", bad.text)
        for words in ([], ['--check']):
            bad = self.run_trainer(['configFile=run.cntk', 'command=Test', 'Test=[confusionFile=names.txt/table]', *words], expect=2)
            self.assertRegex(bad.text, "confusionFile: '.*names.txt' is no directory")
        alone = self.run_trainer(['configFile=run.cntk', 'command=Test', 'Test=[labelMappingFile=names.txt]'], expect=2)
        self.assertIn('labelMappingFile has no effect without confusionTable', alone.text)
        # Further out they are meant for readers, or variables of the user.
        self.run_trainer(['configFile=run.cntk', 'command=Test', 'labelMappingFile=names.txt', 'weightDecay=0.1', 'epsilon=-1'])
        self.run_trainer(['configFile=run.cntk', 'command=Train', 'weightDecay=0.1', 'epsilon=-1', 'beta1=7', '--check'])

    def test_f1_and_its_best_model(self):
        """Evaluation nodes that are ratios: those of the table; cv takes the largest."""
        before, rest = examples.config(epochs=3).split('SimpleNetworkBuilder', 1)
        self.write('run.cntk', before + '''BrainScriptNetworkBuilder = [
            features = Input {2} ; labels = Input {2} ; z = LinearLayer {2} (Sigmoid (LinearLayer {8} (features)))
            ce = CrossEntropyWithSoftmax (labels, z) ; errs = ClassificationError (labels, z) ; f1 = F1Score (labels, z)
            criterionNodes = (ce) ; evaluationNodes = (errs : f1)
        ]''' + rest.split(']', 1)[1])
        self.train()
        test = self.run_trainer(['configFile=run.cntk', 'command=Test', 'Test=[confusionFile=table.csv;minibatchSize=7]'], 2)
        row = (self.directory / 'table.csv').read_text().splitlines()[2].split(',')
        self.assertAlmostEqual(support.final_results(test.text)['f1'][0], float(row[4]), delta=1e-7)
        cv = self.run_trainer(['configFile=run.cntk', f'CV=[action=cv;evalNodeNames=f1;{READER}]', 'command=CV']).text
        values = [float(v) for v in support.re.findall(r'--> Final Results.*f1 = ([\d.]+)', cv)]
        self.assertEqual(len(values), 4)
        best = support.re.search(r'Based on Err\[0\]: Best model = \S* with max value ([\d.e-]+)', cv)
        self.assertAlmostEqual(float(best.group(1)), max(values), delta=1e-7)

    def test_cv_names_the_best_model(self):
        self.train()
        text = self.run_trainer(['configFile=run.cntk', f'CV=[action=cv;crossValidationInterval=0:1:2;{READER}]', 'command=CV']).text
        for name in ('model.dnn.0', 'model.dnn.1', 'model.dnn.2', 'model.dnn'):
            self.assertRegex(text, rf'(?m)Model \S*{name} --> ')
        self.assertIn('Best models:', text)
        self.assertRegex(text, r'Based on Err\[0\]: Best model = \S*model\.dnn\S* with min err [\d.]+')

    def write_outputs(self, *options, ranks=None):
        write = f'Write=[action=write;outputPath=out/values;{READER};{";".join(options)}]'
        return self.run_trainer(['configFile=run.cntk', write, 'command=Write'], ranks).text

    def test_write_and_test_tell_the_same(self):
        """The criterion, computed here from what `write` wrote, is the one that `test` printed."""
        self.train()
        final = support.final_results(self.run_trainer(['configFile=run.cntk', 'command=Test']).text)
        text = self.write_outputs('outputNodeNames=HLast')
        self.assertIn('Total Samples Evaluated = 30', text)
        rows = [[float(v) for v in line.split()] for line in (self.directory / 'out/values.HLast').read_text().splitlines()]
        labels = [[float(v) for v in line.split('|y ')[1].split()] for line in (self.directory / 'test.ctf').read_text().splitlines()]
        self.assertEqual([len(r) for r in rows], [2] * 30)
        criterion = errors = 0.0
        for z, y in zip(rows, labels):
            criterion += math.log(sum(math.exp(v) for v in z)) - sum(v * w for v, w in zip(z, y))
            errors += z.index(max(z)) != y.index(max(y))
        self.assertAlmostEqual(criterion / 30, final['CrossEntropyWithSoftmax'][0], delta=2e-6)  # %f keeps six digits
        self.assertAlmostEqual(errors / 30, final['EvalClassificationError'][0], delta=1e-7)

    def test_names_of_nodes_may_have_commas_between_them(self):
        self.train()
        self.write_outputs('outputNodeNames=(HLast, labels)')
        for name in ('HLast', 'labels'):
            self.assertEqual(len((self.directory / f'out/values.{name}').read_text().splitlines()), 30)

    def test_write_on_three_ranks_writes_once(self):
        self.train()
        self.write_outputs('outputNodeNames=HLast')
        one = (self.directory / 'out/values.HLast').read_bytes()
        self.write_outputs('outputNodeNames=HLast', 'minibatchSize=7', ranks=3)
        self.assertEqual((self.directory / 'out/values.HLast').read_bytes(), one)

    def test_write_default_nodes_and_categories(self):
        self.train()
        self.write('names.txt', 'inside\noutside\n')
        text = self.write_outputs('format=[type=category;labelMappingFile=names.txt]')
        self.assertIn('OutputNodeNames are not specified, using the default outputnodes.', text)
        words = (self.directory / 'out/values.HLast').read_text().split()
        self.assertEqual(len(words), 30)
        self.assertLessEqual(set(words), {'inside', 'outside'})
        missing = f'Write=[action=write;outputPath=out/values;{READER};format=[type=category;labelMappingFile=no.txt]]'
        bad = self.run_trainer(['configFile=run.cntk', missing, 'command=Write', '--check'], expect=2)
        self.assertIn("there is no file 'no.txt'", bad.text)

    def test_models_to_come_by_any_path(self):
        """A command finds the model that the training before it writes, and takes no other file for it."""
        absolute = self.directory.resolve() / 'models/model.dnn'
        (self.directory / 'link').symlink_to('.')
        train = ['configFile=run.cntk', 'command=Train:Test', 'Train=[SGD=[maxEpochs=2;keepBest=true]]', 'makeMode=false']
        for path in ('./models/model.dnn', 'models/../models/model.dnn', 'link/models/model.dnn', absolute, 'models/model.dnn.1', './models/model.dnn.best'):
            with self.subTest(path=path):
                support.shutil.rmtree(self.directory / 'models', ignore_errors=True)
                self.assertIn('Final Results', self.run_trainer([*train, f'Test=[modelPath="{path}"]']).text)
        for trained, path in (('models/model', 'models/model.dnn'), ('models/model.dnn', 'models/model.dnn.old')):
            with self.subTest(path=path):
                support.shutil.rmtree(self.directory / 'models', ignore_errors=True)
                text = self.run_trainer([*train, f'Train=[modelPath="{trained}"]', f'Test=[modelPath="{path}"]'], expect=2).text
                self.assertIn(f"there is no model '{path}'", text)
                self.assertFalse((self.directory / trained).exists())

    def test_one_model_of_two_trainings(self):
        """It is locked once, also if they spell its path differently."""
        config = examples.config(epochs=3)
        train = config[config.index('Train = ['):config.index('Test = [')]
        self.write('run.cntk', config + train.replace('Train = [', 'Again = [ modelPath = "./models/model.dnn" ; makeMode = false', 1))
        self.assertEqual(len(support.epochs(self.train('command=Train:Again').text)), 6)

    def test_nodes_on_which_no_output_depends(self):
        """They may be trained (trainCriterionNodeName), tested and written; their values are in the model."""
        self.write('net.cntk', '''command = T:D:U:W:E
modelPath = n/net
T = [ action = train
    BrainScriptNetworkBuilder = {
        features = Input {2} ; labels = Input {2}
        z1 = LinearLayer {2} (features) ; z2 = LinearLayer {2} (features)
        ce1 = CrossEntropyWithSoftmax (labels, z1) ; ce2 = CrossEntropyWithSoftmax (labels, z2)
        k = ParameterTensor {2, init = 'fixedValue', value = 2}
        twice = k .* z1 ; double = Constant (2) .* z1
        difference = SumElements (Abs (twice - z1 - z1))
        featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (ce1) ; outputNodes = (z1)
    }
    SGD = [ maxEpochs = 3 ; minibatchSize = 10 ; learningRatesPerMB = 0.5
            trainCriterionNodeName = ce2 ; evalCriterionNodeName = ce2 ] ]
D = [ action = dumpNode ; nodeNameRegex = "z2.*|k" ; outputFile = dump.txt ; printMetadata = false ]
U = [ action = test ]
W = [ action = write ; outputNodeNames = z1:z2:twice:double ; outputPath = out ]
E = [ action = test ; evalNodeNames = ce1:ce2:difference ]
''' + READER)
        text = self.run_trainer(['configFile=net.cntk']).text
        tests = [support.final_results(line) for line in text.splitlines() if line.startswith('Final Results')]
        self.assertEqual(list(tests[0]), ['ce1'])
        self.assertLess(tests[1]['ce2'][0], tests[1]['ce1'][0] - 0.1, 'z2 was trained and z1 was not')
        self.assertAlmostEqual(tests[1]['difference'][0], 0, delta=1e-5)
        once, trained, twice, double = ([float(v) for v in (self.directory / f'out.{node}').read_text().split()]
                                        for node in ('z1', 'z2', 'twice', 'double'))
        self.assertEqual(twice, double)
        for a, b in zip(once, double):
            self.assertAlmostEqual(2 * a, b, delta=2e-6)
        weights = [float(v) for v in (self.directory / 'dump.txt').read_text().split()]
        self.assertEqual(weights[:2], [2, 2])
        self.assertGreater(max(map(abs, weights[2:])), 0.5, 'as trained, not as initialised')

    def test_dump_node(self):
        self.train()
        self.run_trainer(['configFile=run.cntk', 'Dump=[action=dumpNode;outputFile=nodes.txt]', 'command=Dump'])
        text = (self.directory / 'nodes.txt').read_text()
        self.assertRegex(text, r'(?m)^W0=LearnableParameter \[8,2\]   learningRateMultiplier=1\.000000  NeedsGradient=true$')
        self.assertRegex(text, r'(?m)^features=InputValue \[ 2 \]$')
        self.assertRegex(text, r'(?m)^CrossEntropyWithSoftmax=CrossEntropyWithSoftmax \( labels , HLast \)$')
        self.assertIn('#' * 68, text)
        names = [line.split('=')[0] for line in text.splitlines() if '=' in line and not line.startswith(' ')]
        self.assertEqual(names, sorted(names))


if __name__ == '__main__':
    support.main()
