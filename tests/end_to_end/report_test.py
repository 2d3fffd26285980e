# SPDX-License-Identifier: Apache-2.0
"""trainer report: one page of several runs that needs nothing else, from metrics and from plain logs, and what a browser makes of it."""
import html.parser
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
        for i in range(len(line)):
            left, up, corner = line[i - step] if i >= step else 0, before[i], before[i - step] if i >= step else 0
            if kind == 4:
                guess = left + up - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + (0, left, up, (left + up) // 2, nearest if kind == 4 else 0)[kind]) & 255
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), step)])
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
        self.assertIn('cannot be written', self.report('run.log', '--output=absent/page.html', expect=2).stderr)

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
        counts = {}
        for row in rows:
            for p in row:
                counts[p] = counts.get(p, 0) + 1
        for color in ((0x00, 0x72, 0xb2), (0xd5, 0x5e, 0x00)):  # --c0 and --c1
            near = sum(n for p, n in counts.items() if all(abs(a - b) < 24 for a, b in zip(p, color)))
            self.assertGreater(near, 1500, color)
        self.assertGreater(counts.get((255, 255, 255), 0), 1280 * 1900 // 4)


if __name__ == '__main__':
    support.main()
