# SPDX-License-Identifier: Apache-2.0
"""trainer sweep: the runs of a grid, random and halving sweeps; a sweep that is killed repeats no run that had ended; Slurm arrays."""
import collections
import csv
import os
import re
import signal
import subprocess
import time

import examples
import support

GRID = '''
config: run.cntk
parameters:
  Train.SGD.learningRatesPerMB: [0.1, 0.5, "0.5*1:0.1"]
  Train.SGD.minibatchSize: [16, 32]
  hidden: [4, 8]
output: out
'''

# The list of words is made by a command before the training, which reads it in two blocks.
LANGUAGE_MODEL = '''
command   = Words:Train
modelPath = "text.dnn"
numCPUThreads = 1
Words = [ action = "writeWordAndClass" ; inputFile = "text.txt" ; beginSequence = "</s>" ; endSequence = "</s>"
          outputVocabFile = "lists/vocabulary" ; outputMappingFile = "lists/words" ; vocabSize = 5 ; nbrClass = 0 ; cutoff = 0 ]
Train = [
    BrainScriptNetworkBuilder = {
        words  = Input {5, sparse = true}
        labels = Input {5, sparse = true}
        z  = Sequential (EmbeddingLayer {4} : LinearLayer {5}) (words)
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce) ; outputNodes = (z)
    }
    SGD = [ maxEpochs = 3 ; minibatchSize = 20 ; learningRatesPerMB = 0.1 ]
    reader = [
        readerType = "LMSequenceReader" ; file = "text.txt" ; nbruttsineachrecurrentiter = 0
        words   = [ mode = "softmax" ]
        labelIn = [ labelType = "category" ; labelMappingFile = "lists/words" ; labelDim = 5 ; beginSequence = "</s>" ; endSequence = "</s>" ]
        labels  = [ labelType = "nextWord" ; labelMappingFile = "lists/words" ; labelDim = 5 ]
    ]
]
'''

# The second training begins with a layer of the first one, and a script copies the model that is tested.
STAGES = '''
command = Pre:Fine:Copy:Test
numCPUThreads = 1
preModel = "models/pre.dnn"
reader = [
    readerType = "CNTKTextFormatReader" ; file = "train.ctf"
    input = [ features = [ alias = "x" ; dim = 2 ; format = "dense" ] ; labels = [ alias = "y" ; dim = 2 ; format = "dense" ] ]
]
Pre = [
    action = "train" ; modelPath = "$preModel$"
    SGD = [ maxEpochs = 3 ; minibatchSize = 16 ; learningRatesPerMB = 0.1 ]
    BrainScriptNetworkBuilder = {
        features = Input {2} ; labels = Input {2}
        h  = DenseLayer {4, activation = Sigmoid} (features)
        ce = CrossEntropyWithSoftmax (labels, LinearLayer {2} (h))
        criterionNodes = (ce) ; outputNodes = (h)
    }
]
Fine = [
    action = "train" ; modelPath = "models/fine.dnn"
    SGD = [ maxEpochs = 2 ; minibatchSize = 16 ; learningRatesPerMB = 0.5 ]
    BrainScriptNetworkBuilder = {
        net  = BS.Network.Load ("$preModel$")
        body = BS.Network.CloneFunction (net.features, net.h, parameters = "constant")
        features = Input {2} ; labels = Input {2}
        z  = LinearLayer {2} (body (features))
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce) ; outputNodes = (z)
    }
]
Copy = [ action = "edit" ; editPath = "copy.mel" ; from = "models/fine.dnn" ; to = "models/copy.dnn" ]
Test = [ action = "test" ; modelPath = "models/copy.dnn" ]
'''
COPY = '''# of the model that is tested
m = LoadModel ("$from$", format=cntk)
SaveModel (m, "$to$", format=cntk)
'''

# Both tests are of models that stand beside the trained one.
MODELS_BESIDE = '''
command = Train:Statistics:Best:Test
numCPUThreads = 1
reader = [
    readerType = "CNTKTextFormatReader" ; file = "train.ctf"
    input = [ features = [ alias = "x" ; dim = 2 ; format = "dense" ] ; labels = [ alias = "y" ; dim = 2 ; format = "dense" ] ]
]
Train = [
    action = "train" ; modelPath = "models/a.dnn"
    SGD = [ maxEpochs = 2 ; minibatchSize = 16 ; learningRatesPerMB = 0.1 ; keepBest = true ]
    BrainScriptNetworkBuilder = {
        features = Input {2} ; labels = Input {2}
        z  = LinearLayer {2} (BatchNormalizationLayer {} (features))
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce) ; outputNodes = (z)
    }
]
Statistics = [ action = "bnstat" ; modelPath = "models/a.dnn" ; minibatchSize = 16 ; itersPerNode = 2 ]
Best = [ action = "test" ; modelPath = "models/a.dnn.best" ]
Test = [ action = "test" ; modelPath = "models/a.dnn.PBN" ]
'''


class SweepTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        config = examples.config(epochs=3).replace('2:8:2', '2:$hidden$:2').replace('command    = Train', 'command    = Train:Test')
        self.write('run.cntk', config + 'hidden = 6\n')
        self.write('train.ctf', examples.points(128))
        self.write('test.ctf', examples.points(64, seed=5))

    def sweep(self, text, *words, expect=0, variables=None):
        self.write('sweep.yaml', text)
        run = support.Run(self.directory, ['sweep', 'sweep.yaml', *words], None, variables)
        self.addCleanup(run.close)
        result = run.wait()
        self.assertEqual(result.code, expect, str(result))
        return result

    def table(self, output='out'):
        with open(self.directory / output / 'table.csv', newline='', encoding='utf-8') as f:
            return list(csv.DictReader(f))

    def test_grid(self):
        result = self.sweep(GRID)
        rows = self.table()
        self.assertEqual(len(rows), 12)
        self.assertEqual({(r['Train.SGD.learningRatesPerMB'], r['Train.SGD.minibatchSize'], r['hidden']) for r in rows},
                         {(l, m, h) for l in ('0.1', '0.5', '0.5*1:0.1') for m in ('16', '32') for h in ('4', '8')})
        self.assertEqual([r['state'] for r in rows], ['ended'] * 12)
        self.assertEqual([r['epochs'] for r in rows], ['3'] * 12)
        # The values are those of the runs themselves, and the best is first.
        values = [float(r['test.ClassificationError']) for r in rows] if 'test.ClassificationError' in rows[0] else []
        column = next(k for k in rows[0] if k.startswith('test.'))
        values = [float(r[column]) for r in rows]
        self.assertEqual(values, sorted(values))
        best = rows[0]
        alone = self.run_trainer(['configFile=run.cntk', f'hidden={best["hidden"]}', 'modelPath=alone.dnn',
                                  f'Train=[SGD=[learningRatesPerMB={best["Train.SGD.learningRatesPerMB"]};minibatchSize={best["Train.SGD.minibatchSize"]}]]'])
        self.assertAlmostEqual(support.final_results(alone.text)[column[5:]][0], values[0], places=5)
        self.assertEqual((self.directory / 'alone.dnn').read_bytes(), (self.directory / 'out' / best['run'] / 'model.dnn').read_bytes())
        self.assertFalse((self.directory / 'models').exists(), 'runs write into their folders only')
        again = self.sweep(GRID)
        self.assertIn('12 of 12 runs were done before', again.stderr)
        self.assertEqual(again.stdout, result.stdout)
        self.assertEqual(self.sweep(GRID, '--table').stdout, result.stdout)

    def test_killed_again_and_again(self):
        """kill -9 of the sweep, at random moments: no run that had ended is started again, and the models are those of one sweep."""
        text = GRID + 'parallel: 2\narguments: ["Train=[SGD=[maxEpochs=20;checkpointEverySamples=64]]"]\n'
        self.sweep(text)
        models = {r['run']: (self.directory / 'out' / r['run'] / 'model.dnn').read_bytes() for r in self.table()}
        os.rename(self.directory / 'out', self.directory / 'whole')
        ended, output = set(), ''
        kills = 0
        for attempt in range(40):
            run = support.Run(self.directory, ['sweep', 'sweep.yaml'], None)
            self.addCleanup(run.close)
            end = time.monotonic() + 0.35 * 1.15 ** attempt  # until a run ends in time on this machine
            while run.running() and time.monotonic() < end:
                time.sleep(0.01)
            if run.running():
                kills += 1
                os.kill(run.process.pid, signal.SIGKILL)
            run.process.wait()
            said = ''.join(run.output())
            begun = set(re.findall(r'(run-\w+) begins', said))
            self.assertEqual(begun & ended, set(), said)
            ended |= {p.parent.name for p in (self.directory / 'out').glob('run-*/ended')}
            output += said
            if run.process.returncode == 0:
                break
        self.assertGreaterEqual(kills, 2, output)
        self.assertEqual(run.process.returncode, 0, output[-4000:])
        self.assertEqual({r['run'] for r in self.table()}, ended)
        for name, model in models.items():
            self.assertTrue((self.directory / 'out' / name / 'model.dnn').read_bytes() == model, f'{name} differs')

    def test_a_signal_saves_the_state(self):
        self.write('sweep.yaml', GRID + 'parallel: 1\narguments: ["Train=[SGD=[maxEpochs=100000]]"]\n')
        run = support.Run(self.directory, ['sweep', 'sweep.yaml'], None)
        self.addCleanup(run.close)
        while run.running() and not list(self.directory.glob('out/run-*/model.dnn.2')):
            time.sleep(0.01)
        run.process.terminate()
        result = run.wait()
        self.assertEqual(result.code, 75, str(result))
        self.assertIn('has saved its state', result.stderr)

    def test_a_signal_before_a_run_has_a_handler(self):
        """It ends the run, which has not failed."""
        self.write('sweep.yaml', GRID + 'parallel: 1\narguments: ["Train=[SGD=[maxEpochs=100000]]"]\n')
        run = support.Run(self.directory, ['sweep', 'sweep.yaml'], None)
        self.addCleanup(run.close)
        while run.running() and ' begins ' not in run.output()[1]:
            time.sleep(0.002)
        run.process.terminate()
        result = run.wait()
        self.assertEqual(result.code, 75, str(result))
        self.assertNotIn('failed', result.stderr + result.stdout)
        self.assertEqual(list(self.directory.glob('out/run-*/ended')), [])

    def test_an_edited_config(self):
        """Gives other runs; a comment does not."""
        text = 'config: run.cntk\nparameters: {hidden: [3]}\narguments: [command=Train]\noutput: out\n'
        self.sweep(text)
        config = (self.directory / 'run.cntk').read_text(encoding='utf-8')
        self.write('run.cntk', '# a comment\n' + config.replace('maxEpochs', '  maxEpochs') + '\n')
        self.assertIn('1 of 1 runs were done before', self.sweep(text).stderr)
        before = self.table()[0]
        self.assertEqual(before['epochs'], '3')
        self.write('run.cntk', 'include=more.cntk\n' + re.sub(r'maxEpochs *= *3', 'maxEpochs = $epochs$', config))
        for epochs in ('2', '1'):
            self.write('more.cntk', f'epochs = {epochs}\n')
            result = self.sweep(text)
            self.assertNotIn('done before', result.stderr)
            self.assertRegex(result.stderr, r"sweep: 'out' has \d runs? of other settings or of an edited config;")
            self.assertEqual([r['epochs'] for r in self.table()], [epochs])
        self.assertNotEqual(self.table()[0]['run'], before['run'])

    def test_settings_with_one_short_name(self):
        """A name is 32 bits of a hash. Of two settings that have the same ones both are runs; a setting given twice is one run."""
        self.write('words.cntk', 'hidden = 1')
        self.sweep('config: words.cntk\nparameters: {hidden: [27827, 50240, 27827, 50240]}\noutput: out\n', '--table')
        self.assertEqual([(r['run'], r['hidden']) for r in self.table()], [('run-e77fee2e', '27827'), ('run-927c4ac17503a4ef', '50240')])

    def test_whole_numbers_are_drawn_equally_often(self):
        text = ('config: run.cntk\nmethod: random\nruns: 400\noutput: out\nparameters:\n'
                '  hidden: {from: %s, integer: true}\n'
                '  Train.SGD.learningRatesPerMB: {from: 0.01, to: 1, scale: log}\n')
        self.sweep(text % '2, to: 5', '--table')
        counts = collections.Counter(r['hidden'] for r in self.table())
        self.assertEqual(set(counts), {'2', '3', '4', '5'})
        self.assertTrue(all(80 < n < 120 for n in counts.values()), counts)
        self.sweep(text % '0.5, to: 4.5, scale: log', '--table')
        self.assertEqual({r['hidden'] for r in self.table()}, {'1', '2', '3', '4'})
        self.assertIn("the range of 'hidden' holds no whole number",
                      self.sweep(text % '1.2, to: 1.8', '--table', expect=2).stderr)

    def test_random_runs_depend_on_the_seed_alone(self):
        text = '''
config: [run.cntk]
method: random
runs: 3
seed: %d
parameters:
  Train.SGD.learningRatesPerMB: {from: 0.01, to: 1, scale: log}
  hidden: {from: 2, to: 9, integer: true}
objective: training.CrossEntropyWithSoftmax
output: out
'''
        self.sweep(text % 1)
        first = self.table()
        self.assertEqual(len(first), 3)
        self.assertTrue(all(0.01 <= float(r['Train.SGD.learningRatesPerMB']) <= 1 and 2 <= int(r['hidden']) <= 9 for r in first))
        self.assertIn('training.CrossEntropyWithSoftmax', first[0])
        self.sweep(text % 2)
        second = {r['Train.SGD.learningRatesPerMB'] for r in self.table()}
        self.assertEqual(len(second & {r['Train.SGD.learningRatesPerMB'] for r in first}), 0)
        self.sweep(text % 1)
        self.assertEqual([r['run'] for r in self.table()], [r['run'] for r in first])
        # All runs differ, as far as there are different settings.
        text = 'config: run.cntk\nmethod: random\nruns: %d\nparameters: {hidden: [2, 3, 4]}\noutput: few\n'
        for runs, said in ((3, 0), (5, 1)):
            result = self.sweep(text % runs)
            self.assertEqual(result.stderr.count('3 runs instead of 5: there are no more different settings'), said, str(result))
            self.assertEqual(sorted(r['hidden'] for r in self.table('few')), ['2', '3', '4'])

    def test_halving(self):
        text = '''
config: run.cntk
method: halving
runs: 9
parameters:
  Train.SGD.learningRatesPerMB: {from: 0.001, to: 0.1, scale: log}
arguments: ["Train=[SGD=[maxEpochs=12]]"]
objective: training.CrossEntropyWithSoftmax
output: out
'''
        result = self.sweep(text)
        rows = self.table()
        epochs = sorted(int(r['epochs']) for r in rows)
        self.assertEqual(epochs[-1], 12)
        self.assertEqual([r['state'] for r in rows].count('ended'), 1)
        self.assertIn('after epoch 1, 3 of 9 runs go on', result.stderr)
        self.assertIn('after epoch 3, 1 of 3 runs go on', result.stderr)
        self.assertEqual(epochs, [1] * 6 + [3] * 2 + [12])
        # The runs that went on are the best ones after the first epoch.
        first = {}
        for r in rows:
            log = (self.directory / 'out' / r['run'] / 'log').read_text()
            first[r['run']] = support.epochs(log)[0]['CrossEntropyWithSoftmax'][0]
        on = {r['run'] for r in rows if len(re.findall(rf'{r["run"]} begins', result.stderr)) > 1}
        self.assertEqual(on, set(sorted(first, key=first.get)[:3]))
        # The winner is that of an undisturbed run.
        best = next(r for r in rows if r['state'] == 'ended')
        rounds = [float(s) for s in re.findall(rf'{best["run"]} (?:pauses|ends) in ([\d.]+) s', result.stderr)]
        self.assertEqual(len(rounds), 3, result.stderr)
        self.assertAlmostEqual(float(best['seconds']), sum(rounds), delta=0.21)
        self.run_trainer(['configFile=run.cntk', 'command=Train', 'modelPath=alone.dnn', f'Train=[SGD=[maxEpochs=12;learningRatesPerMB={best["Train.SGD.learningRatesPerMB"]}]]'])
        self.assertEqual((self.directory / 'alone.dnn').read_bytes(), (self.directory / 'out' / best['run'] / 'model.dnn').read_bytes())

    def test_a_training_of_halving_that_ends_by_patience(self):
        """Without a learning rate no epoch is better than the first. Later rounds do not train on, even if it was the last epoch of its round."""
        text = '''
config: run.cntk
method: halving
runs: 4
epochs: {first: 3, factor: 2}
parameters: {hidden: [3, 4, 5, 6]}
arguments: ["Train=[SGD=[maxEpochs=9;patience=%d;learningRatesPerMB=0;minLearningRatePerSample=0;AutoAdjust=[useEvalCriterionControlLR=true]]]"]
objective: training.CrossEntropyWithSoftmax
output: out%d
'''
        for patience in (1, 2):
            with self.subTest(patience=patience):
                self.sweep(text % (patience, patience))
                rows = self.table(f'out{patience}')
                self.assertEqual([r['epochs'] for r in rows], [str(patience + 1)] * 4)
                self.assertEqual(sorted(r['state'] for r in rows), ['ended', 'ended', 'paused', 'paused'])
                for row in rows:
                    log = (self.directory / f'out{patience}' / row['run'] / 'log').read_text()
                    self.assertEqual(log.count('Training ends after epoch'), 1, log)
                    self.assertEqual('Final Results' in log, row['state'] == 'ended', log)
                self.assertNotIn('begins', self.sweep(text % (patience, patience)).stderr)

    def test_commands_that_the_training_needs(self):
        """Every round makes the list of words before it trains. Each run has a list of its own, and reads it."""
        self.write('words.cntk', LANGUAGE_MODEL)
        self.write('text.txt', '</s> a b c a </s>\n</s> c b a d </s>\n' * 10)
        self.sweep('config: words.cntk\nmethod: halving\nruns: 2\nepochs: {first: 1, factor: 2}\noutput: out\n'
                   'parameters: {Train.SGD.learningRatesPerMB: [0.1, 0.3]}\n')
        self.assertEqual(sorted(r['state'] for r in self.table()), ['ended', 'paused'])
        for row in self.table():
            folder = self.directory / 'out' / row['run']
            self.assertEqual(len((folder / 'words').read_text().splitlines()), 5)
            self.assertTrue((folder / 'vocabulary').exists())
            self.assertEqual((folder / 'command').read_text().count(f'labelMappingFile="out/{row["run"]}/words"'), 2)
        self.assertFalse((self.directory / 'lists').exists(), 'runs write into their folders only')

    def write_stages(self, config=STAGES, script=COPY):
        self.write('stages.cntk', config)
        self.write('copy.mel', script)

    def test_two_trainings_are_compared_by_the_second(self):
        """It has fewer epochs than the first one, which is the same in all runs."""
        self.write_stages()
        self.sweep('config: stages.cntk\narguments: [command=Pre:Fine]\nparameters: {Fine.SGD.learningRatesPerMB: [0.0001, 0.5, 0.01]}\noutput: out\n')
        rows = self.table()
        self.assertEqual([r['epochs'] for r in rows], ['2'] * 3)
        values = []
        for row in rows:
            epochs = support.epochs((self.directory / 'out' / row['run'] / 'log').read_text())
            self.assertEqual([e['epoch'] for e in epochs], [1, 2, 3, 1, 2])
            values.append(epochs[-1]['ce'][0])
            self.assertAlmostEqual(float(row['training.ce']), values[-1], places=5)
        self.assertEqual(values, sorted(values))
        self.assertLess(values[0], values[-1])

    def test_a_round_of_halving_ends_with_its_last_training(self):
        self.write_stages()
        text = ('config: stages.cntk\nmethod: halving\nruns: 2\nepochs: {first: 1, factor: 2}\noutput: out\n'
                'parameters: {Fine.SGD.learningRatesPerMB: [0.0001, 0.5]}\n')
        self.sweep(text)
        rows = self.table()
        self.assertEqual([(r['Fine.SGD.learningRatesPerMB'], r['epochs'], r['state']) for r in rows], [('0.5', '2', 'ended'), ('0.0001', '1', 'paused')])
        self.assertIn('2 of 2 runs were done before', self.sweep(text).stderr)
        # As a kill leaves it between the trainings of the round.
        folder = self.directory / 'out' / rows[1]['run']
        log = (folder / 'log').read_text()
        (folder / 'log').write_text(log[:log.index('# Fine command')])
        for file in folder.glob('fine.dnn*'):
            file.unlink()
        self.assertIn(f'{folder.name} begins (to epoch 1)', self.sweep(text).stderr)
        self.assertEqual(self.table()[1]['epochs'], '1')

    def test_a_round_of_halving_longer_than_its_last_training(self):
        """The last training has two epochs, the rounds have 4, 8 and all: after the first round nothing is left but the end of one run."""
        self.write_stages(STAGES.replace('maxEpochs = 3', 'maxEpochs = 10'))
        text = ('config: stages.cntk\nmethod: halving\nruns: 4\nepochs: {first: 4, factor: 2}\noutput: out\n'
                'parameters: {Fine.SGD.learningRatesPerMB: [0.0001, 0.01, 0.1, 0.5]}\n')
        said = self.sweep(text).stderr
        self.assertEqual([(r['epochs'], r['state']) for r in self.table()], [('2', 'ended')] + [('2', 'paused')] * 3)
        self.assertEqual(re.findall(r'begins \((.*)\)', said), ['to epoch 4'] * 4 + ['to the end'], said)
        self.assertIn('2 of 2 runs were done before', said)
        self.assertNotIn('begins', self.sweep(text).stderr)

    def test_commands_find_the_files_of_earlier_ones(self):
        """A network description and a script name them by variables. The model is that of a run alone."""
        self.write_stages()
        self.sweep('config: stages.cntk\noutput: out\nparameters: {Pre.SGD.learningRatesPerMB: [0.01, 2], Fine.SGD.learningRatesPerMB: [0.1, 1]}\n')
        self.assertEqual([r['state'] for r in self.table()], ['ended'] * 4)
        self.assertFalse((self.directory / 'models').exists(), 'runs write into their folders only')
        for row in self.table():
            words = [f'{name}=[SGD=[learningRatesPerMB={row[f"{name}.SGD.learningRatesPerMB"]}]]' for name in ('Pre', 'Fine')]
            self.run_trainer(['configFile=stages.cntk', 'makeMode=false', *words])
            for name in ('pre.dnn', 'fine.dnn', 'copy.dnn'):
                self.assertTrue((self.directory / 'models' / name).read_bytes() == (self.directory / 'out' / row['run'] / name).read_bytes(), name)

    def test_models_beside_the_trained_one(self):
        """The best one, and that of bnstat, also if no run trains its model."""
        self.write('beside.cntk', MODELS_BESIDE)
        text = 'config: beside.cntk\nparameters: {Statistics.itersPerNode: [1, 2]}\noutput: %s\n'
        self.sweep(text % 'out')
        self.assertEqual([r['state'] for r in self.table()], ['ended'] * 2)
        self.assertFalse((self.directory / 'models').exists(), 'runs write into their folders only')
        for row in self.table():
            folder = f'out/{row["run"]}'
            command = (self.directory / folder / 'command').read_text()
            self.assertIn(f'Best=[modelPath="{folder}/a.dnn.best"]', command)
            self.assertIn(f'Test=[modelPath="{folder}/a.dnn.PBN"]', command)
        self.run_trainer(['configFile=beside.cntk', 'command=Train'])
        before = set(self.directory.glob('models/*'))
        self.sweep(text % 'other' + 'arguments: ["command=Statistics:Test"]\n')
        self.assertEqual(set(self.directory.glob('models/*')), before)
        self.assertEqual(len(list(self.directory.glob('other/run-*/a.dnn.PBN'))), 2)

    def test_a_script_that_saves_nowhere(self):
        """In a section that is not executed. No setting without a path is redirected."""
        self.write_stages(STAGES.replace('Test = [', 'Test = [ labelMappingFile = "" ;'),
                          f'edit = used\nunused = [\nSaveModel (m, "")\nSaveModel ("")\n]\nused = [\n{COPY}]\n')
        self.sweep('config: stages.cntk\nparameters: {Fine.SGD.learningRatesPerMB: [0.1, 1]}\noutput: out\n')
        for row in self.table():
            self.assertEqual(row['state'], 'ended')
            self.assertNotIn('labelMappingFile', (self.directory / 'out' / row['run'] / 'command').read_text())

    def test_files_that_runs_would_share(self):
        """Where a network description or a script names them as they are in the config, in another spelling, or a model beside them."""
        text = 'config: stages.cntk\nparameters: {Fine.SGD.learningRatesPerMB: [0.1, 1]}\noutput: out\n'
        at = COPY.count('\n', 0, COPY.index('SaveModel')) + 1
        in_config = STAGES.count('\n', 0, STAGES.index('BS.Network.Load')) + 1
        for config, script, place, path in (
                (STAGES.replace('Load ("$preModel$")', 'Load ("models/pre.dnn")'), COPY, f'stages.cntk:{in_config}:33', 'models/pre.dnn'),
                (STAGES.replace('Load ("$preModel$")', 'Load ("models/pre.dnn.2")'), COPY, f'stages.cntk:{in_config}:33', 'models/pre.dnn.2'),
                (STAGES.replace('Load ("$preModel$")', 'Load ("models/pre.dnn.best")'), COPY, f'stages.cntk:{in_config}:33', 'models/pre.dnn.best'),
                (STAGES.replace('Load ("$preModel$")', 'Load ("./models/pre.dnn")'), COPY, f'stages.cntk:{in_config}:33', './models/pre.dnn'),
                (STAGES, COPY.replace('"$to$"', 'models/copy.dnn'), f'copy.mel:{at}:1', 'models/copy.dnn'),
                (STAGES, COPY.replace('$from$', 'models/fine.dnn'), f'copy.mel:{at - 1}:1', 'models/fine.dnn')):
            with self.subTest(place=place, path=path):
                self.write_stages(config, script)
                result = self.sweep(text, expect=2)
                self.assertIn(place, result.stderr)
                self.assertIn(f"error: all runs of the sweep would share '{path}'", result.stderr)
                self.assertIn(f'fix: define modelFile = "{path}" in the config and write "$modelFile$" here', result.stderr)
                self.assertEqual(list(self.directory.glob('out/run-*')), [])

    def test_a_failed_run_of_halving_is_tried_again(self):
        """Its data are there when the sweep is started again; it goes on as if it had never failed."""
        text = '''
config: run.cntk
method: halving
runs: 3
parameters: {hidden: [3, 4, 5]}
arguments: ["Train=[SGD=[maxEpochs=4]]"]
objective: training.CrossEntropyWithSoftmax
output: out
'''
        os.rename(self.directory / 'train.ctf', self.directory / 'later')
        self.sweep(text, expect=1)
        self.assertEqual({r['state'] for r in self.table()}, {'failed (2)'})
        os.rename(self.directory / 'later', self.directory / 'train.ctf')
        self.sweep(text)
        self.assertEqual(sorted(r['state'] for r in self.table()), ['ended', 'paused', 'paused'])

    def test_files_that_all_runs_would_share(self):
        self.sweep('config: run.cntk\nparameters: {hidden: [3, 4]}\noutput: out\n'
                   'arguments: ["Train=[SGD=[timeline=trace.json;metrics=[jsonl=run.jsonl]]]", "Test=[confusionTable=true;confusionFile=table]", word=table, path=run.jsonl]\n')
        for row in self.table():
            # Other settings follow, unless their value may be something else than a path.
            command = (self.directory / 'out' / row['run'] / 'command').read_text().split('\n')
            self.assertEqual([line for line in command if line.startswith(('word=', 'path='))],
                             ['word=table', 'path=run.jsonl', f'path="out/{row["run"]}/run.jsonl"'])
            for name in ('trace.json', 'run.jsonl', 'table'):
                self.assertTrue((self.directory / 'out' / row['run'] / name).exists(), name)
        self.assertFalse((self.directory / 'run.jsonl').exists())

    def test_an_sgd_block_that_commands_share(self):
        text = (self.directory / 'run.cntk').read_text(encoding='utf-8')
        begin = text.index('SGD')
        end = text.index('[', begin) + 1
        while text.count('[', begin, end) > text.count(']', begin, end):
            end += 1
        self.write('run.cntk', text[:begin] + text[end:] + '\n' + text[begin:end].replace('[', '[ timeline = "trace.json"\n', 1) + '\n')
        self.sweep('config: run.cntk\nmethod: halving\nruns: 3\nparameters: {SGD.minibatchSize: [8, 16, 32]}\noutput: out\n'
                   'objective: training.CrossEntropyWithSoftmax\n')
        self.assertEqual(sorted(r['epochs'] for r in self.table()), ['1', '1', '3'])
        for row in self.table():
            self.assertTrue((self.directory / 'out' / row['run'] / 'trace.json').exists())

    def test_from_another_directory(self):
        (self.directory / 'here').mkdir()
        for name in ('train.ctf', 'test.ctf'):
            os.rename(self.directory / name, self.directory / 'here' / name)
        self.sweep('config: run.cntk\nparameters: {hidden: [3, 4]}\noutput: out\narguments: [currentDirectory=here]\n')
        self.assertEqual([r['state'] for r in self.table()], ['ended', 'ended'])

    def test_several_ranks(self):
        self.sweep('config: run.cntk\nranks: 2\nparameters: {hidden: [3, 4]}\noutput: out\n')
        self.assertEqual([r['state'] for r in self.table()], ['ended', 'ended'])
        self.assertIn('ranks      2 on 1 host', (self.directory / 'out' / self.table()[0]['run'] / 'log').read_text())

    def test_a_run_that_fails(self):
        result = self.sweep('config: run.cntk\nparameters: {hidden: [3, -4]}\noutput: out\n', expect=1)
        self.assertEqual(sorted(r['state'] for r in self.table()), ['ended', 'failed (2)'])
        self.assertRegex(result.stderr, r'run-\w+ failed with code 2: ')

    def test_a_run_that_is_refused(self):
        """It makes no log, so its output is kept; the error is shown, and not the line below its place."""
        result = self.sweep('config: run.cntk\nparameters: {Train.SGD.minibatchSize: [16, 0]}\noutput: out\n', expect=1)
        said = re.search(r'(run-\w+) failed with code 2: (.*error: minibatchSize must be at least 1); see (out/run-\w+/output)\n', result.stderr)
        self.assertIsNotNone(said, result.stderr)
        self.assertEqual(said.group(3), f'out/{said.group(1)}/output')
        self.assertIn(said.group(2), (self.directory / said.group(3)).read_text())

    def test_slurm(self):
        """The array, by a sbatch that carries it out here."""
        sbatch = self.write('bin/sbatch', '''#!/bin/sh
test "$1" = --wait || exit 9
echo "$2" >> arrays
for i in $(echo "${2#--array=}" | sed 's/%.*//; s/,/ /g'); do SLURM_ARRAY_TASK_ID=$i sh "$3" || exit 1; done
''')
        sbatch.chmod(0o755)
        variables = {'PATH': f'{self.directory}/bin:' + os.environ['PATH']}
        text = 'config: run.cntk\nparameters: {hidden: [3, 4, 5]}\nparallel: 2\nslurm: [--time=1]\noutput: out\n'
        self.sweep(text, '--slurm', variables=variables)
        self.assertEqual([r['state'] for r in self.table()], ['ended'] * 3)
        self.assertEqual((self.directory / 'arrays').read_text(), '--array=0,1,2%2\n')
        self.assertIn('#SBATCH --time=1\n', (self.directory / 'out/array.sh').read_text())
        self.assertIn('or leave out --slurm', self.sweep(text.replace(': out', ': none'), '--slurm', variables={'PATH': str(self.directory)}, expect=2).stderr)
        # An array that ends early, and one that is refused.
        sbatch.write_text('#!/bin/sh\necho Submitted batch job 7\n')
        self.assertIn('3 of its runs have not', self.sweep(text.replace(': out', ': other'), '--slurm', variables=variables, expect=75).stderr)
        sbatch.write_text('#!/bin/sh\necho no such partition >&2\nexit 1\n')
        self.assertIn('submitted nothing', self.sweep(text.replace(': out', ': third'), '--slurm', variables=variables, expect=2).stderr)

    def test_all_runs_are_compared_by_one_value(self):
        """Of two runs one is tested: the other has no value of a test, and is not ranked by its value of training."""
        text = 'config: run.cntk\nparameters: {command: [Train, "Train:Test"]}\noutput: out\n'
        for words in ([], ['--table']):
            self.sweep(text, *words)
            rows = self.table()
            column = next(k for k in rows[0] if '.' in k)
            self.assertTrue(column.startswith('test.'), column)
            self.assertEqual([r['command'] for r in rows], ['Train:Test', 'Train'])
            self.assertEqual(rows[1][column], '-')
        # Without any test, all are compared by what the training has.
        self.sweep('config: run.cntk\nparameters: {hidden: [3, 4]}\narguments: [command=Train]\noutput: other\n')
        with open(self.directory / 'other/table.csv', encoding='utf-8') as f:
            self.assertIn('training.', f.readline())

    def test_epochs_that_are_undone_do_not_count(self):
        """The third epoch is much worse. AutoAdjust goes back to the second, and ends below the least rate."""
        adjust = ('autoAdjustLR=adjustAfterEpoch;increaseLearnRateIfImproveMoreThan=-100;reduceLearnRateIfImproveLessThan=-100;'
                  'learnRateIncreaseFactor=1e30;learnRateDecreaseFactor=1e-37')
        self.sweep('config: run.cntk\nparameters: {hidden: [4, 8]}\noutput: out\nobjective: training.CrossEntropyWithSoftmax\narguments: [command=Train, '
                   f'"Train=[SGD=[learningRatesPerMB=0.1;momentumPerMB=0;minLearningRatePerSample=1e-6;AutoAdjust=[{adjust}]]]"]\n')
        for row in self.table():
            log = (self.directory / 'out' / row['run'] / 'log').read_text()
            epochs = support.epochs(log)
            self.assertEqual([e['epoch'] for e in epochs], [1, 2, 3], log)
            self.assertEqual((row['epochs'], row['state']), ('2', 'ended'))
            self.assertAlmostEqual(float(row['training.CrossEntropyWithSoftmax']), epochs[1]['CrossEntropyWithSoftmax'][0], places=5)
            self.assertIn(f'Result: after 2 of 3 epochs: CrossEntropyWithSoftmax = {epochs[1]["CrossEntropyWithSoftmax"][0]:.8f} *', log)

    def test_an_objective_that_no_log_holds(self):
        text = '''
config: run.cntk
%s
parameters: {hidden: [3, 4, 5]}
objective: training.CrossEntropyWithSoftmx
output: out
'''
        for method in ('method: grid', 'method: halving\nruns: 3'):
            result = self.sweep(text % method, expect=2)
            self.assertRegex(result.stderr, r'sweep\.yaml:\d:12: error: the log \S+ has no .training\.CrossEntropyWithSoftmx.; '
                             r'values: training\.CrossEntropyWithSoftmax, ')
            self.assertIn("fix: did you mean 'training.CrossEntropyWithSoftmax'?", result.stderr)

    def test_a_parameter_that_nothing_reads(self):
        text = 'config: run.cntk\narguments: [Unused=1]\noutput: out\nparameters:\n  hidden: [3]\n  %s: [2, 3]\n'
        for key, fix in (('Noise', 'remove it, or use it as $Noise$'), ('Train.maxEpoch', 'did you mean Train.SGD.maxEpochs=2?')):
            result = self.sweep(text % key, expect=2)
            self.assertIn(f"sweep.yaml:6:3: error: no command uses '{key.rpartition('.')[2]}'", result.stderr)
            self.assertIn(f'fix: {fix}', result.stderr)
            self.assertNotIn('Unused', result.stderr)  # arguments may hold more than a config uses
            self.assertEqual(list(self.directory.glob('out/run-*')), [])
        result = self.sweep(text % 'Train.SGD.L2RegWeigt', expect=2)
        self.assertIn("sweep.yaml:6:3: error: SGD has no 'L2RegWeigt'", result.stderr)
        self.assertIn("fix: did you mean 'L2RegWeight'?", result.stderr)
        self.assertEqual(list(self.directory.glob('out/run-*')), [])

    def test_mistakes(self):
        for text, place, said in (('config: run.cntk\nparameter: {hidden: [1]}\n', 'sweep.yaml:2:1', "did you mean 'parameters'?"),
                                  ('config: run.cntk\n', 'sweep.yaml:1:1', 'varies no parameters'),
                                  ('config: run.cntk\nmethod: gird\nparameters: {hidden: [1]}\n', 'sweep.yaml:2:9', "did you mean 'grid'?"),
                                  ('config: run.cntk\nmethod: random\nparameters: {hidden: [1]}\n', 'sweep.yaml:', 'runs: 12'),
                                  ('config: run.cntk\nparameters: {hidden: {from: 1, to: 2}}\n', 'sweep.yaml:2:', 'method: random'),
                                  ('config: run.cntk\nobjective: errs\nparameters: {hidden: [1]}\n', 'sweep.yaml:2:12', 'objective: validation.errs'),
                                  ('config: run.cntk\nmethod: halving\nruns: 3\nepochs: {frist: 2}\nparameters: {hidden: [1]}\n', 'sweep.yaml:4:10',
                                   "did you mean 'first'?"),
                                  ('config: run.cntk\nmethod: halving\nruns: 3\nepochs: 2\nparameters: {hidden: [1]}\n', 'sweep.yaml:4:9',
                                   'epochs: {first: 1, factor: 3}'),
                                  ('config: run.cntk\nparameters: {hidden: [1], Hidden: [2]}\n', 'sweep.yaml:2:27', "'Hidden' is given twice"),
                                  ('config: run.cntk\nseed: 1\nseed: 2\nparameters: {hidden: [1]}\n', 'sweep.yaml:3:1', "'seed' is given twice"),
                                  ('config: run.cntk\nparallel: 0\nparameters: {hidden: [1]}\n', 'sweep.yaml:2:11', 'fix: parallel: 1\n'),
                                  ('config: run.cntk\narguments: {a: 1}\nparameters: {hidden: [1]}\n', 'sweep.yaml:2:12', 'fix: arguments: [one, another]\n'),
                                  ('config: run.cntk\nparameters: {hidden: []}\n', 'sweep.yaml:2:22', 'fix: a list such as [64, 128]\n'),
                                  ('config: run.cntk\nmethod: random\nruns: 10001\nparameters: {hidden: [1]}\n', 'sweep.yaml:3:7', 'fix: runs: 10000\n'),
                                  ('config: run.cntk\noutput: run.cntk/out\nparameters: {hidden: [1]}\n', '', "'run.cntk/out' cannot be made"),
                                  ('config: [run.cntk\n', 'sweep.yaml:', 'no YAML'),
                                  ('config: no.cntk\nparameters: {hidden: [1]}\n', '', 'no.cntk')):
            with self.subTest(text=text):
                result = self.sweep(text, expect=2)
                self.assertIn(place, result.stderr)
                self.assertIn(said, result.stderr)
                self.assertIn('fix: ', result.stderr)
        self.assertIn('usage: trainer sweep', self.sweep('', '--help').stdout)


if __name__ == '__main__':
    support.main()
