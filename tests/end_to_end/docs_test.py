# SPDX-License-Identifier: Apache-2.0
"""The pages against the program: lists of options are those of `help`, and every example of a method is a config that the
program accepts. So is the config of README.md."""
import random
import re
import shutil
import subprocess
import sys

import picture_files
import support

DOCS = support.SOURCE / 'docs'
# The networks and data of samples/methods, without a run.
COMMON = support.SOURCE / 'samples/methods/common.cntk'


def examples(text):
    """The blocks 'ParallelTrain = [ ... ]' of a page."""
    for start in re.finditer(r'^ *ParallelTrain = \[', text, re.MULTILINE):
        code = re.sub(r'#.*', '', text[start.start():])
        depth = 0
        for end, letter in enumerate(code):
            depth += {'[': 1, ']': -1}.get(letter, 0)
            if depth == 0 and letter == ']':
                yield code[:end + 1]
                break


class OptionsTest(support.TrainerTest):
    def tables(self, *arguments):
        return subprocess.run([sys.executable, support.SOURCE / 'scripts/option_tables.py', *arguments, support.TRAINER],
                              capture_output=True, text=True, check=False)

    def test_pages_have_the_options_of_the_program(self):
        done = self.tables('--check')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_difference_is_found_and_repaired(self):
        docs = self.directory / 'docs'
        shutil.copytree(DOCS, docs, ignore=lambda folder, names: [n for n in names if '.' in n and not n.endswith('.md')])
        page = docs / 'methods/easgd.md'
        right = page.read_text(encoding='utf-8')
        page.write_text(right.replace('- `period` (integer, default 10)', '- `period` (integer, default 11)'), encoding='utf-8')
        done = self.tables('--check', '--docs', docs)
        self.assertEqual(done.returncode, 1)
        self.assertIn('easgd.md: the options differ', done.stderr)
        self.assertEqual(self.tables('--docs', docs).returncode, 0)
        self.assertEqual(page.read_text(encoding='utf-8'), right)
        (docs / 'sgd_options.md').unlink()
        self.assertIn('<!-- options: SGD -->', self.tables('--check', '--docs', docs).stderr)


class ReadmeTest(support.TrainerTest):
    def test_own_data(self):
        """The config of README.md trains on a text file as the page describes it."""
        text = (support.SOURCE / 'README.md').read_text(encoding='utf-8')
        self.write('my.cntk', re.search(r'^```\n(command   = Train:Test\n.*?)^```$', text, re.DOTALL | re.MULTILINE).group(1))
        line = re.search(r'`(\|features .*?)`', text).group(1)
        for name, samples in (('train.txt', 32), ('test.txt', 8)):
            self.write(name, (line + '\n') * samples)
        self.run_trainer(['--check', 'configFile=my.cntk'])
        result = support.final_results(self.run_trainer(['configFile=my.cntk'], ranks=2).text)
        self.assertEqual(result['errs'], (0, 8))


# Segments of a digit: top, upper left, upper right, middle, lower left, lower right, bottom.
SEGMENTS = ('1110111', '0010010', '1011101', '1011011', '0111010', '1101011', '1101111', '1010010', '1111111', '1111011')


def digit(d, draw, size=16):
    """Rows of bytes: the segments of a digit a few pixels off its place, on noise."""
    top, left = draw.randrange(1, 4), draw.randrange(2, 6)
    rows = [[draw.randrange(60) for _ in range(size)] for _ in range(size)]
    boxes = ((0, 0, 1, 6), (0, 0, 6, 1), (0, 5, 6, 6), (5, 0, 6, 6), (5, 0, 11, 1), (5, 5, 11, 6), (10, 0, 11, 6))
    for on, (y0, x0, y1, x1) in zip(SEGMENTS[d], boxes):
        for y in range(y0, y1):
            for x in range(x0, x1):
                if on == '1':
                    rows[top + y][left + x] = 255 - draw.randrange(60)
    return rows


class CloneToExportTest(support.TrainerTest):
    """The commands of README.md, the first of which builds, on a table and on images of digits."""

    def commands(self):
        text = (support.SOURCE / 'README.md').read_text(encoding='utf-8')
        block = re.search(r'^```\n(scripts/quickstart\.sh  .*?)^```$', text, re.DOTALL | re.MULTILINE).group(1)
        lines = block.splitlines()
        self.assertLessEqual(len(lines), 6)
        self.assertEqual(lines[0].split()[0], 'scripts/quickstart.sh')
        return lines[1:]

    def run_commands(self, lines):
        folder = self.directory / 'build'
        folder.mkdir()
        (folder / 'trainer').symlink_to(support.TRAINER)
        said = ''
        for line in lines:
            done = subprocess.run(line.split('#')[0], shell=True, cwd=self.directory, env=support.environment(self.directory), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=support.PATIENCE, check=False)
            said += done.stdout
            self.assertEqual(done.returncode, 0, f'{line}\n{said}')
        self.assertGreater((self.directory / 'my.onnx').stat().st_size, 10000)
        return support.final_results(said)['errs']

    def test_table(self):
        draw = random.Random(1)
        for name, count in (('train.csv', 2000), ('test.csv', 200)):
            rows = [','.join(f'p{i}' for i in range(256)) + ',digit']
            for i in range(count):
                rows.append(','.join(str(v) for row in digit(i % 10, draw) for v in row) + f',{i % 10}')
            self.write(name, '\n'.join(rows) + '\n')
        errors, samples = self.run_commands(self.commands())
        self.assertEqual(samples, 200)
        self.assertLess(errors, 0.1)

    def test_images(self):
        draw = random.Random(2)
        for name, count in (('train', 1000), ('test', 100)):
            pictures = [(i % 10, digit(i % 10, draw)) for i in range(count)]
            picture_files.write_folders(self.directory / name, pictures, [str(d) for d in range(10)])
        lines = self.commands()
        lines[0] = lines[0].split('for images:')[1]
        errors, samples = self.run_commands(lines)
        self.assertEqual(samples, 100)
        self.assertLess(errors, 0.1)


class ExamplesTest(support.TrainerTest):
    def test_methods_run_as_their_pages_show_them(self):
        found = [(page.name, code) for page in sorted((DOCS / 'methods').glob('*.md')) for code in examples(page.read_text(encoding='utf-8'))]
        self.assertGreaterEqual(len({name for name, _ in found}), 10, found)
        # All in one start; an error names the line of its example.
        names = [f'Example{i}' for i in range(len(found))]
        text = support.copies_of_train(COMMON.read_text(encoding='utf-8'), names)
        for name, (page, code) in zip(names, found):
            text += f'# {page}\n{name} = [ SGD = [\n{code}\n] ]\n'
        self.write('examples.cntk', text + f'Method = example\ncommand = {":".join(names)}\n')
        said = self.run_trainer(['configFile=examples.cntk', '--check'], ranks=4).text
        for name in names:
            self.assertRegex(said, rf'(?m)^{name} = \[')


if __name__ == '__main__':
    support.main()
