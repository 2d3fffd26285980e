# SPDX-License-Identifier: Apache-2.0
"""trainer plan: a figure for every method, near what a run of that method then achieves; the choice; mistakes."""
import json
import re
import subprocess

import examples
import support


class PlanTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(hidden='200:200', minibatch=400, epochs=1))
        # A trial takes an epoch at most: these are over soon. Where speeds or the periods of methods count, there are more points.
        self.write('train.ctf', examples.points(4000))

    def plan(self, *words, expect=0):
        done = subprocess.run([support.TRAINER, 'plan', *map(str, words)], cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=2 * support.PATIENCE, env=support.environment(self.directory))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rows(self, text):
        return {(m.group(1).strip(), m.group(2)): (float(m.group(3)), float(m.group(4)) if m.group(4) != '-' else 0)
                for m in re.finditer(r'^(.{30}) +(\S+) +(\d+) +[\d.]+ +([\d.]+|-) +(?:\d+ %|-) +', text, re.MULTILINE)}

    def test_every_method_and_the_choice(self):
        self.write('train.ctf', examples.points(40000))
        text = self.plan('-n', 2, '--json', 'plan.jsonl', 'configFile=run.cntk')
        rows = self.rows(text)
        methods = ('DataParallelSGD', 'ASA of gradients', 'ModelAveragingSGD', 'BlockMomentumSGD', 'EASGD', 'DataParallelASGD')
        self.assertEqual(set(rows), {('one rank', '-')} | {(method, bits) for method in methods for bits in ('32', '16', '4', '1')}, text)
        self.assertRegex(text, r'41[0-9]{3} weights, minibatches of 400 samples')
        exact = max((('DataParallelSGD', '32'), ('ASA of gradients', '32')), key=lambda k: rows[k][0])
        self.assertIn(f'choice: {exact[0]} in 32 bits, {rows[exact][0]:.0f} samples/s', text)
        # What is sent follows from the bits, and from the period.
        for method in methods:
            self.assertLess(rows[method, '1'][1], rows[method, '32'][1] / (10 if method != 'DataParallelASGD' else 1.5), method)
        self.assertLess(rows['EASGD', '32'][1], rows['DataParallelSGD', '32'][1])
        self.assertLess(rows['BlockMomentumSGD', '32'][1], rows['EASGD', '32'][1])
        self.assertFalse((self.directory / 'models').exists(), 'a plan writes nothing')
        self.assertNotIn('"event"', text)
        table = [json.loads(line) for line in (self.directory / 'plan.jsonl').read_text(encoding='utf-8').splitlines()]
        self.assertEqual({('one rank' if r['method'] == 'none' else r['method'], r['bits']): round(r['measures']['samples_per_second']) for r in table},
                         {key: speed for key, (speed, _) in rows.items()})
        self.assertEqual([(r['method'], r['bits']) for r in table if r.get('choice')], [exact])
        weights = re.search(r'(\d+) weights, minibatches', text).group(1)
        self.assertEqual({(r['weights'], r['minibatch']) for r in table}, {(int(weights), 400)})
        self.figures_are_those_of_a_run(rows, weights)

    def figures_are_those_of_a_run(self, rows, weights):
        for bits in ('32', '1'):
            run = self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[epochSize=4000;ParallelTrain=[DataParallelSGD=[gradientBits={bits}]]]]'], 2)
            for said in (f'network .* {weights} parameters in ', 'schedule .* steps of 400 samples each at first'):  # the report compares them with those of a plan
                self.assertRegex(run.text, f'(?m)^  {said}')
            number, unit = re.search(r'Exchange of Epoch\[ 1 of 1\]: ([\d.]+) (kB|MB) sent', run.text).groups()
            sent = float(number) * {'kB': 1e-3, 'MB': 1}[unit]
            self.assertAlmostEqual(rows['DataParallelSGD', bits][1], sent / 10, delta=0.05 * sent / 10 + 0.001)

    def table(self, *words):
        """Bytes per step and memory by method and bits."""
        self.plan('configFile=run.cntk', '-n', 2, *words, '--json', 'plan.jsonl')
        rows = [json.loads(line) for line in (self.directory / 'plan.jsonl').read_text(encoding='utf-8').splitlines()]
        return {(r['method'], r['bits']): r['measures'] for r in rows if 'measures' in r}

    def test_bytes_of_blocks_are_those_of_an_epoch(self):
        """With the exchange at its end. The 10 minibatches are one more than blocks of 3."""
        own = 'BlockMomentumSGD=[blockSize=1000];EASGD=[period=4]'
        rows = self.table(f'Train=[SGD=[ParallelTrain=[{own}]]]')
        for method in ('ModelAveragingSGD', 'BlockMomentumSGD', 'EASGD'):
            run = self.run_trainer(['configFile=run.cntk', 'makeMode=false',
                                    f'Train=[SGD=[metrics=[jsonl=run.jsonl];ParallelTrain=[parallelizationMethod={method};{own}]]]'], 2)
            records = [json.loads(line) for line in (self.directory / 'run.jsonl').read_text(encoding='utf-8').splitlines()]
            sent = max(next(r for r in records if r['event'] == 'epoch')['ranks']['bytes_sent'])
            self.assertAlmostEqual(rows[method, '32']['bytes_per_step'], sent / 10, delta=1, msg=run.text)

    def test_bits_of_the_config_are_replaced(self):
        """A line of another method names those that it has. Memory is what was allocated, so it is the same each time."""
        tables = []
        for own in ('exchangeBits = 16', 'gradientBits = 4 ; quantizer = original'):
            self.write('run.cntk', examples.config(hidden='200:200', minibatch=400, epochs=1, bits=32).replace('gradientBits = 32', own))
            tables.append(self.table('Train=[SGD=[ParallelTrain=[ASGD=[exchangeBits=8]]]]'))
            self.assertLessEqual({(method, bits) for method in ('DataParallelSGD', 'DataParallelASGD') for bits in ('32', '16', '4', '1')}
                                 | {('DataParallelASGD', '8')}, set(tables[-1]))
        for row, measures in tables[0].items():
            if row[0] != 'none':
                self.assertAlmostEqual(measures['memory'], tables[1][row]['memory'], delta=0.1 * measures['memory'], msg=row)

    def test_what_the_config_excludes(self):
        text = self.plan('-n', 2, 'configFile=run.cntk', 'Train=[SGD=[gradUpdateType=oneBitAdam;warmupSamples=1000]]')
        self.assertRegex(text, r'EASGD +32 not possible: oneBitAdam needs an exchange')

    def test_mistakes(self):
        self.assertIn("did you mean 'maxEpochs'", self.plan('-n', 2, 'configFile=run.cntk', 'Train=[SGD=[maxEpoch=1]]', expect=2))
        self.assertIn('fix: ', self.plan('-n', 'x', expect=2))
        for words in (('--json', 'configFile=run.cntk'), ('--json=', 'configFile=run.cntk'), ('--json', '-n', 2), ('--json',)):
            self.assertIn('plan: --json needs a value\nfix: --json plan.jsonl', self.plan(*words, expect=2))
        self.assertIn('--restarts has no effect', self.plan('--restarts', 2, 'configFile=run.cntk', expect=2))
        self.assertIn("plan: there is no '--bogus'\nfix: trainer plan --help", self.plan('--bogus', expect=2))
        self.assertIn('fix: trainer plan -n 4 configFile=FILE', self.plan(expect=2))
        self.assertIn('usage: trainer plan', self.plan('--help'))
        text = self.plan('--json', 'absent/plan.jsonl', '-n', 2, 'configFile=run.cntk', expect=2)
        self.assertIn("plan: 'absent/plan.jsonl' cannot be written: No such file or directory\nfix: ", text)
        self.assertNotIn('weights', text)  # nothing was measured

    def test_one_rank(self):
        text = self.plan('-n', 1, 'configFile=run.cntk')
        self.assertIn('Train on 1 rank of 1 host: ', text)
        self.assertRegex(text, r'(?m)^EASGD +32 +\d+ +- ')


if __name__ == '__main__':
    support.main()
