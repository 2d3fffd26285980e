# SPDX-License-Identifier: Apache-2.0
"""trainer new: a config for data of each kind, which trains as it stands and learns what is in the data."""
import random
import re
import subprocess

import picture_files
import support


class NewTest(support.TrainerTest):
    def new(self, *words, expect=0):
        done = subprocess.run([support.TRAINER, 'new', *map(str, words)], cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def train(self, name='my', ranks=None):
        text = self.run_trainer([f'configFile={name}.cntk'], ranks).text
        return support.final_results(text) or {k: v for k, v in support.epochs(text)[-1].items() if isinstance(v, tuple)}

    def table(self, name, rows, seed, delimiter=',', header=True):
        draw = random.Random(seed)
        lines = [delimiter.join(['"width"', 'height', 'kind', 'weight'])] if header else []
        for _ in range(rows):
            w, h = draw.uniform(0, 1), draw.uniform(100, 200)
            kind = 'wide' if w > (h - 100) / 100 else 'high'
            lines.append(delimiter.join([f'{w:.3f}', f'{h:.2f}', kind if header else str(int(kind == 'wide')), f'{1000 + 3 * w + h / 50:.4f}']))
        self.write(name, '\n'.join(lines) + '\n')

    def test_table_of_classes(self):
        self.table('train.csv', 800, 1)
        self.table('test.csv', 200, 2)
        text = self.new('table', 'train.csv', 'test.csv', '--label', 'kind')
        self.assertIn("800 rows, 3 numbers each; 'kind' is one of 2 classes", text)
        config = (self.directory / 'my.cntk').read_text()
        self.assertEqual((self.directory / 'my.labels').read_text(), 'high\nwide\n')
        self.assertIn("# 800 rows", config)
        self.assertLess(self.train(ranks=2)['errs'][0], 0.06)

    def test_table_of_numbers(self):
        """A regression whose label is far from 0: the error is in units of its deviation."""
        self.table('train.txt', 800, 1, '\t', header=False)
        self.table('test.txt', 200, 2, '\t', header=False)
        self.assertIn("'column 3' is a number to predict", self.new('table', 'train.txt', 'test.txt', '--name', 'numbers'))
        self.assertLess(self.train('numbers')['mse'][0], 0.05)
        self.assertIn('customDelimiter = "\\t"', (self.directory / 'numbers.cntk').read_text())

    def test_table_with_its_label_first(self):
        self.write('t.csv', ''.join(f'{i % 3},{i % 3 + 0.1 * (i % 2)},{i}\n' for i in range(90)))
        self.assertIn('one of 3 classes', self.new('table', 't.csv', '--label', 0))
        self.assertFalse((self.directory / 'my.labels').exists())
        self.assertLess(self.train()['errs'][0], 0.05)

    def test_images(self):
        picture_files.write_folders(self.directory / 'train', picture_files.bars(120, seed=1), ('left', 'middle', 'right'))
        picture_files.write_folders(self.directory / 'test', picture_files.bars(30, seed=2), ('left', 'middle', 'right'))
        text = self.new('images', 'train', 'test')
        self.assertIn('120 images of 3 classes, of 16 x 16 pixels; classes: 0 left, 1 middle, 2 right', text)
        self.assertLess(self.train()['errs'][0], 0.1)

    def test_map_of_images(self):
        picture_files.write_folders(self.directory / 'all', picture_files.bars(30, size=80), ('a', 'b', 'c'))
        self.write('map.txt', ''.join(f'.../all/{"abc"[i % 3]}/{i}.png\t{i % 3}\n' for i in range(30)))
        self.assertIn('30 images of 3 classes, scaled to 32 x 32 pixels', self.new('images', 'map.txt'))
        self.run_trainer(['--dry-run', 'configFile=my.cntk'])

    def test_idx(self):
        picture_files.write_idx(self.directory / 'digits', 'train', picture_files.bars(200, seed=1))
        picture_files.write_idx(self.directory / 'digits', 't10k', picture_files.bars(60, seed=2))
        self.assertIn('200 images of 16 x 16 pixels, 3 classes', self.new('mnist', 'digits'))
        self.assertLess(self.train()['errs'][0], 0.1)

    def test_real_mnist(self):
        self.assertIn('60000 images of 28 x 28 pixels, 10 classes', self.new('mnist', support.data_or_skip('mnist')))
        text = self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1;epochSize=12800]]']).text
        self.assertLess(support.final_results(text)['errs'][0], 0.1)

    def test_text(self):
        """Sentences of a grammar in which each word decides the next one up to two choices: a perplexity near 2 is the best."""
        draw = random.Random(3)
        follow = {'the': ('cat', 'dog'), 'cat': ('sees', 'hears'), 'dog': ('sees', 'hears'), 'sees': ('the', 'rain'), 'hears': ('the', 'rain')}

        def sentence():
            words = ['the']
            while words[-1] in follow and len(words) < 20:
                words.append(draw.choice(follow[words[-1]]))
            return ' '.join(words)
        self.write('book.txt', ''.join(sentence() + '\n' for _ in range(3000)))
        self.assertIn('3000 sentences', self.new('text', 'book.txt'))
        self.assertEqual(len((self.directory / 'my.test.txt').read_text().splitlines()), 300)
        self.assertLess(self.train()['ce'][0], 0.75)

    def test_labels_of_steps_and_of_sequences(self):
        draw = random.Random(4)
        steps, whole = [], []
        for i in range(300):
            values = [draw.choice((-1, 1)) for _ in range(draw.randrange(3, 9))]
            total = 0
            for n, v in enumerate(values):
                total += v
                steps.append(f'{i} |x {v} 0.5 |y {int(total > 0)} {int(total <= 0)}\n')
                whole.append(f'{i} |a {v}' + (f' |label {int(sum(values) > 0)}:1' if n == 0 else '') + '\n')
        self.write('steps.ctf', ''.join(steps))
        self.write('whole.ctf', ''.join(whole))
        self.assertIn("'y' one of 2 classes for each step", self.new('sequence', 'steps.ctf', 'steps.ctf', '--name', 'steps'))
        self.assertLess(self.train('steps')['errs'][0], 0.1)
        self.assertIn("'label' one of 2 classes for each sequence", self.new('sequence', 'whole.ctf', 'whole.ctf', '--name', 'whole'))
        self.assertLess(self.train('whole')['errs'][0], 0.1)

    def test_real_atis(self):
        self.assertIn("one of 129 classes for each step", self.new('sequence', support.data_or_skip('atis') / 'atis.train.ctf'))
        self.run_trainer(['--check', 'configFile=my.cntk'])

    def test_mistakes(self):
        self.write('t.csv', 'a,b,c\n1,2,x\n3,oops,y\n')
        self.write('one.txt', 'no columns\n')
        self.write('ragged.csv', '1,2\n1,2,3\n')
        (self.directory / 'empty').mkdir()
        for words, said in ((['tabel', 't.csv'], "did you mean 'table'?"), (['table', 'no.csv'], "there is no 'no.csv'"),
                            (['table', 't.csv'], "t.csv:3: error: column 1 ('b') holds 'oops'"), (['table', 't.csv', '--label', 'd'], "there is no column 'd'"),
                            (['table', 'ragged.csv'], 'ragged.csv:2: error: 3 columns'), (['images', 'empty'], 'each class needs one'),
                            (['mnist', 'empty'], 'scripts/get_mnist.sh'), (['sequence', 'one.txt'], 'one.txt:1: error'), (['table'], 'trainer new --help'),
                            (['table', 't.csv', '--lable', 'c'], "did you mean '--label'?")):
            with self.subTest(words=words):
                text = self.new(*words, expect=2)
                self.assertIn(said, text)
                self.assertIn('fix: ', text)
        self.write('my.cntk', 'precious')
        self.write('good.csv', '1,0\n2,1\n3,0\n4,1\n')
        self.assertIn('--force', self.new('table', 'good.csv', expect=2))
        self.assertEqual((self.directory / 'my.cntk').read_text(), 'precious')
        self.new('table', 'good.csv', '--force')
        self.assertIn('usage: trainer new', self.new('--help'))


if __name__ == '__main__':
    support.main()
