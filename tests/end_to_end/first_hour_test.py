# SPDX-License-Identifier: Apache-2.0
"""The configs of docs/first-hour.md run as they stand, on data as the page describes them, and learn."""
import random
import re

import picture_files
import support

PAGE = support.SOURCE / 'docs/first-hour.md'


class FirstHourTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.configs = dict(re.findall(r'^```\n# (\w+\.cntk)\n(.*?)^```$', PAGE.read_text(encoding='utf-8'), re.MULTILINE | re.DOTALL))

    def train(self, name, ranks=None):
        self.write(name, self.configs.pop(name))
        text = self.run_trainer([f'configFile={name}'], ranks).text
        return support.final_results(text) or {k: v for k, v in support.epochs(text)[-1].items() if isinstance(v, tuple)}

    def test_every_kind(self):
        self.assertEqual(set(self.configs), {'table.cntk', 'images.cntk', 'idx.cntk', 'text.cntk', 'sequence.cntk'})
        draw = random.Random(1)
        for name, count in (('train.csv', 300), ('test.csv', 90)):
            rows = [(i % 3, [draw.gauss(i % 3, 0.2), draw.gauss(0, 1), 100 * draw.gauss(-(i % 3), 0.2), 5]) for i in range(count)]
            self.write(name, ''.join(','.join(f'{v:.4f}' for v in values) + f',{c}\n' for c, values in rows))
        self.assertLess(self.train('table.cntk', 2)['errs'][0], 0.05)

        picture_files.write_folders(self.directory / 'pictures', picture_files.bars(150), ('a', 'b', 'c'))
        self.assertLess(self.train('images.cntk')['errs'][0], 0.05)
        picture_files.write_idx(self.directory / 'digits', 'train', picture_files.bars(200))
        self.assertLess(self.train('idx.cntk', 2)['errs'][0], 0.05)

        # Each word decides the next one, the last but one up to two choices.
        words = ['</s>', 'one', 'two', 'three', 'four', 'five', 'six', 'seven']
        self.write('words.txt', '\n'.join(words) + '\n')
        self.write('book.txt', ''.join(f'</s> one two three {draw.choice(("four", "five"))} six seven </s>\n' for _ in range(400)))
        self.assertLess(self.train('text.cntk', 2)['ce'][0], 0.25)

        lines = []
        for i in range(200):
            total = 0
            for _ in range(draw.randrange(3, 8)):
                v = draw.choice((-1, 1))
                total += v
                lines.append(f'{i} |x {v} 0.5 |y {int(total > 0)} {int(total <= 0)}\n')
        self.write('steps.ctf', ''.join(lines))
        self.assertLess(self.train('sequence.cntk')['errs'][0], 0.1)
        self.assertEqual(self.configs, {})

    def test_commands(self):
        """The words of the page are those of the program."""
        text = PAGE.read_text(encoding='utf-8')
        self.write('train.csv', ''.join(f'{i % 2},{i % 2}\n' for i in range(40)))
        self.write('test.csv', '0,0\n1,1\n')
        commands = [line.split('#')[0].split() for line in re.search(r'^```\n(scripts/quickstart.*?)^```', text, re.MULTILINE | re.DOTALL).group(1).splitlines()]
        self.assertEqual([c[0] for c in commands], ['scripts/quickstart.sh'] + ['build/trainer'] * 4)
        for command in commands[1:]:
            result = support.Run(self.directory, command[1:], None).wait()
            self.assertIn(result.code, (0, 1) if command[1] == 'doctor' else (0,), str(result))
        self.assertTrue((self.directory / 'output/my/my.dnn').exists())


if __name__ == '__main__':
    support.main()
