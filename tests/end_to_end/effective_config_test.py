# SPDX-License-Identifier: Apache-2.0
"""--check prints a config that gives the same run; --dry-run trains one step and writes nothing; trainer diff."""
import re
import subprocess

import examples
import support

# A config with whatever a config may hold: variables, inheritance, includes, two commands, aliases, a preset.
RICH = '''
include=%(source)s/configs/dataparallel-1bit.cntk
OutputDir = "out"
ModelDir  = "$OutputDir$/models"
command   = Train:Test
minibatchSize = 16
traceLevel = 1
numCPUThreads = 1
hidden = 9
unused = "nothing reads this"
modelPath = "$ModelDir$/net.dnn"
Train = [
    epochs = 2
    SGD = [ learningRatesPerMB = 0.5*1:0.25 ; momentumPerMB = 0.9 ; maxEpochs = $epochs$ ; numMBsToShowResult = 0 ]
    BrainScriptNetworkBuilder = {
        include "layers.bs"
        features = Input {2}
        labels   = Input {2}
        z    = LinearLayer {2} (Net (features))     # a comment
        ce   = CrossEntropyWithSoftmax (labels, z)
        errs = ClassificationError (labels, z)
        criterionNodes = (ce) ; evaluationNodes = (errs) ; outputNodes = (z)
    }
    reader = [ file = "train.ctf" ; input = [ features = [ alias = "x" ; dim = 2 ; format = dense ] ; labels = [ alias = "y" ; dim = 2 ; format = dense ] ] ]
]
Test = [
    action = test
    reader = [ file = "train.ctf" ; input = [ features = [ alias = "x" ; dim = 2 ; format = dense ] ; labels = [ alias = "y" ; dim = 2 ; format = dense ] ] ]
]
Idle = [ action = test ]
'''


class EffectiveConfigTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('train.ctf', examples.points(64))
        self.write('run.cntk', examples.config())
        self.write('conf/rich.cntk', RICH % {'source': support.SOURCE})
        self.write('conf/layers.bs', 'Net (x) = DenseLayer {$hidden$, activation = Sigmoid} (x)\n'.replace('$hidden$', '9'))

    def checked(self, *words, ranks=None):
        return self.run_trainer(['--check', *words], ranks).stdout

    def settings(self, text):
        return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith('#')]

    def diff(self, *words):
        done = subprocess.run([support.TRAINER, 'diff', *words], cwd=self.directory, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    # --- the printed config
    def test_the_same_config_and_the_same_run(self):
        for config, words in (('run.cntk', ['Train=[SGD=[maxEpochs=3;L2RegWeight=0.001]]', 'modelPath=a/net.dnn']),
                              ('conf/rich.cntk', ['Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]', 'ModelDir=a']),
                              ('conf/rich.cntk', ['ModelDir=a', 'hidden=4', 'Train=[SGD=[dropoutRate=0.1]]'])):
            with self.subTest(config=config, words=words):
                printed = self.checked(f'configFile={config}', *words)
                self.write('printed.cntk', printed)
                again = self.checked('configFile=printed.cntk')
                self.assertEqual(self.settings(again), self.settings(printed))
                for word in ('unused', 'Idle', '$', 'epochs = 2\n'):
                    self.assertNotIn(word, '\n'.join(self.settings(printed)).replace('maxEpochs = 2\n', ''))
                self.run_trainer([f'configFile={config}', 'makeMode=false', *words], ranks=2)
                first = (self.directory / 'a/net.dnn').read_bytes()
                (self.directory / 'a/net.dnn').unlink()
                self.run_trainer(['configFile=printed.cntk', 'makeMode=false'], ranks=2)
                self.assertEqual((self.directory / 'a/net.dnn').read_bytes(), first)

    def test_all_options_are_comments(self):
        printed = self.checked('configFile=conf/rich.cntk', '-v')
        self.assertIn('    # L1RegWeight = 0\n', printed)
        self.write('printed.cntk', printed)
        self.assertEqual(self.settings(self.checked('configFile=printed.cntk')), self.settings(printed))

    def test_samples(self):
        """The samples pass --check; those whose data are absent may complain about files only. What is printed of each whose data are here
        prints itself."""
        parts = {'data.cntk', 'methods/common.cntk', 'methods/mnist.cntk'}  # of other configs: no run of their own
        samples = sorted(p for p in (support.SOURCE / 'samples').glob('*/*.cntk')
                         if p.name not in parts and f'{p.parent.name}/{p.name}' not in parts)
        count = 0
        for sample in samples:
            with self.subTest(sample=sample.name):
                run = self.start_trainer(['--check', f'configFile={sample}']).wait()
                errors = re.findall(r'error: (.*)', run.text)
                self.assertEqual([e for e in errors if 'file' not in e.lower()], [], str(run))
                self.assertEqual(run.code, 2 if errors else 0)
                if errors:
                    continue
                self.write('printed.cntk', run.stdout)
                self.assertEqual(self.settings(self.checked('configFile=printed.cntk')), self.settings(run.stdout))
                count += 1
        self.assertGreaterEqual(count, 1)

    # --- --dry-run
    def test_dry_run_trains_a_step_and_writes_nothing(self):
        for ranks in (None, 2):
            before = sorted(p for p in self.directory.rglob('*') if not p.name.startswith('.std'))
            result = self.run_trainer(['--dry-run', 'configFile=conf/rich.cntk', 'stderr=log'], ranks)
            self.assertRegex(result.stdout, r'# Train: one step of 16 samples from the initial weights: criterion 0\.\d+ per sample')
            self.assertIn('# Test, action test: checked only', result.stdout)
            self.assertRegex(result.stdout, r'(?m)^#   memory     \d\S* [kM]?B of host memory for weights, gradients, optimizer, exchange and the values of a minibatch'
                             + (r' on this rank, \d\S* [kM]?B on the 2 ranks of this host$' if ranks else '$'))
            self.assertIn('# Dry run: the configuration is fine. Nothing was written.', result.stdout)
            after = sorted(p for p in self.directory.rglob('*') if not p.name.startswith('.std') and p.parent == self.directory)
            self.assertEqual([p for p in before if p.parent == self.directory], [p for p in after if 'ompi' not in p.name], str(result))

    def test_dry_run_of_every_method(self):
        methods = ('ModelAveragingSGD', 'BlockMomentumSGD;BlockMomentumSGD=[blockSize=32]', 'DataParallelASGD', 'EASGD', 'ASA')
        names = [f'Run{i}' for i in range(len(methods))]
        self.write('each.cntk', support.copies_of_train(examples.config(), names))
        words = [f'{name}=[SGD=[ParallelTrain=[parallelizationMethod={method}]]]' for name, method in zip(names, methods)]
        text = self.run_trainer(['--dry-run', 'configFile=each.cntk', f'command={":".join(names)}', *words], 2).text
        for name in names:
            self.assertIn(f'# {name}: one step of ', text)
        self.assertIn('Nothing was written.', text)

    def test_dry_run_meets_what_a_check_cannot(self):
        self.write('train.ctf', '|x 1 nan |y 1 0\n' * 64)
        result = self.start_trainer(['--dry-run', 'configFile=run.cntk']).wait()
        self.assertNotEqual(result.code, 0, str(result))
        self.assertRegex(result.text, 'nan|NaN|not a number')

    # --- trainer diff
    def test_equal_configs(self):
        self.write('other.cntk', examples.config().replace('minibatchSize = 16', 'minibatchSize = 16 ; L1RegWeight = 0.0')
                   .replace('learningRatesPerMB = 0.5', 'learningRatesPerMB = 5e-1') + 'Unread = 5\n')
        self.assertEqual(self.diff('run.cntk', 'other.cntk'), (0, ''))
        self.write('inherited.cntk', 'momentumPerMB = 0.9\n' + examples.config().replace('momentumPerMB = 0.9\n', ''))
        self.assertEqual(self.diff('run.cntk', 'inherited.cntk'), (0, ''))

    def test_inherited_or_written_in_any_spelling(self):
        config = examples.config()
        network = config[config.index('    SimpleNetworkBuilder'):config.index('    SGD = [')]
        for same in (network + config.replace(network, ''), config.replace(' SGD = [', ' SGD = [ traceLevel = 1'),
                     config.replace(' SGD = [', ' SGD = [ keepBest = F ; gradUpdateType = "None"'),
                     config.replace('momentumPerMB = 0.9', '').replace('action = "train"', 'action = "train" ; momentumPerMB = 0.9')):
            self.write('other.cntk', same)
            self.assertEqual(self.diff('run.cntk', 'other.cntk'), (0, ''), same)
            self.assertEqual(self.diff('other.cntk', 'run.cntk'), (0, ''), same)
        self.write('other.cntk', config.replace(' SGD = [', ' SGD = [ keepBest = T'))
        self.assertIn('Train.SGD.keepBest\n', self.diff('run.cntk', 'other.cntk')[1])

    def test_what_many_blocks_inherit_differs_once(self):
        self.write('other.cntk', examples.config().replace('traceLevel = 1', 'traceLevel = 2'))
        code, text = self.diff('run.cntk', 'other.cntk')
        self.assertEqual(code, 1, text)
        self.assertTrue(text.startswith('traceLevel\n') and text.endswith('\n1 difference\n'), text)

    def test_differences_have_values_and_places(self):
        self.write('other.cntk', examples.config().replace('maxEpochs = 2', 'maxEpochs = 5\n        L2RegWeight = 0.1').replace('2:8:2', '2:16:2'))
        code, text = self.diff('run.cntk', 'other.cntk')
        self.assertEqual(code, 1)
        line = 1 + next(i for i, l in enumerate(examples.config().splitlines()) if 'maxEpochs' in l)
        self.assertRegex(text, rf'Train\.SGD\.maxEpochs\n  A: 2  \(run\.cntk:{line}:\d+\)\n  B: 5  \(other\.cntk:{line}:\d+\)\n')
        self.assertRegex(text, r'Train\.SGD\.L2RegWeight\n  A: 0  \(default\)\n  B: 0\.1  \(other\.cntk:')
        self.assertIn('Train.SimpleNetworkBuilder.layerSizes', text)
        self.assertIn('3 differences', text)

    def test_networks_show_the_line(self):
        self.write('other/rich.cntk', (self.directory / 'conf/rich.cntk').read_text().replace('LinearLayer {2}', 'LinearLayer {2, bias = false}'))
        self.write('other/layers.bs', (self.directory / 'conf/layers.bs').read_text())
        code, text = self.diff('conf/rich.cntk', 'other/rich.cntk')
        self.assertEqual(code, 1)
        self.assertRegex(text, r'Train\.BrainScriptNetworkBuilder\n')

    def test_a_model_has_its_settings(self):
        self.run_trainer(['configFile=conf/rich.cntk', 'OutputDir=.', 'Train=[SGD=[L2RegWeight=0.01]]'])
        code, text = self.diff('conf/rich.cntk', 'models/net.dnn')
        self.assertEqual(code, 1)
        self.assertRegex(text, r'L2RegWeight\n  A: 0  \(default\)\n  B: 0\.01  \(models/net\.dnn\.config:\d+:\d+\)')
        self.assertNotIn('Test.', text)
        self.assertIn('modelPath', self.diff('conf/rich.cntk', 'models/net.dnn.1')[1])
        kept = (self.directory / 'models/net.dnn.config').read_text()
        self.run_trainer(['configFile=conf/rich.cntk', 'OutputDir=.'])
        self.assertEqual((self.directory / 'models/net.dnn.config').read_text(), kept, 'nothing was trained')
        self.run_trainer(['configFile=models/net.dnn.config', 'modelPath=b.dnn', 'Train=[modelPath=b.dnn]'])
        self.assertEqual((self.directory / 'b.dnn').read_bytes(), (self.directory / 'models/net.dnn').read_bytes())

    def test_trouble(self):
        self.run_trainer(['configFile=run.cntk'])
        (self.directory / 'models/model.dnn.config').unlink()
        for words, said in ((['run.cntk'], 'fix: trainer diff A B'), (['run.cntk', 'no.cntk'], 'no.cntk'),
                            (['run.cntk', 'models/model.dnn'], 'its settings|the settings of')):
            code, text = self.diff(*words)
            self.assertEqual(code, 2, text)
            self.assertRegex(text, said)
        self.assertIn('usage: trainer diff', self.diff('--help')[1])


if __name__ == '__main__':
    support.main()
