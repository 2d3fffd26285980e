# SPDX-License-Identifier: Apache-2.0
"""What the program explains: help on blocks, keys and functions, arguments that a shell has cut, figures in the documents."""
import re
import shlex
import subprocess

import examples
import support


class HelpTest(support.TrainerTest):
    def help(self, *words):
        return self.run_trainer(words).stdout

    def test_every_way_of_asking(self):
        expected = self.help('help=SGD')
        self.assertRegex(expected, r'maxEpochs +integer')
        for words in (['help', 'SGD'], ['--help=SGD'], ['--help', 'SGD'], ['-h', 'sgd'], ['HELP=sgd']):
            self.assertEqual(self.help(*words), expected, words)
        usage = self.help('--help')
        for word in ('configFile=', '--check', '-v', 'help=NAME', 'SGD', 'DataParallelSGD', 'CNTKTextFormatReader', 'train'):
            self.assertIn(word, usage)
        for words in (['help'], ['-h']):
            self.assertEqual(self.help(*words), usage)

    def test_functions_and_layers(self):
        text = self.help('help=DenseLayer')
        self.assertIn('DenseLayer {outDim, bias=true, activation=(x => x), ', text)
        self.assertIn('fully connected layer', text)
        text = self.help('help=batchnormalization')
        self.assertRegex(text, r'in BrainScript:\n  BatchNormalization \(input, scale, bias, ')
        self.assertRegex(text, r'in NDL:\n  BatchNormalization\(x, scale, bias, ')
        self.assertRegex(self.help('help=ReLU'), r'ReLU: the same as RectifiedLinear\n  RectifiedLinear \(_, tag=')
        self.assertIn('BS.Boolean.Not (x)', self.help('help=BS.Boolean.Not'))
        self.assertIn('BS.Boolean.Not (x)', self.help('help=Not'))
        self.assertIn('Substr (s, begin, num)', self.help('help=Substr'))

    def test_single_keys(self):
        text = self.help('help=gradientBits')
        self.assertIn('Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=...]]]]', text)
        self.assertIn('32', text)
        self.assertIn('  deviceId=...\n', self.help('help=deviceid'))
        self.assertIn('Train=[reader=[input=[NAME=[alias=...]]]]', self.help('help=alias'))

    def test_keys_of_actions_name_the_action(self):
        for key in ('minibatchSize', 'numMBsToShowResult'):
            text = self.help(f'help={key}')
            self.assertIn(f'  Test=[action=test;{key}=...]\n', text)
            self.assertIn(f'  Train=[SGD=[{key}=...]]\n', text)
            self.assertNotIn(f'  Train=[{key}=', text)
        self.assertIn('  Train=[makeMode=...]\n', self.help('help=makeMode'))

    def test_second_names_of_actions(self):
        self.assertTrue(self.help('help=eval').startswith(self.help('help=test').rstrip()))

    def test_list_of_everything(self):
        text = self.help('help=list')
        for word in ('SGD', 'EASGD', 'ImageReader', 'DenseLayer', 'BS.Boolean.Not', 'CrossEntropyWithSoftmax', 'gradientBits', 'maxEpochs', 'deviceId'):
            self.assertRegex(text, rf'[ \n]{re.escape(word)}[ \n]')
        # A name from each part of the list is explained.
        for name in ('top', 'dumpNode', 'SparseImageInput', 'Transpose', 'blockSize', 'randomize', 'reader', 'NDLNetworkBuilder'):
            self.assertTrue(self.help(f'help={name}').strip())

    def test_near_misses(self):
        for wrong, right in (('SGDD', 'SGD'), ('gradientBit', 'gradientBits'), ('DensLayer', 'DenseLayer')):
            text = self.run_trainer([f'help={wrong}'], expect=2).text
            self.assertIn(f"there is no help on '{wrong}'", text)
            self.assertIn(f'help={right}', text)
        self.assertIn('help=list', self.run_trainer(['help=xyzzyplugh'], expect=2).text)

    def test_figures_of_the_documents(self):
        """A number of keys that a document shows is the one that the program prints."""
        self.write('run.cntk', examples.config())
        text = self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[minibachSize=1]]', '--check'], expect=2).text
        printed = re.search(r'help=SGD lists all (\d+) keys', text)
        self.assertTrue(printed, text)
        rows = [l for l in self.help('help=SGD').splitlines() if re.match(r'  [a-zA-Z]\w*  ', l)]
        self.assertEqual(len(rows), int(printed.group(1)))
        shown = []
        for page in [support.SOURCE / 'README.md', *(support.SOURCE / 'docs').glob('*.md')]:
            shown += [(page.name, n) for n in re.findall(r'help=SGD lists all (\d+) keys', page.read_text(encoding='utf-8'))]
        self.assertGreaterEqual(len(shown), 2)
        self.assertEqual({n for _, n in shown}, {printed.group(1)}, shown)


class ShellTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(32))

    def test_a_command_cut_at_a_semicolon(self):
        for cut, missing in (('Train=[SGD=[maxEpochs=1', ']]'), ('Train={SGD=[maxEpochs=1', ']}'), ('[Train=[SGD=[maxEpochs=1', ']]]')):
            text = self.run_trainer(['configFile=run.cntk', cut], expect=2).text
            self.assertIn(f"ends within its brackets", text)
            self.assertIn(f"ends a command at ';'", text)
            self.assertIn(f"'{cut};...{missing}'", text)

    def test_in_a_shell(self):
        words = 'configFile=run.cntk Train=[SGD=[maxEpochs=1;minibatchSize=2]]'
        done = subprocess.run(['sh', '-c', f'{shlex.quote(support.TRAINER)} {words}'], cwd=self.directory, capture_output=True, text=True, check=False,
                              env=support.environment(self.directory))
        self.assertIn("<command line>:2:7: error: no closing ']' found", done.stderr)
        self.assertIn("write 'Train=[SGD=[maxEpochs=1;...]]' with the quotes", done.stderr)

    def test_an_argument_cut_at_a_blank(self):
        text = self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[', 'maxEpochs', '=', '1', ']]', 'precision=float'], expect=2).text
        self.assertIn("splits arguments at blanks; quote the argument: 'Train=[SGD=[ maxEpochs = 1 ]]'", text)

    def test_whole_arguments(self):
        self.run_trainer(['--check', 'configFile=run.cntk', 'Train=[SGD=[maxEpochs=1;minibatchSize=2]]', 'Note="[ ;"'])


if __name__ == '__main__':
    support.main()
