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

    def test_wide_images(self):
        """A square crop would miss the bars at their ends."""
        for folder, count, seed in (('train', 90, 1), ('test', 30, 2)):
            bars = [(c // 2, rows[:16]) for c, rows in picture_files.bars(count, 3, 48, seed) if c != 1]
            picture_files.write_folders(self.directory / folder, bars, ('left', 'right'))
        self.assertIn('60 images of 2 classes, of 48 x 16 pixels', self.new('images', 'train', 'test'))
        self.assertNotIn('cropType', (self.directory / 'my.cntk').read_text())
        text = self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=4]]']).text
        self.assertLess(support.final_results(text)['errs'][0], 0.05)

    def test_jpeg_with_a_large_color_profile(self):
        segment = b'\xff\xe2\xff\xff' + bytes(65533)
        frame = b'\xff\xc0\x00\x11\x08\x00\x10\x00\x10\x03' + bytes(9)  # 16 x 16 pixels, 3 components
        for name in ('a', 'b'):
            (self.directory / 'all' / name).mkdir(parents=True)
            (self.directory / 'all' / name / '1.jpg').write_bytes(b'\xff\xd8' + 2 * segment + frame + bytes(20))
        self.assertIn('2 images of 2 classes, of 16 x 16 pixels', self.new('images', 'all'))

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

    def test_idx_of_no_pictures(self):
        picture_files.write_idx(self.directory / 'points', 'train', picture_files.bars(60, size=4))
        self.assertIn('60 samples of 16 numbers, 3 classes', self.new('mnist', 'points'))
        self.assertNotIn('dropoutRate', (self.directory / 'my.cntk').read_text())
        text = self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1]]']).text
        self.assertNotIn('no effect', text)

    def test_real_mnist(self):
        self.assertIn('60000 images of 28 x 28 pixels, 10 classes', self.new('mnist', support.data_or_skip('mnist')))
        text = self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1;epochSize=12800]]', 'Test=[epochSize=2000]']).text
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

    def test_sequences_that_no_reader_accepts(self):
        for rows, said in (('0 |x 1 2 |y 1 0\n0 |x 1 2 |y a\n', "t.ctf:2: error: 'a' of |y is not a number"),
                           ('0 |x 1 2 |y 3:\n', "t.ctf:1: error: '3:' of |y is not a number"),
                           ('0 |x 1 2 |y 1 0\n1 |x 1 2 |y 0 1', 't.ctf:2: error: the last line has no newline')):
            self.write('t.ctf', rows)
            self.assertIn(said, self.refused('sequence', 't.ctf'))
        self.write('t.ctf', '0 |x 1 2 |y a\n')
        self.write('good.ctf', '0 |x 1 2 |w what |y 1 0\n1 |x 1 2 |w ever |y 0 1\n')
        self.assertIn("'a' of |y is not a number", self.refused('sequence', 'good.ctf', 't.ctf'))
        self.assertIn("'w' is not used", self.new('sequence', 'good.ctf'))
        self.run_trainer(['--check', 'configFile=my.cntk'])

    def test_real_atis(self):
        self.assertIn("one of 129 classes for each step", self.new('sequence', support.data_or_skip('atis') / 'atis.train.ctf'))
        self.run_trainer(['--check', 'configFile=my.cntk'])

    def pictures(self, folder, names, size=16):
        bars = picture_files.bars(4 * len(names), len(names), size)
        picture_files.write_folders(self.directory / folder, bars, names)

    def refused(self, *words):
        """What `trainer new` says, on one line; it writes nothing."""
        text = self.new(*words, expect=2)
        self.assertIn('fix: ', text)
        self.assertFalse((self.directory / 'my.cntk').exists())
        return text.replace('\n', ' ')

    def test_images_to_test_on_have_the_same_classes(self):
        self.pictures('train', ('cat', 'dog', 'owl'))
        self.pictures('test', ('dog', 'owl'))
        self.assertIn("test: error: there is no folder 'cat' in it", self.refused('images', 'train', 'test'))
        self.pictures('test', ('cat', 'dog', 'fox', 'owl'))
        self.assertIn("test: error: its folder 'fox' is none of the classes", self.refused('images', 'train', 'test'))
        self.write('map.txt', 'train/cat/0.png\t0\ntrain/dog/1.png\t1\n')
        self.assertIn("map.txt: error: this is a map, and 'train' is a folder",
                      self.refused('images', 'train', 'map.txt'))
        self.write('more.txt', 'train/cat/0.png\t1\ntrain/dog/1.png\t2\n')
        self.assertIn('more.txt:2: error: there is a label 2', self.refused('images', 'map.txt', 'more.txt'))
        (self.directory / 'same/cat').mkdir(parents=True)  # a class without images
        self.pictures('same', ('dog', 'owl'))
        self.new('images', 'train', 'same')
        self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1]]'])

    def test_table_to_test_on_has_the_same_columns(self):
        self.write('train.csv', 'a,b,k\n' + '0.5,1,x\n0.7,2,y\n' * 20)
        self.write('turned.csv', 'b,a,k\n1,0.5,x\n')
        self.assertIn("turned.csv:1: error: column 0 is 'b', and that of 'train.csv' is 'a'",
                      self.refused('table', 'train.csv', 'turned.csv'))
        self.write('wide.csv', 'a,b,c,k\n1,0.5,2,x\n')
        self.assertIn("wide.csv:1: error: 4 columns, and 'train.csv' has 3",
                      self.refused('table', 'train.csv', 'wide.csv'))
        self.write('other.csv', 'a,b,k\n1,0.5,x\n2,0.7,z\n')
        self.assertIn("other.csv:3: error: the label 'z' is none of the 2",
                      self.refused('table', 'train.csv', 'other.csv'))
        (self.directory / 'folder').mkdir()
        self.assertIn("'folder' is a folder", self.refused('table', 'train.csv', 'folder'))
        self.write('plain.csv', '0.5,1,x\n0.7,2,y\n')
        self.new('table', 'train.csv', 'plain.csv')
        train, test = (self.directory / 'my.cntk').read_text().split('Test = [')
        self.assertIn('headerLines = 1', train)
        self.assertNotIn('headerLines', test)
        text = self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1]]']).text
        self.assertRegex(text, r'Final Results:.* \* 2\b')  # both rows

    def test_arrays_and_sequences_to_test_on(self):
        picture_files.write_idx(self.directory / 'digits', 'train', picture_files.bars(20))
        picture_files.write_idx(self.directory / 'small', 't10k', picture_files.bars(20, size=12))
        self.assertIn('its samples are of another size', self.refused('mnist', 'digits', 'small'))
        self.assertIn("'digits' has no files t10k-images", self.refused('mnist', 'digits', 'digits'))
        picture_files.write_idx(self.directory / 'more', 't10k', picture_files.bars(20, 4))
        self.assertIn('there is a label 3', self.refused('mnist', 'digits', 'more'))
        self.write('train.ctf', '0 |x 1 2 |y 0 1\n1 |x 1 2 |y 1 0\n')
        self.write('wide.ctf', '0 |x 1 2 |y 0 1\n1 |x 1 2 3 |y 1 0\n')
        self.assertIn("wide.ctf:2: error: 'x' has 3 values", self.refused('sequence', 'train.ctf', 'wide.ctf'))
        self.write('other.ctf', '0 |z 1 2 |y 0 1\n')
        self.assertIn("other.ctf:1: error: there is no stream 'x'", self.refused('sequence', 'train.ctf', 'other.ctf'))

    def test_images_are_those_that_the_reader_finds(self):
        self.pictures('all', ('a', 'b', '.ipynb_checkpoints'))
        self.write('all/a/.DS_Store', 'no image')
        self.assertIn('8 images of 2 classes, of 16 x 16 pixels; classes: 0 a, 1 b', self.new('images', 'all'))
        self.run_trainer(['--dry-run', 'configFile=my.cntk'])
        (self.directory / 'my.cntk').unlink()
        self.pictures('all/a', ('2020', '2021'))
        self.assertIn('all/a/2020: error: a folder inside of a class', self.refused('images', 'all'))

    def test_missing_labels(self):
        rows = [f'{i},{i + 0.25}\n' for i in range(60)]
        for value, said in (('', 't.csv:12: error: the label'), ('NA', "t.csv:12: error: the label ('price') is 'NA'")):
            self.write('t.csv', 'a,price\n' + ''.join(rows[:10]) + f'5,{value}\n' + ''.join(rows))
            self.assertIn(said, self.refused('table', 't.csv'))
        self.write('t.csv', 'a,kind\n1,x\n2,\n3,y\n')
        self.assertIn("t.csv:3: error: the label ('kind') is missing", self.refused('table', 't.csv'))
        self.write('t.csv', '2019,2020,kind\n' + '1,2,x\n3,4,y\n' * 9)  # titles that look like data
        self.assertIn("t.csv:1: error: the label 'kind' occurs in this line only", self.refused('table', 't.csv'))

    def test_titles_that_are_numbers(self):
        rows = ''.join(f'{i % 7}.5,{i % 5},0.5,{i % 3}.0\n' for i in range(30))
        self.write('t.csv', '0,1,2,3\n' + rows)
        self.assertIn("30 rows, 3 numbers each; '3' is one of 3 classes; line 1 holds the titles 0 to 3",
                      self.new('table', 't.csv', 't.csv'))
        self.assertEqual((self.directory / 'my.labels').read_text(), '0.0\n1.0\n2.0\n')
        self.assertEqual((self.directory / 'my.cntk').read_text().count('headerLines = 1'), 2)
        self.new('table', 't.csv', '--label', 3, '--force')
        (self.directory / 'my.cntk').unlink()
        for titles, word, number in (('2019,2020,b,y', 'b', '2019'), ('a,b,1,y', 'a', '1')):
            self.write('t.csv', f'{titles}\n' + rows)
            said = self.refused('table', 't.csv')
            self.assertRegex(said, rf"t\.csv:1: error: column \d holds '{word}' in this line only")
            self.assertIn(f"'{number}' is a number fix: begin each title with a letter", said)
        self.write('t.csv', '10,20,30,40\n' + rows)
        self.assertIn("t.csv:1: error: the label '40' occurs in this line only", self.refused('table', 't.csv'))
        self.write('t.csv', 'id,inf,nan,y\n' + rows)  # words here
        self.assertIn('30 rows', self.new('table', 't.csv', '--force'))

    def test_labels_that_are_the_same_number(self):
        self.write('t.csv', 'a,k\n' + '0.5,1\n0.7,2\n' * 9 + '0.6,1.0\n')
        self.assertIn("t.csv:20: error: the label '1.0' is the same number as '1'", self.refused('table', 't.csv'))

    def test_what_separates_columns(self):
        """The delimiter is the one that leaves numbers, whatever else the titles hold. Numbers may have commas."""
        self.write('t.tsv', 'a\tb c,d\ty\n' + '1\t2\tu\n3\t4\tv\n' * 9)
        self.assertIn("18 rows, 2 numbers each; 'y' is one of 2 classes", self.new('table', 't.tsv', '--name', 'tabs'))
        self.assertIn('customDelimiter = "\\t"', (self.directory / 'tabs.cntk').read_text())
        for titles in ('', 'id;val;y\n'):
            self.write('t.csv', titles + '1,5;2,5;u\n2,5;3;v\n' * 9)
            self.assertRegex(self.new('table', 't.csv', '--force'), '18 rows, 2 numbers each; .* 2 classes; commas are decimal points')
            config = (self.directory / 'my.cntk').read_text()
            self.assertIn('customDelimiter = ";"\n        customDecimalPoint = ","', config)
            self.run_trainer(['--dry-run', 'configFile=my.cntk'])
        self.write('t.csv', '1, 2, u\n3, 4, v\n' * 9)
        self.new('table', 't.csv', '--name', 'commas')
        self.assertIn('customDelimiter = ","', (self.directory / 'commas.cntk').read_text())
        (self.directory / 'my.cntk').unlink()
        self.write('t.csv', '1,5;2,5;u\n2,5;3;v\n' * 9 + '2,5;1.234;v\n')
        self.assertIn("t.csv:19: error: column 1 ('column 1') has a decimal point, and other numbers have decimal commas",
                      self.refused('table', 't.csv'))
        self.write('t.csv', 'a,b,y\n"1,000",2,u\n"2,000",3,v\n')
        self.assertIn('t.csv:2: error: 4 columns with commas between them, and the first line has 3',
                      self.refused('table', 't.csv'))

    def test_quoted_labels_with_blanks(self):
        self.write('t.csv', '1,"a "\n2," b"\n3," a"\n' * 10)
        self.assertIn('one of 2 classes', self.new('table', 't.csv'))
        self.assertEqual((self.directory / 'my.labels').read_text(), 'a\nb\n')
        self.run_trainer(['--dry-run', 'configFile=my.cntk'])

    def test_text_with_marks(self):
        self.write('book.txt', '</s> one two </s>\n</s>\none two\n</s> </s>\n</s>one two</s>\n' * 2)
        self.assertIn('6 sentences of 12 words', self.new('text', 'book.txt'))
        self.assertEqual((self.directory / 'my.train.txt').read_text(),
                         ('</s> one two </s>\n' * 2 + '</s> </s>one two</s> </s>\n') * 2)

    def test_text_with_form_feeds(self):
        """The reader takes all control characters for blanks."""
        self.write('plain.txt', 'one two three\n two one\n' * 4)
        self.write('feeds.txt', '\fone two\x1fthree\n\f\n \f two one\v\n' * 4)
        for name in ('plain', 'feeds'):
            self.assertIn('8 sentences of 20 words', self.new('text', f'{name}.txt', '--name', name))
        self.assertEqual(*((self.directory / f'{name}.words').read_text() for name in ('plain', 'feeds')))
        self.run_trainer(['--dry-run', 'configFile=feeds.cntk'])

    def test_text_too_short_to_test_on(self):
        self.write('book.txt', 'one two\n' * 9)
        self.assertIn('too few to test on every tenth', self.new('text', 'book.txt'))
        self.assertNotIn('Test = [', (self.directory / 'my.cntk').read_text())
        self.write('book.txt', 'one two\n' * 10)
        self.assertIn('every tenth sentence is tested on', self.new('text', 'book.txt', '--force'))

    def test_maps_with_mistakes(self):
        self.pictures('all', ('a', 'b'))
        for line, said in (('all/b/1.png\t2000000000', "map.txt:2: error: the label '2000000000' is no class"),
                           ('all/b/1.png\t0.5', "map.txt:2: error: the label '0.5' is no class"),
                           ('all/b/9.png\t1', "map.txt:2: error: there is no image 'all/b/9.png'"),
                           ('all/b/1.png\t0', 'map.txt: error: all labels are 0')):
            self.write('map.txt', f'all/a/0.png\t0\n{line}\n')
            self.assertIn(said, self.refused('images', 'map.txt'))
        picture_files.write_idx(self.directory / 'one', 'train', picture_files.bars(20, 1))
        self.assertIn('all labels are 0', self.refused('mnist', 'one'))

    def test_tiny_images(self):
        self.pictures('all', ('a', 'b'), size=3)
        self.assertIn('scaled to 32 x 32 pixels', self.new('images', 'all'))
        self.run_trainer(['--dry-run', 'configFile=my.cntk'])

    def test_names_of_files(self):
        rows = '1,0\n2,1\n' * 4
        for path in ('a$b.csv', 'a"b.csv', 'a #b.csv'):
            self.write(path, rows)
            self.assertIn('which configs cannot hold', self.refused('table', path))
        self.write('t.csv', rows)
        for name in ('', 'sub/', 'c++', 'a$b', 'a"b', 'a#b', 'a(b'):
            self.assertIn('name', self.refused('table', 't.csv', '--name', name))
        self.new('table', 't.csv', '--name', 'sub/dir/mine')
        self.assertIn("next: trainer 'configFile=two words.cntk'\n", self.new('table', 't.csv', '--name', 'two words'))
        self.assertIn("trainer launch -n 4 'configFile=two words.cntk' ", (self.directory / 'two words.cntk').read_text())
        self.run_trainer(['--dry-run', 'configFile=sub/dir/mine.cntk'])

    def test_prediction_for_sequences_without_labels(self):
        self.write('whole.ctf', '0 |x 1 |y 0 1\n0 |x 2\n1 |x -1 |y 1 0\n1 |x -2\n' + ''.join(
            f'{i} |x {i % 2 * 2 - 1} |y {i % 2} {1 - i % 2}\n{i} |x 0\n' for i in range(2, 40)))
        self.new('sequence', 'whole.ctf')
        self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1]]'])
        self.write('new.ctf', '0 |features 1\n0 |features 2\n1 |features -1\n')
        lines = self.run_trainer(['predict', 'output/my/my.dnn', '--input', 'new.ctf']).stdout.splitlines()
        self.assertEqual(len(lines), 3, lines)  # titles and two sequences

    def test_files_with_a_byte_order_mark(self):
        self.write('titles.csv', '\ufeffkind,a\n' + 'x,1\ny,2\n' * 10)
        self.assertIn("'kind' is one of 2 classes", self.new('table', 'titles.csv', '--label', 'kind'))
        self.write('my.labels', '\ufeffx\ny\n')
        self.run_trainer(['configFile=my.cntk', 'Train=[SGD=[maxEpochs=1]]'])
        self.write('new.ctf', '|features 1\n')
        text = self.run_trainer(['predict', 'output/my/my.dnn', '--input', 'new.ctf', '--classes', 'my.labels']).stdout
        self.assertTrue(text.splitlines()[0].endswith(',x,y'), text)
        self.write('plain.csv', '\ufeff1,x\n' + '2,y\n1,x\n' * 10)
        self.assertIn('21 rows', self.new('table', 'plain.csv', '--name', 'plain'))
        self.run_trainer(['--dry-run', 'configFile=plain.cntk'])
        self.pictures('all', ('a', 'b'))
        self.write('map.txt', '\ufeffall/a/0.png\t0\nall/b/1.png\t1\n')
        self.assertIn('2 images', self.new('images', 'map.txt', '--name', 'map'))

    def test_labels_that_are_asked_for(self):
        self.pictures('all', ('a', 'b'))
        self.assertIn('--label has no meaning for images', self.refused('images', 'all', '--label', 'nosuch'))
        self.write('t.ctf', '0 |a 1 |b 0 1 |y 0 1\n0 |a 2 |b 1 0 |y 1 0\n')
        self.assertIn("there is no stream 'nosuch'", self.refused('sequence', 't.ctf', '--label', 'nosuch'))
        self.assertIn("'y' one of 2 classes for each step; 'b' is not used", self.new('sequence', 't.ctf'))
        self.assertIn("'b' one of 2 classes for each step; 'y' is not used",
                      self.new('sequence', 't.ctf', '--label', 'b', '--force'))

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
