# SPDX-License-Identifier: Apache-2.0
"""trainer report: one page of several runs that needs nothing else, from metrics and from plain logs, and what a browser makes of it."""
import collections
import html.parser
import itertools
import json
import pathlib
import re
import shutil
import struct
import subprocess
import unittest
import zlib

import examples
import support

CNTK_LOG = '''
 Epoch[ 1 of 2]-Minibatch[   1-  10, 50.00%]: ce = 0.70000000 * 5000; errs = 41.000% * 5000; time = 0.5s; samplesPerSecond = 10000.0
 Epoch[ 1 of 2]-Minibatch[  11-  20, 100.00%]: ce = 0.50000000 * 5000; errs = 21.500% * 5000; time = 0.5s; samplesPerSecond = 10000.0
Finished Epoch[ 1 of 2]: [Training] ce = 0.60000000 * 10000; errs = 31.250% * 10000; totalSamplesSeen = 10000; learningRatePerSample = 0.0099999998; epochTime=2s
Finished Epoch[ 1 of 2]: [Validate] ce = 0.58000000 * 500; errs = 30.000% * 500
05/03/2016 10:12:03: Finished Epoch[ 2 of 2]: [Training] ce = 0.50000000 * 10000; errs = 21.250% * 10000; totalSamplesSeen = 20000; learningRatePerSample = 0.0099999998; epochTime=0.5s
05/03/2016 10:12:03: Finished Epoch[ 2 of 2]: [Validate] ce = 0.48000000 * 500; errs = 20.000% * 500
COMPLETED.
'''


class Page(html.parser.HTMLParser):
    """A page taken apart: tables as rows of texts, figures by title, and whatever would be loaded from elsewhere."""
    VOID = {'meta'}

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.figures, self.foreign, self.classes = [], [], {}, [], []
        self.caption = None
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ('script', 'link', 'img', 'iframe', 'object') or 'src' in attributes or 'href' in attributes:
            self.foreign.append((tag, attributes))
        if tag == 'tr':
            self.rows.append([])
            self.classes.append(attributes.get('class', ''))
        if tag in ('td', 'th'):
            self.rows[-1].append('')
        if tag == 'polyline':
            self.figures[self.caption].append(attributes['points'].split())
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, text):
        if 'figcaption' in self.open and 'small' not in self.open:
            self.caption = text.strip()
            self.figures.setdefault(self.caption, [])
        if self.open and self.rows and ('td' in self.open or 'th' in self.open):
            self.rows[-1][-1] += text

    def row(self, first):
        return next(r for r in self.rows if r and r[0].strip().startswith(first))


def chromium_or_skip():
    program = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
    if not program:
        raise unittest.SkipTest('no browser: the Debian package chromium is not installed')
    return program


