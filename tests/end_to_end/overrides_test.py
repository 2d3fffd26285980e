# SPDX-License-Identifier: Apache-2.0
"""Settings of the command line that no command uses are named, with the block that was meant."""
import examples
import support

UNUSED = 'no command uses'


class OverridesTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(64))
        self.write('test.ctf', examples.points(32, seed=2))

    def check(self, *arguments, expect=0):
        return self.run_trainer(['--check', 'configFile=run.cntk', *arguments], expect=expect).text

    def test_the_block_that_was_meant(self):
        cases = {
            'maxEpochs=1': ('maxEpochs', 'write Train=[SGD=[maxEpochs=1]]'),
            'SGD=[maxEpochs=1]': ('SGD', 'write Train=[SGD=[maxEpochs=1]]'),
            'Train=[minibatchSize=8]': ('minibatchSize', 'write Train=[SGD=[minibatchSize=8]]'),
            'Trian=[SGD=[maxEpochs=1]]': ('Trian', 'did you mean Train=[SGD=[maxEpochs=1]]?'),
            'maxEpoch=1': ('maxEpoch', 'did you mean Train=[SGD=[maxEpochs=1]]?'),
            'Train=[cvReadr=[file=x]]': ('cvReadr', 'did you mean Train=[cvReader=[file=x]]?'),
            'comand=Test': ('comand', 'did you mean command=Test?'),
            'Train.SGD.maxEpochs=3': ('Train.SGD.maxEpochs', 'write Train=[SGD=[maxEpochs=3]]'),
            'SGD.minibatchSize=3': ('SGD.minibatchSize', 'write Train=[SGD=[minibatchSize=3]]'),
            'Train=[SGD.numMBsToShowResult=4]': ('SGD.numMBsToShowResult', 'write Train=[SGD=[numMBsToShowResult=4]]'),
            'gradientBits=1': ('gradientBits', 'write Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1]]]]'),
            'Train=[doneFile=x]': ('doneFile', 'write doneFile=x at the top level'),
            'DatDir=x': ('DatDir', 'remove it, or use it as $DatDir$'),
        }
        text = self.check(*cases)
        for word, (key, fix) in cases.items():
            with self.subTest(word=word):
                self.assertRegex(text, rf"<command line>:\d+:\d+: note: {UNUSED} '{key}' (at the top level|of 'Train')")
                self.assertIn(f'fix: {fix}\n', text)
        self.assertEqual(text.count(UNUSED), len(cases))

    def test_a_block_whose_name_is_a_setting_at_the_top(self):
        text = self.run_trainer(['--check', 'configFile=run.cntk', 'ParallelTrain=[parallelizationMethod=EASGD]'], expect=2).text
        self.assertRegex(text, r"<command line>:3:1: error: the block 'ParallelTrain' belongs in SGD; at the top level 'parallelTrain' is true or false")
        self.assertIn('fix: write Train=[SGD=[ParallelTrain=[...]]], with the name of your command for Train', text)

    def test_what_is_used(self):
        """Inherited settings, variables, blocks of commands that do not run now, settings without effect that are known."""
        self.write('run.cntk', examples.config().replace('"test.ctf"', '"$TestFile$"') + 'TestFile = "test.ctf"\n')
        for used in (['L2RegWeight=0.1'], ['randomize=false'], ['TestFile=other.ctf'], ['Test=[evalNodeNames=x;minibatchSize=7]'],
                     ['modelPath=other/m', 'traceLevel=0'], ['Train=[SGD=[maxEpochs=$Epochs$]]', 'Epochs=3'], ['hyperCompressMemory=true'],
                     [f'currentDirectory={self.directory}']):
            with self.subTest(used=used):
                self.assertNotIn(UNUSED, self.check(*used))

    def test_what_counts_at_the_top_level_only(self):
        """In a config file, too, and then with --strict as well a note."""
        self.write('run.cntk', examples.config().replace('action = "train"', 'action = "train" ; stderr = "log" ; randomSeedOffset = 4'))
        text = self.check('--strict')
        self.assertRegex(text, rf"run\.cntk:\d+:\d+: note: {UNUSED} 'stderr' of 'Train'")
        self.assertIn('fix: write stderr="log" at the top level\n', text)
        self.assertNotIn("'randomSeedOffset'", text, 'SimpleNetworkBuilder inherits it')

    def test_several_trainings(self):
        self.write('two.cntk', 'Second = [ action = train ; modelPath = "models/second" ; SGD = [ maxEpochs = 2 ; minibatchSize = 8 ; learningRatesPerMB = 0.1 ]\n'
                   'SimpleNetworkBuilder = [ layerSizes = 2:4:2 ; trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError ]\n'
                   'reader = [ readerType = CNTKTextFormatReader ; file = "train.ctf" ; input = [ features = [ alias = x ; dim = 2 ; format = dense ]\n'
                   'labels = [ alias = y ; dim = 2 ; format = dense ] ] ] ]\n')
        both = ['--check', 'configFile=run.cntk+two.cntk', 'command=Train:Second']
        text = self.run_trainer([*both, 'maxEpochs=1']).text
        self.assertIn('fix: write Train=[SGD=[maxEpochs=1]] or Second=[SGD=[maxEpochs=1]]\n', text)
        # One of them inherits it.
        self.assertNotIn(UNUSED, self.run_trainer([*both, 'firstMBsToShowResult=3', 'Train=[SGD=[firstMBsToShowResult=1]]']).text)

    def test_a_run_warns_once(self):
        text = self.run_trainer(['configFile=run.cntk', 'maxEpochs=1'], ranks=2).text
        self.assertEqual(text.count(UNUSED), 1, text)
        self.assertIn(': note: no command uses ', text)
        self.assertEqual(len(support.epochs(text)), 2, 'the file holds')

    def test_strict(self):
        for word in ('maxEpochs=1', 'Trian=[SGD=[maxEpochs=1]]', 'SGD=[maxEpochs=1]'):
            text = self.run_trainer(['--strict', 'configFile=run.cntk', word], expect=2).text
            self.assertIn(f"error: {UNUSED} '{word.split('=')[0]}' at the top level", text)
            self.assertIn('Train=[SGD=[maxEpochs=1]]', text)
        # Other commands that run do not use it either.
        text = self.run_trainer(['--strict', 'configFile=run.cntk', 'command=Train:Test', 'SGD=[maxEpochs=1]'], expect=2).text
        self.assertIn(f"error: {UNUSED} 'SGD' at the top level", text)
        self.assertFalse((self.directory / 'models').exists(), 'nothing was trained')
        self.run_trainer(['--strict', 'configFile=run.cntk', 'Train=[SGD=[maxEpochs=1]]'])


if __name__ == '__main__':
    support.main()
