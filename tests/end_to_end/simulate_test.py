# SPDX-License-Identifier: Apache-2.0
"""trainer simulate: a figure for every method, links and ranks; bytes as in a run; lines of JSON; mistakes."""
import json
import re
import subprocess

import examples
import support

METHODS = {('DataParallelSGD', '32'), ('DataParallelSGD', '16'), ('DataParallelSGD', '4'), ('DataParallelSGD', '1'), ('DataParallelSGD, late', '1'), ('ASA', '32'),
           ('ASA', '16'), ('ModelAveragingSGD', '32'), ('BlockMomentumSGD', '32'), ('EASGD', '32'), ('EASGD, async', '32'), ('DataParallelASGD', '32')}


class SimulateTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(hidden='200:200', minibatch=400, epochs=1))
        self.write('train.ctf', examples.points(4000))

    def simulate(self, *words, expect=0):
        done = subprocess.run([support.TRAINER, 'simulate', *map(str, words)], cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=2 * support.PATIENCE, env=support.environment(self.directory))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def table(self, name='table.jsonl'):
        rows = [json.loads(line) for line in (self.directory / name).read_text(encoding='utf-8').splitlines()]
        return {(r['link'], r['ranks'], r['method'], r['bits']): r['measures'] for r in rows}

    def test_every_method_on_every_cluster(self):
        text = self.simulate('--ranks', '2,16:64', '--links', '10mbit,none', '--per-rank', 50, '--json', 'table.jsonl', 'configFile=run.cntk')
        self.assertRegex(text, r'41[0-9]{3} weights, minibatches of 50 samples per rank, epochs of 4000 samples')
        self.assertRegex(text, r'one rank alone: [1-9]\d* samples/s')
        self.assertNotIn('"event"', text)
        self.assertFalse((self.directory / 'models').exists(), 'nothing is trained')
        table = self.table()
        self.assertEqual(set(table), {(link, ranks, *m) for link in ('10mbit', 'none') for ranks in (2, 16, 32, 64) for m in METHODS})
        for (link, ranks, method, bits), row in table.items():
            self.assertGreater(row['samples_per_second'], 0)
            self.assertLessEqual(table['10mbit', ranks, method, bits]['samples_per_second'], 1.02 * table['none', ranks, method, bits]['samples_per_second'])
            # What is printed is what is written.
            row_of_text = re.search(rf'link {link}:.*?\n{re.escape(method)} +{bits} ([ \d]+)', text, re.DOTALL).group(1).split()
            self.assertEqual(int(row_of_text[(2, 16, 32, 64).index(ranks)]), round(row['samples_per_second']))
        # A link that decides: fewer bits are faster, and so is exchanging rarely.
        slow = {(m, b): r['samples_per_second'] for (link, ranks, m, b), r in table.items() if (link, ranks) == ('10mbit', 16)}
        self.assertGreater(slow['DataParallelSGD', '1'], 2 * slow['DataParallelSGD', '32'])
        self.assertGreater(slow['ModelAveragingSGD', '32'], 2 * slow['DataParallelSGD', '32'])

    def test_bytes_are_those_of_a_run(self):
        self.simulate('--ranks', 2, '--links', '1gbit', '--json=table.jsonl', 'configFile=run.cntk')
        for bits in ('32', '1'):
            run = self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits={bits}]]]]'], 2)
            number, unit = re.search(r'Exchange of Epoch\[ 1 of 1\]: ([\d.]+) (kB|MB) sent', run.text).groups()
            sent = float(number) * {'kB': 1e3, 'MB': 1e6}[unit] / 10
            self.assertAlmostEqual(self.table()['1gbit', 2, 'DataParallelSGD', bits]['bytes_per_step'], sent, delta=0.05 * sent + 1000)

    def test_groups_of_the_config(self):
        text = self.simulate('--ranks', '2,8', '--links', '1gbit', 'configFile=run.cntk',
                             'Train=[SGD=[ParallelTrain=[parallelizationMethod=BlockMomentumSGD;groups="size:4";BlockMomentumSGD=[blockSize=800]]]]')
        self.assertRegex(text, r'BlockMomentumSGD, groups of 4 +32 +- +\d+')

    def test_mistakes(self):
        self.assertIn("did you mean 'maxEpochs'", self.simulate('configFile=run.cntk', 'Train=[SGD=[maxEpoch=1]]', expect=2))
        for words, what, fix in (
                (('--ranks', 'x'), "--ranks 'x' is no number from 1 to 65536", 'fix: --ranks 2,4,8'),
                (('--links', '1gig'), "--links '1gig' is no rate", 'fix: --links 1gbit,10gbit,100gbit'),
                (('--latency', '30'), "--latency '30' is no time", 'fix: --latency 30us'),
                (('--json',), '--json needs a value', 'fix: --json simulate.jsonl'),
                (('-n', '1'), 'simulate: 1 rank cannot measure messages', 'fix: -n 2'),
                (('--restarts', '2'), '--restarts has no effect', 'fix: ')):
            text = self.simulate(*words, *(() if words == ('--json',) else ('configFile=run.cntk',)), expect=2)
            self.assertIn(what, text)
            self.assertIn(fix, text)
        self.assertIn('cannot be written', self.simulate('--ranks', 2, '--links', '1gbit', '--json', 'absent/x', 'configFile=run.cntk', expect=2))
        self.assertIn('usage: trainer simulate', self.simulate('--help'))


if __name__ == '__main__':
    support.main()
