# SPDX-License-Identifier: Apache-2.0
"""The pages against the program: lists of options are those of `help`, and every example of a method is a config that the
program accepts. So is the config of README.md."""
import re
import shutil
import subprocess
import sys

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


class ExamplesTest(support.TrainerTest):
    def test_methods_run_as_their_pages_show_them(self):
        found = [(page.name, code) for page in sorted((DOCS / 'methods').glob('*.md')) for code in examples(page.read_text(encoding='utf-8'))]
        self.assertGreaterEqual(len({name for name, _ in found}), 10, found)
        for i, (name, code) in enumerate(found):
            with self.subTest(page=name, example=code):
                self.write('example.cntk', f'Method = example\nTrain = [ SGD = [\n{code}\n] ]\n')
                self.run_trainer([f'configFile={COMMON}+example.cntk', '--check'], ranks=4)


if __name__ == '__main__':
    support.main()