def pixels(png):
    """Rows of RGB triples of a picture as Chromium writes it: 8 bits, RGB or RGBA, not interlaced."""
    data = pathlib.Path(png).read_bytes()
    at, packed, head = 8, b'', None
    while at < len(data):
        size, kind = struct.unpack('>I4s', data[at:at + 8])
        if kind == b'IHDR':
            head = struct.unpack('>IIBBBBB', data[at + 8:at + 8 + size])
        if kind == b'IDAT':
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    width, height, depth, color = head[:4]
    assert depth == 8 and color in (2, 6) and head[6] == 0
    step = 3 if color == 2 else 4
    raw, rows, before = zlib.decompress(packed), [], bytearray(width * step)
    for y in range(height):
        kind, line = raw[y * (width * step + 1)], bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        if kind == 1:  # most rows are of this kind or of the next one, and there are millions of values
            for channel in range(step):
                line[channel::step] = bytes(v & 255 for v in itertools.accumulate(line[channel::step]))
        elif kind == 2:
            line = bytearray(a + b & 255 for a, b in zip(line, before))
        for i in range(len(line) if kind > 2 else 0):
            left, up, corner = line[i - step] if i >= step else 0, before[i], before[i - step] if i >= step else 0
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = line[i] + (nearest if kind == 4 else (left + up) // 2) & 255
        rows.append(list(zip(line[0::step], line[1::step], line[2::step])))
        before = line
    return rows


class ReportTest(support.TrainerTest):
    def report(self, *words, expect=0):
        return self.run_trainer(['report', *words], expect=expect)

    def page(self, name='report.html'):
        return Page((self.directory / name).read_text(encoding='utf-8'))

    def train(self, name, ranks, bits=1, options='metrics=[jsonl=run.jsonl]', words=()):
        folder = self.directory / name
        folder.mkdir(parents=True)
        (folder / 'run.cntk').write_text(examples.config(epochs=4, minibatch=20, bits=bits), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(600), encoding='utf-8')
        return self.run_trainer([f'currentDirectory={folder}', 'configFile=run.cntk', f'Train=[SGD=[{options}]]', *words], ranks)

    def test_two_runs_side_by_side(self):
        first, second = self.train('runs/onebit', 2).text, self.train('runs/full', 3, bits=32).text
        result = self.report('runs', '--title=A <title>', '--output', 'page.html')
        self.assertEqual(result.stdout, 'page.html: 2 runs\n')
        page = self.page('page.html')
        self.assertEqual(page.foreign, [])
        self.assertIn('A &lt;title&gt;', (self.directory / 'page.html').read_text())
        for name, text, ranks in (('onebit', first, '2'), ('full', second, '3')):
            last = support.epochs(text)[-1]['CrossEntropyWithSoftmax'][0]
            row = page.row(name)
            self.assertEqual(row[1], '4 of 4')
            self.assertAlmostEqual(float(row[2].split()[0]), last, delta=1e-4 * last)
            self.assertIn(ranks, row)
        # Both runs: 120 minibatches, 4 epochs; no validation. A line per rank.
        curves = page.figures['CrossEntropyWithSoftmax']
        self.assertEqual(sorted(len(c) for c in curves), [4, 4, 120, 120])
        self.assertEqual([len(c) for c in page.figures['Waiting for other ranks']], [4] * 5)
        self.assertEqual([len(c) for c in page.figures['Throughput']], [120, 120])
        self.assertEqual([len(c) for c in page.figures['Sent by all ranks']], [4, 4])
        # Without validation there is no column for it. A host that has several ranks is named once.
        self.assertFalse(any('validation' in row for row in page.rows))
        self.assertRegex(page.row('ranks')[1], r'^[23] on [^,]+$')
        # Lines of ranks have the colour of their run and can still be told apart.
        self.assertIn("class='line c0 dashed'", (self.directory / 'page.html').read_text())
        # What differs is marked, and only that.
        marked = {row[0] for row, kind in zip(page.rows, page.classes) if kind == 'differs'}
        self.assertTrue(any(key.endswith('gradientBits') for key in marked), marked)
        self.assertIn('ranks', marked)
        self.assertFalse(any(key.endswith('minibatchSize') for key in marked), marked)
        self.assertTrue(any(row and row[0].endswith('minibatchSize') for row in page.rows))

    def test_curves_have_the_values(self):
        """The last point of the curve of a run lies where its value is, between the ticks of the axis."""
        self.write('run.log', CNTK_LOG)
        self.report('run.log')
        page = self.page()
        for epochs in page.figures['errs']:
            xs, ys = zip(*(map(float, p.split(',')) for p in epochs))
            self.assertEqual(list(xs), sorted(xs))
            self.assertGreater(ys[0], -1)
            self.assertLess(ys[0], ys[-1], 'errors fall, so the curve goes down the page')
        self.assertEqual(sorted(len(c) for c in page.figures['errs']), [2, 2, 2])
        row = page.row('run.log')
        self.assertEqual(row[1:6], ['2 of 2', '0.5', '0.48', '21.250%', '20.000%'])

    def test_logs_where_there_are_no_metrics(self):
        text = self.train('run', 2, options='numMBsToShowResult=5', words=['stderr=run.log']).text
        self.report('run')
        page = self.page()
        log = (self.directory / 'run/run.log').read_text()
        last = support.epochs(log)[-1]['CrossEntropyWithSoftmax'][0]
        row = page.row('run.log')
        self.assertAlmostEqual(float(row[2].split()[0]), last, delta=1e-4 * last)
        self.assertEqual([len(c) for c in page.figures['Waiting for other ranks']], [4, 4], text)
        self.assertEqual(sorted(len(c) for c in page.figures['CrossEntropyWithSoftmax']), [4, 24])

    def test_a_log_with_times(self):
        """Lines begin with the time, and the logs of ranks end in their numbers."""
        self.train('run', 2, options='numMBsToShowResult=5', words=['stderr=run', 'timestamping=true'])
        self.assertTrue((self.directory / 'run/run_Train.logrank1').exists())
        self.assertIn(': 1 run\n', self.report('run').stdout)
        page = self.page()
        self.assertEqual([len(c) for c in page.figures['Waiting for other ranks']], [4, 4])
        self.assertEqual(sorted(len(c) for c in page.figures['CrossEntropyWithSoftmax']), [4, 24])
        self.assertNotIn('not finished', page.row('run_Train')[0])
        self.assertRegex(page.row('ranks')[1], '^2 on 1 host')
        for setting in ('processor', 'model', 'exchange'):
            self.assertEqual(len(page.row(setting)), 2)

    def test_a_training_is_finished_at_its_end(self):
        """That of a log which restarts continue: the training itself, or the next command, or what says that there is nothing left to train."""
        def banner(command):
            return f'# {command} command (train action){" " * 40}#\n'
        settings = 'Effective settings:\n  ranks      1 on 1 host\nA, action train\n  model      a.dnn\nB, action train\n  model      b.dnn\n'
        one = CNTK_LOG.replace('COMPLETED.\n', '')
        cut = '\n'.join(one.split('\n')[:4]) + '\n'
        first = settings + banner('A') + one + banner('B') + cut
        again = first + settings + banner('A')
        nothing_left = again + 'Final model exists: a.dnn\nNo further training is necessary.\n'
        whole = again + banner('B') + one + '__COMPLETED__\n'
        for time in ('', '05/03/2016 10:12:03: '):
            for log, finished in ((first, 'A'), (again, ''), (nothing_left, 'A'), (again + banner('B'), 'A'), (whole, 'AB'), (whole + settings + banner('A') + banner('B'), 'A')):
                with self.subTest(time=time, lines=log.count('\n')):
                    self.write('run.log', ''.join(f'{time}{line}\n' if line else '\n' for line in log.split('\n')))
                    self.write('run.log.rank1', ''.join(f'{time}{line}\n' for line in (banner('A') + banner('B') + banner('A')).split('\n')))
                    self.report('run.log')
                    self.assertEqual(''.join(c for c in 'AB' if 'not finished' not in self.page().row(f'run.log: {c}')[0]), finished)

    def test_predicted_beside_achieved(self):
        """By the line of a plan for the run's method, bits and ranks, and by auto."""
        first = self.train('runs/onebit', 2, words=('stderr=log',))
        self.train('runs/alone', None)
        for name, bits in (('whole', 32), ('half', 16)):
            self.train(f'runs/{name}', 2, words=(f'Train=[SGD=[ParallelTrain=[parallelizationMethod=ASA;ASA=[exchangeBits={bits}]]]]',))
        self.train('auto', 2, words=('Train=[SGD=[ParallelTrain=[parallelizationMethod=auto]]]',))
        (self.directory / 'runs/plan.jsonl').write_text(''.join(
            json.dumps({'event': 'plan', 'samples': 0, 'ranks': ranks, 'method': method, 'bits': bits, 'measures': {'samples_per_second': speed}}) + '\n'
            for ranks, method, bits, speed in ((1, 'none', '-', 500), (2, 'DataParallelSGD', '32', 600), (2, 'DataParallelSGD', '1', 700), (3, 'DataParallelSGD', '1', 800),
                                               (2, 'ASA of gradients', '32', 650)))
            + '{"event":"plan","samples":0,"ranks":2,"method":"EASGD","bits":"32","refused":"not with this config"}\n', encoding='utf-8')
        self.assertEqual(self.report('runs', 'auto').stdout, 'report.html: 5 runs\n', first)
        rows = {row[0].strip().split('/')[-1]: row for row in self.page().rows if len(row) == 5 and re.fullmatch(r'\d+\.\d\d', row[3])}
        self.assertEqual((rows['onebit'][1], rows['alone'][1], rows['whole'][1]), ('700', '500', '650'))
        self.assertNotIn('half', rows)  # the plan has no line for it
        self.assertIn('plan.jsonl', rows['onebit'][4])
        self.assertEqual(rows['auto'][4], 'auto')
        for row in rows.values():
            self.assertAlmostEqual(float(row[3]), float(row[2]) / float(row[1]), delta=0.01 + 0.01 * float(row[3]))
        # A plan that is named on its own is for all runs.
        shutil.move(self.directory / 'runs/plan.jsonl', self.directory / 'plan.jsonl')
        self.report('runs/onebit', 'plan.jsonl')
        self.assertIn('Predicted and achieved', (self.directory / 'report.html').read_text())
        self.report('runs/onebit')
        self.assertNotIn('Predicted and achieved', (self.directory / 'report.html').read_text())
        self.assertIn('only plans are named', self.report('plan.jsonl', expect=2).text)

    def metrics(self, name, epochs, values=None, waits=None):
        """A file of metrics of one rank with 300 samples in an epoch, from the numbers and seconds of its epochs."""
        lines = [{'event': 'start', 'samples': 0, 'ranks': 1, 'epochs': 4, 'samples_per_epoch': 300, 'command': 'Train', 'model': 'm.dnn', 'hosts': 'a', 'method': '',
                  'settings': '', 'options': ''}]
        for i, (epoch, seconds) in enumerate(epochs):
            wait = waits[i] if waits else 0
            lines.append({'event': 'epoch', 'samples': epoch * 300, 'results': {'ce': {'mean': values[i] if values else 1 / epoch, 'count': 300}},
                          'measures': {'seconds': seconds, 'samples_per_second': 300 / seconds, 'total_samples_seen': epoch * 300, 'learning_rate_per_sample': 0.1},
                          'ranks': {'total_seconds': [seconds], 'compute_seconds': [seconds - wait], 'read_seconds': [0], 'wait_seconds': [wait],
                                    'encode_seconds': [0], 'decode_seconds': [0], 'bytes_sent': [1000]}})
        self.write(name, ''.join(json.dumps(line, separators=(',', ':')) + '\n' for line in lines))

    def test_speed_is_that_of_the_epochs_in_the_file(self):
        """A run that another machine began, in metrics and in a log."""
        self.metrics('run.jsonl', [(3, 2.0), (4, 4.0)])
        self.write('run.log', '\n'.join(line for line in CNTK_LOG.split('\n') if 'Epoch[ 1' not in line))
        self.report('run.jsonl', 'run.log')
        for name, seconds, speed in (('run.jsonl', '6.0 s', '100'), ('run.log', '0.5 s', '20 k')):
            row = self.page().row(name)
            self.assertEqual(row[row.index(seconds) + 1], speed, row)

    def test_shares_of_ranks_are_of_the_whole_time(self):
        """A short epoch counts less than a long one."""
        self.metrics('run.jsonl', [(1, 1.0), (2, 9.0)], waits=[1.0, 0.0])
        self.write('run.log', CNTK_LOG + 'Times of Epoch[ 1 of 2]: compute 0.000 s, waiting for data 0.000 s, encode 0.000 s, wait for ranks 1.000 s\n'
                   'Times of Epoch[ 2 of 2]: compute 9.000 s, waiting for data 0.000 s, encode 0.000 s, wait for ranks 0.000 s\n')
        for name in ('run.jsonl', 'run.log'):
            self.report(name)
            rows = [r for r in self.page().rows if r and r[0].strip().startswith(name)]
            self.assertEqual(len(rows), 2, 'the summary and the rank')
            for row in rows:
                self.assertIn('90.0%', row)
                self.assertIn('10.0%', row)

    def test_values_that_are_not_finite(self):
        """The last value is shown as it is, the curve has the others, and every epoch counts."""
        self.metrics('run.jsonl', [(1, 1.0), (2, 1.0), (3, 1.0)], values=[0.5, 0.25, None])
        self.write('run.log', CNTK_LOG.replace('ce = 0.50000000 * 10000', 'ce = inf * 10000').replace('ce = 0.48000000', 'ce = -nan'))
        self.report('run.jsonl', 'run.log')
        page = self.page()
        row = page.row('run.jsonl')
        self.assertEqual(row[1:3], ['3 of 4', 'not finite best 0.25 in epoch 2'])
        row = page.row('run.log')
        self.assertEqual(row[1:4], ['2 of 2', 'inf best 0.6 in epoch 1', 'not finite best 0.58 in epoch 1'])
        self.assertEqual(sorted(len(c) for c in page.figures['ce']), [1, 1, 2, 2])

    def test_the_best_of_a_log_may_be_the_largest(self):
        log = ('Training criterion:   ce = CrossEntropy\nEvaluation criteria:\n\terrs = ClassificationError\n\tF1 = F1Score\n' +
               CNTK_LOG.replace('ce = 0.60000000 * 10000', 'ce = 0.60000000 * 10000; F1 = 0.90000000 * 10000')
               .replace('ce = 0.50000000 * 10000', 'ce = 0.50000000 * 10000; F1 = 0.40000000 * 10000'))
        self.write('run.log', log)
        self.report('run.log')
        self.assertIn('0.4 best 0.9 in epoch 1', self.page().row('run.log'))

    def test_minibatches_of_a_log_are_at_their_place(self):
        """Epochs with 4 and 2 minibatches; lines with and without percentages."""
        for percent in ((', 50.00%', ', 100.00%'), ('', '')):
            lines = ''.join(f' Epoch[ {epoch} of 2]-Minibatch[ {m}- {m}{percent[m == most]}]: ce = 0.{5 + epoch} * 50; time = 0.5s; samplesPerSecond = 100\n'
                            for epoch, most in ((1, 4), (2, 2)) for m in (most // 2, most))
            self.write('run.log', lines + ''.join(f'Finished Epoch[ {epoch} of 2]: [Training] ce = 0.6 * 200; epochTime=2s\n' for epoch in (1, 2)))
            self.report('run.log')
            steps, epochs = ([float(p.split(',')[0]) for p in c] for c in self.page().figures['ce'])
            self.assertEqual([steps[1], steps[3]], epochs, percent)
            self.assertAlmostEqual(steps[0], epochs[0] - (epochs[1] - epochs[0]) / 2, delta=0.2)
            self.assertAlmostEqual(steps[2], sum(epochs) / 2, delta=0.2)

    def test_a_log_with_two_trainings(self):
        def banner(command):
            return f'# {command} command (train action){" " * 40}#\n'
        settings = 'Effective settings:\n  ranks      1 on 1 host\nA, action train\n  model      a.dnn\nB, action train\n  model      b.dnn\n'
        one = CNTK_LOG.replace('COMPLETED.\n', '')
        cut = '\n'.join(one.replace('0.60000000', '0.90000000').split('\n')[:4]) + '\n'
        self.write('run.log', settings + banner('A') + one + banner('B') + cut)
        self.assertIn('2 runs', self.report('run.log').stdout)
        page = self.page()
        self.assertEqual([page.row(f'run.log: {c}')[1:3] for c in 'AB'], [['2 of 2', '0.5'], ['1 of 2', '0.9']])
        self.assertNotIn('not finished', page.row('run.log: A')[0])
        self.assertIn('not finished', page.row('run.log: B')[0])
        self.assertEqual(page.row('model'), ['model', 'a.dnn', 'b.dnn'])
        self.assertEqual(page.row('ranks'), ['ranks', '1 on 1 host', '1 on 1 host'])
        # A log that a restart continues has each training once.
        self.write('run.log', settings + banner('A') + one + banner('B') + cut + settings + banner('A') + banner('B') + one + 'COMPLETED.\n')
        self.assertIn('2 runs', self.report('run.log').stdout)
        self.assertEqual([self.page().row(f'run.log: {c}')[:3] for c in 'AB'],
                         [[f' run.log: {c}', '2 of 2', '0.5'] for c in 'AB'])

    def test_an_epoch_that_a_restart_continued_has_no_speed(self):
        """Its line counts the samples before the restart, too, and its time does not."""
        one, two = CNTK_LOG.split('05/03/2016', 1)
        two = '05/03/2016' + two
        for file, speed in (('m/net.dnn.2.mid', '5000'), ('m/net.dnn.1', '8000')):
            self.write('run.log', one + f"Starting from checkpoint. Loading network from '{file}'.\n" + two)
            self.report('run.log')
            row = self.page().row('run.log')
            self.assertEqual((row[1], row[row.index('2.5 s') + 1]), ('2 of 2', speed))

    def test_a_log_of_one_of_several_ranks(self):
        exchange = 'Exchange of Epoch[ 1 of 2]: 168.02 kB sent by this rank of 2, 32.000 bits per value, 1/1.0 of float32\n'
        self.write('run.log', CNTK_LOG + exchange)
        result = self.report('run.log')
        self.assertIn('there are logs of 1 of the 2 ranks', result.stderr)
        self.assertEqual(self.page().row('run.log')[8:], ['2', '0.0%', '0.0%', '–'])
        self.assertNotIn('Sent by all ranks', self.page().figures)
        self.write('run.log.rank1', exchange)
        self.assertEqual(self.report('run.log').stderr, '')
        self.assertEqual(self.page().row('run.log')[8:], ['2', '0.0%', '0.0%', '336.04 kB'])

    def test_minibatches_of_trials_are_not_those_of_the_run(self):
        trial = '  BaseAdaptiveLearnRateSearch: Epoch[ 2 of 2]-Minibatch[   1-  10, 50.00%]: ce = 9.0 * 5000; time = 0.5s; samplesPerSecond = 1.0\n'
        self.write('run.log', CNTK_LOG + trial)
        self.report('run.log')
        self.assertEqual([len(c) for c in self.page().figures['Throughput']], [2])
        self.assertIn(': 10 k samples/s</title>', (self.directory / 'report.html').read_text(encoding='utf-8'))

    def test_a_log_with_the_tags_of_mpiexec(self):
        self.write('run.log', CNTK_LOG)
        self.write('tagged.log', ''.join(f'[1,0]<stderr>:{line}\n' for line in CNTK_LOG.splitlines()))
        charts = []
        for log in ('run.log', 'tagged.log'):
            self.report(log)
            charts.append(self.page().figures)
        self.assertEqual(*charts)

    def test_epochs_that_are_undone(self):
        self.write('run.log', CNTK_LOG + 'Loading (rolling back to) previous model with best training-criterion value: m/net.dnn.1.\n')
        self.report('run.log')
        self.assertEqual(self.page().row('run.log')[1:6], ['1 of 2', '0.6', '0.58', '31.250%', '30.000%'])

    def test_a_simulation_is_no_run(self):
        self.metrics('runs/run.jsonl', [(1, 1.0)])
        self.write('runs/sim.jsonl', '{"event":"simulate","samples":0,"ranks":2,"method":"EASGD","bits":"32","measures":{"samples_per_second":369204}}\n')
        self.assertIn(': 1 run\n', self.report('runs').stdout)
        self.assertIn('has neither metrics nor a log', self.report('runs/sim.jsonl', expect=2).stderr)

    def test_predictions_by_the_exchange(self):
        """That a log or metrics name: the method, its bits and the number of ranks are those of a line of the plan."""
        plan = (('none', '-', 1, 500), ('DataParallelSGD', '1', 2, 700), ('DataParallelSGD', '16', 2, 720), ('ASA of weights', '32', 2, 650), ('ASA of gradients', '32', 2, 660),
                ('ModelAveragingSGD', '4', 2, 800), ('DataParallelASGD', 'bf16', 2, 600))
        self.write('runs/plan.jsonl', ''.join(json.dumps({'event': 'plan', 'samples': 0, 'ranks': ranks, 'method': method, 'bits': bits,
                                                          'measures': {'samples_per_second': speed}}) + '\n' for method, bits, ranks, speed in plan))
        for ranks, exchange, speed in ((1, 'no exchange', '500'), (2, 'no exchange', None), (2, 'DataParallelSGD on 2 ranks, gradients in 1 bit through shared memory', '700'),
                                       (2, 'no exchange before epoch 2, then DataParallelSGD on 2 ranks, gradients in 16 bits', '720'),
                                       (2, 'ASA on 2 ranks, weights exchanged after every minibatch in 32 bits: mean by samples', '650'),
                                       (2, 'ASA on 2 ranks, gradients summed by the MPI library', '660'), (3, 'ASA on 3 ranks, gradients summed by the MPI library', None),
                                       (2, 'ModelAveragingSGD on 2 ranks, weights exchanged every 64 samples of all in 2 fragments in 4 bits: mean by samples', '800'),
                                       (2, 'DataParallelASGD with 2 workers and 2 servers beside them, deltas pushed after every minibatch in bfloat16, asynchronously', '600'),
                                       (2, '2 groups of 1 rank: between them DataParallelSGD on 2 ranks, gradients in 1 bit; within them no exchange', None), (0, None, None)):
            for log in (True, False) if ranks else (True,):
                with self.subTest(exchange=exchange, ranks=ranks, log=log):
                    (self.directory / 'runs/run.jsonl').unlink(missing_ok=True)
                    self.write('runs/run.log', (f'Effective settings:\n  ranks      {ranks} on 1 host (rank 0 on a)\nTrain, action train\n  exchange   {exchange}\n'
                                                '# Train command (train action)\n' if ranks else '') + CNTK_LOG)
                    if not log:
                        self.metrics('runs/run.jsonl', [(1, 1.0)])
                        file = self.directory / 'runs/run.jsonl'
                        file.write_text(file.read_text().replace('"ranks":1', f'"ranks":{ranks}', 1).replace('"settings":""', f'"settings":"  exchange   {exchange}"'))
                    result = self.report('runs')
                    rows = [row[1] for row in self.page().rows if len(row) == 5 and re.fullmatch(r'\d+\.\d\d', row[3])]
                    self.assertEqual(rows, [speed] if speed else [], result.text)
                    self.assertEqual(f'no plan has a line for its exchange: {exchange or "unknown"}' in result.stderr, speed is None, result.text)

    def plan_of_one_rank(self, name, speed, **training):
        self.write(name, json.dumps({'event': 'plan', 'samples': 0, **training, 'ranks': 1, 'method': 'none', 'bits': '-', 'measures': {'samples_per_second': speed}}) + '\n')

    def predicted(self, *words):
        """The predicted speed of every run, by its name, and the notes."""
        notes = self.report(*words).stderr
        return {row[0].strip(): int(row[1]) for row in self.page().rows if len(row) == 5 and re.fullmatch(r'\d+\.\d\d', row[3])}, notes

    def test_the_plan_nearest_to_a_run_counts(self):
        for name, speed in (('lenet', 500), ('mlp', 700)):
            self.metrics(f'runs/{name}/run.jsonl', [(1, 1.0)])
            self.plan_of_one_rank(f'runs/{name}/plan.jsonl', speed)
        self.metrics('runs/other/run.jsonl', [(1, 1.0)])
        self.plan_of_one_rank('runs/plan.jsonl', 900)
        self.assertEqual(self.predicted('runs'), ({'lenet': 500, 'mlp': 700, 'other': 900}, ''))
        self.assertEqual(self.predicted('runs', 'runs/plan.jsonl'), ({'lenet': 500, 'mlp': 700, 'other': 900}, ''))
        (self.directory / 'runs/plan.jsonl').unlink()
        found, notes = self.predicted('runs')
        self.assertEqual(found, {'lenet': 500, 'mlp': 700, 'other': 500})
        self.assertEqual(notes, "Note: 'runs/other/run.jsonl': 'runs/lenet/plan.jsonl' and 'runs/mlp/plan.jsonl' are both plans for its exchange; the first one is shown\n")

    def test_a_plan_of_another_network_predicts_nothing(self):
        settings = ('  network    backend: cpu; 9 operations; 58 parameters in 4 parameter tensors, 4 chunks\n'
                    '  schedule   learning rate 0.1 per sample; 4 epochs of 300 samples, 15 steps of 20 samples each at first, 60 steps in all')
        self.metrics('runs/run.jsonl', [(1, 1.0)])
        file = self.directory / 'runs/run.jsonl'
        file.write_text(file.read_text().replace('"settings":""', f'"settings":{json.dumps(settings)}'))
        for training, known in (({}, True), ({'weights': 58, 'minibatch': 20}, True), ({'weights': 59, 'minibatch': 20}, False), ({'weights': 58, 'minibatch': 40}, False)):
            with self.subTest(training=training):
                self.plan_of_one_rank('runs/plan.jsonl', 500, **training)
                found, notes = self.predicted('runs')
                self.assertEqual(list(found.values()), [500] if known else [])
                self.assertEqual(notes, '' if known else "Note: 'runs/run.jsonl': the plans for its exchange are of another network or minibatch size\n")

    def test_mistakes(self):
        (self.directory / 'empty').mkdir()
        for words, said in ((['absent'], "there is no 'absent'"), (['empty'], "'empty' has neither metrics nor a log"), ([], 'no run is named'),
                            (['--outputs=x', 'empty'], "fix: did you mean '--output'?"), (['--output'], '--output needs a value')):
            with self.subTest(words=words):
                result = self.report(*words, expect=2)
                self.assertIn(said, result.stderr)
                self.assertIn('\nfix: ', result.stderr)
        self.write('cut.log', CNTK_LOG + 'Times of Epoch[ 2 of 2]: compute ')
        self.report('cut.log')  # as a full disk leaves it
        self.write('run.log', CNTK_LOG)
        for output, said in (('absent/page.html', "report: 'absent/page.html' cannot be written: No such file or directory\nfix: --output with a file in a folder that exists\n"),
                             ('./run.log', "report: the page would replace 'run.log', which it is made of\nfix: --output report.html\n")):
            self.assertEqual(self.report('run.log', f'--output={output}', expect=2).stderr, said)
        self.assertEqual((self.directory / 'run.log').read_text(encoding='utf-8'), CNTK_LOG)

    def test_damaged_metrics_are_named(self):
        self.train('run', None)
        with open(self.directory / 'run/run.jsonl', 'a', encoding='utf-8') as file:
            file.write('{"event":"interval","samples":[}\n')
        result = self.report('run')
        self.assertIn("Note: 1 line of 'run/run.jsonl' could not be read", result.stderr)
        self.assertTrue(any('could not be read' in data for data in [(self.directory / 'report.html').read_text()]))

    def test_in_a_browser(self):
        """The picture has the lines of the curves, in their colours, and white space between them."""
        browser = chromium_or_skip()
        self.train('runs/onebit', 2)
        self.train('runs/full', 2, bits=32)
        self.report('runs')
        picture = pathlib.Path(support.os.environ.get('TUTTI_SCREENSHOT') or self.directory / 'page.png')
        shot = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', f'--user-data-dir={self.directory / "profile"}',
                               '--window-size=1280,1900', f'--screenshot={picture}', f'file://{self.directory}/report.html'],
                              capture_output=True, text=True, timeout=support.PATIENCE)
        self.assertTrue(picture.exists(), shot.stderr)
        rows = pixels(picture)
        self.assertEqual((len(rows[0]), len(rows)), (1280, 1900))
        counts = collections.Counter(itertools.chain.from_iterable(rows))
        for color in ((0x00, 0x72, 0xb2), (0xd5, 0x5e, 0x00)):  # --c0 and --c1
            near = sum(n for p, n in counts.items() if all(abs(a - b) < 24 for a, b in zip(p, color)))
            self.assertGreater(near, 1500, color)
        self.assertGreater(counts.get((255, 255, 255), 0), 1280 * 1900 // 4)


if __name__ == '__main__':
    support.main()
