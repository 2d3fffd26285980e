# SPDX-License-Identifier: Apache-2.0
"""metrics = [ jsonl ; tensorBoard ]: every value of the log for programs, on a run that is killed and goes on too, and read by the real
TensorBoard. The package is installed into an environment beside the build, once; the rest of the test is skipped where it cannot be."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import examples
import pip_venv
import support

READ_EVENTS = '''
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}))
'''


def records(path):
    """The lines of a file; each must be JSON in the strict sense."""
    def refuse(constant):
        raise ValueError(f'{constant} is no JSON')
    return [json.loads(line, parse_constant=refuse) for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines()]


def without_times(record):
    """What must be the same in every run."""
    return {k: v for k, v in record.items() if k not in ('time', 'measures', 'ranks', 'options')}


def tensorboard_python():
    """An interpreter that can import TensorBoard; the test is skipped, and says so, where there is none."""
    for python in (sys.executable, os.environ.get('TUTTI_TENSORBOARD_PYTHON')):
        if python and subprocess.run([python, '-c', 'import tensorboard'], capture_output=True).returncode == 0:
            return python
    return pip_venv.python_with('tensorboard')


class MetricsTest(support.TrainerTest):
    def prepare(self, name, metrics='jsonl="run.jsonl";tensorBoard="tb"', options=''):
        folder = self.directory / name
        folder.mkdir()
        config = examples.config(epochs=4, minibatch=20, bits=1).replace('    reader = [', '    cvReader = [', 1)
        reader = config[config.index('cvReader = ['):config.index('Test = [')].rsplit(']', 1)[0]
        config = config.replace('cvReader = [', reader.replace('cvReader', 'reader') + '    cvReader = [', 1)
        (folder / 'run.cntk').write_text(config.replace('SGD = [', f'SGD = [ metrics = [{metrics}] ; {options}', 1), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(600), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk', 'Train=[SGD=[numMBsToShowResult=5]]'], folder

    def test_lines_hold_the_values_of_the_log(self):
        arguments, folder = self.prepare('run')
        text = self.run_trainer(arguments, 2).text
        found = records(folder / 'run.jsonl')
        start = found[0]
        self.assertEqual((start['event'], start['ranks'], start['epochs'], start['samples_per_epoch']), ('start', 2, 4, 600))
        self.assertEqual(start['model'], str(folder / 'models/model.dnn'))
        self.assertIn('gradients in 1 bit', start['settings'])
        self.assertIn('minibatchSize = 20', start['options'])

        def results(record):
            return {name: (value['mean'], value['count']) for name, value in record['results'].items()}

        def equal(record, logged):
            self.assertEqual(set(record), set(logged))
            for name, (mean, count) in logged.items():
                self.assertEqual(record[name][1], count)
                self.assertAlmostEqual(record[name][0], mean, delta=1e-5)

        lines = [r for r in found if r['event'] == 'interval']
        # Of both ranks; rank 0's are also among the measures.
        for record in lines:
            self.assertEqual([record['measures'][name] for name in record['ranks']], [values[0] for values in record['ranks'].values()])
            self.assertEqual({len(values) for values in record['ranks'].values()}, {2})
            self.assertGreater(min(record['ranks']['compute_seconds']), 0)
        logged = support.intervals(text)
        self.assertEqual(len(logged), 24)
        self.assertEqual([(r['epoch'], r['first_minibatch'], r['minibatch']) for r in lines], [row[:3] for row in logged])
        for r, row in zip(lines, logged):
            equal(results(r), {k: v for k, v in row[3].items() if k not in ('time', 'samplesPerSecond')})
            self.assertEqual(r['samples'], (r['epoch'] - 1) * 600 + r['minibatch'] * 20)
            self.assertGreater(r['measures']['samples_per_second'], 0)
        for event, what in (('epoch', 'Training'), ('validation', 'Validate')):
            of_epochs, of_log = [r for r in found if r['event'] == event], support.epochs(text, what)
            self.assertEqual((len(of_epochs), len(of_log)), (4, 4))
            for r, row in zip(of_epochs, of_log):
                equal(results(r), {k: v for k, v in row.items() if isinstance(v, tuple)})
                self.assertEqual(r['samples'], row['epoch'] * 600)
                if event == 'epoch':
                    self.assertEqual(r['measures']['total_samples_seen'], row['totalSamplesSeen'])
                    self.assertAlmostEqual(r['measures']['learning_rate_per_sample'], row['learningRatePerSample'], delta=1e-9)
                    self.assertAlmostEqual(r['measures']['seconds'], row['epochTime'], delta=1e-3)
                    for name in ('compute_seconds', 'wait_seconds', 'read_seconds', 'bytes_sent'):
                        self.assertEqual(len(r['ranks'][name]), 2, name)
                    self.assertTrue(all(b > 0 for b in r['ranks']['bytes_sent']))
        self.assertTrue(all('error_rate' in r['results']['EvalClassificationError'] for r in lines) or 'EvalClassificationError = ' in text)
        self.assertEqual(found[-1]['event'], 'end')

    def test_lines_of_exchanges(self):
        arguments, folder = self.prepare('run')
        text = self.run_trainer(arguments + ['Train=[SGD=[ParallelTrain=[syncPerfStats=10]]]'], 2).text
        logged = [float(s) for s in re.findall(r'Actual gradient aggregation time: (\S+)', text)]
        found = [r['measures']['seconds'] for r in records(folder / 'run.jsonl') if r['event'] == 'exchange']
        self.assertEqual([f'{s:.6g}' for s in found], [f'{s:.6g}' for s in logged])
        self.assertEqual(len(found), 12)
        at = [r['samples'] for r in records(folder / 'run.jsonl') if r['event'] == 'exchange']
        self.assertEqual(at, list(range(200, 2401, 200)), 'after the steps')

    def test_a_killed_run_writes_no_step_twice(self):
        """Killed between checkpoints within an epoch: what it wrote behind the last one is replaced, and in the end all is as without a kill."""
        exchanges = 'Train=[SGD=[ParallelTrain=[syncPerfStats=1]]]'
        arguments, whole = self.prepare('whole', options='checkpointEverySamples=200')
        self.run_trainer([*arguments, exchanges], 2)
        arguments, folder = self.prepare('killed', options='checkpointEverySamples=200')
        arguments.append(exchanges)
        slow = [*arguments, 'Train=[SGD=[ParallelTrain=[faultHook=[rank=0;sleep=0.01]]]]']
        kills = 0
        for samples in (300, 1100, 1700):
            run = self.start_trainer(slow, 2)
            while run.running() and (not (folder / 'run.jsonl').exists() or f'"samples":{samples},' not in (folder / 'run.jsonl').read_text()):
                time.sleep(0.005)
            kills += run.running()
            run.kill_all()
            run.wait()
        self.assertEqual(kills, 3)
        self.run_trainer(arguments, 2)
        lasting = ('interval', 'epoch', 'validation', 'checkpoint', 'exchange')
        expected, found = [[without_times(r) for r in records(f / 'run.jsonl') if r['event'] in lasting] for f in (whole, folder)]
        steps = [(r['event'], r['samples']) for r in found if r['event'] != 'checkpoint']
        self.assertEqual(len(steps), len(set(steps)))
        self.assertEqual([r for r in found if r['event'] != 'checkpoint'], [r for r in expected if r['event'] != 'checkpoint'])
        positions = [r['samples'] for r in records(folder / 'run.jsonl')]
        self.assertEqual(positions, sorted(positions))
        self.assertGreater(len([r for r in records(folder / 'run.jsonl') if r['event'] == 'start']), 1, 'the file was begun anew')
        self.read_by_tensorboard(folder)

    def test_a_run_that_goes_on_with_shorter_epochs_keeps_its_records(self):
        arguments, folder = self.prepare('run', 'jsonl="run.jsonl"')
        self.run_trainer(arguments + ['Train=[SGD=[epochSize=600;maxEpochs=3]]'])
        self.run_trainer(arguments + ['Train=[SGD=[epochSize=300;maxEpochs=5]]'])
        ended = [(r['epoch'], r['samples']) for r in records(folder / 'run.jsonl') if r['event'] == 'epoch']
        self.assertEqual(ended, [(1, 600), (2, 1200), (3, 1800), (4, 2100), (5, 2400)])
        self.run_trainer(['report', str(folder)])
        page = (self.directory / 'report.html').read_text(encoding='utf-8')
        self.assertIn('<td>5 of 5</td>', page)
        self.assertIn('epoch 5: ', page)  # the place of its mark
        self.assertNotIn('epoch 8: ', page)

    def test_the_speed_of_an_interval_is_that_of_all_ranks(self):
        for number, method in enumerate(('DataParallelSGD', 'ModelAveragingSGD')):
            arguments, folder = self.prepare(f'run{number}', 'jsonl="run.jsonl"')
            self.run_trainer(arguments + [f'Train=[SGD=[ParallelTrain=[parallelizationMethod={method}]]]'], 2)
            intervals = [r for r in records(folder / 'run.jsonl') if r['event'] == 'interval']
            self.assertEqual(len(intervals), 24)
            for r in intervals:
                self.assertAlmostEqual(r['measures']['samples_per_second'] * r['measures']['seconds'], 100, delta=0.1)

    def read_by_tensorboard(self, folder):
        """Its scalars are the values of run.jsonl, each step once."""
        reader = subprocess.run([tensorboard_python(), '-c', READ_EVENTS, folder / 'tb'], capture_output=True, text=True, timeout=120)
        self.assertEqual(reader.returncode, 0, reader.stderr)
        scalars = json.loads(reader.stdout)
        found = records(folder / 'run.jsonl')
        for event in ('interval', 'epoch', 'validation'):
            of_event = [r for r in found if r['event'] == event]
            self.assertTrue(of_event)
            for name in of_event[0]['results']:
                read = scalars[f'{event}/{name}']
                self.assertEqual([step for step, _ in read], [r['samples'] for r in of_event])
                for (_, value), r in zip(read, of_event):
                    self.assertAlmostEqual(value, r['results'][name]['mean'], delta=1e-6 * max(1, abs(value)))
        epochs = [r for r in found if r['event'] == 'epoch']
        for rank in (0, 1):
            self.assertEqual([step for step, _ in scalars[f'epoch_by_rank/wait_seconds/{rank}']], [r['samples'] for r in epochs])
        self.assertEqual(len(scalars['epoch/learning_rate_per_sample']), 4)

    def test_a_run_from_scratch_begins_the_files_anew(self):
        arguments, folder = self.prepare('run')
        self.run_trainer(arguments)
        first = [without_times(r) for r in records(folder / 'run.jsonl')]
        self.run_trainer(arguments + ['makeMode=false'])
        self.assertEqual([without_times(r) for r in records(folder / 'run.jsonl')], first)
        self.assertEqual(len(list((folder / 'tb').iterdir())), 1)

    def test_models_of_one_name_share_a_folder(self):
        arguments, folder = self.prepare('run')
        for _ in range(2):
            for model in ('a/net.dnn', 'b/net.dnn'):
                self.run_trainer(arguments + ['makeMode=false', f'modelPath={model}'])
            names = sorted(f.name for f in (folder / 'tb').iterdir())
            self.assertEqual(len(names), 2, names)
        self.assertTrue(all(re.search(r'\.net\.dnn\.[0-9a-f]{8}$', name) for name in names), names)

    def test_a_training_without_minibatch_lines_still_writes_epochs(self):
        arguments, folder = self.prepare('run', 'jsonl="logs/deep/run.jsonl"')
        self.run_trainer(arguments + ['traceLevel=0', 'Train=[SGD=[numMBsToShowResult=0]]'], 2)
        events = [r['event'] for r in records(folder / 'logs/deep/run.jsonl') if r['event'] != 'checkpoint']
        self.assertEqual(events, ['start'] + ['epoch', 'validation'] * 4 + ['end'])


if __name__ == '__main__':
    support.main()
