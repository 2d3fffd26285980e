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
        text = self.simulate('--ranks', '2,16:64', '--links', '10mbit,none', '--per-rank', 50, '--json', 'table.jsonl', 'configFile=run.cntk',
                             'Train=[SGD=[ParallelTrain=[ModelAveragingSGD=[blockSizePerWorker=40000]]]]')
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

    def test_groups_of_the_config_and_bytes_as_those_of_a_run(self):
        text = self.simulate('--ranks', '2,8', '--links', '1gbit', '--json=table.jsonl', 'configFile=run.cntk',
                             'Train=[SGD=[ParallelTrain=[parallelizationMethod=BlockMomentumSGD;groups="size:4";BlockMomentumSGD=[blockSize=800]]]]')
        self.assertRegex(text, r'BlockMomentumSGD, groups of 4 +32 +- +\d+')
        for bits in ('32', '1'):
            run = self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits={bits}]]]]'], 2)
            number, unit = re.search(r'Exchange of Epoch\[ 1 of 1\]: ([\d.]+) (kB|MB) sent', run.text).groups()
            sent = float(number) * {'kB': 1e3, 'MB': 1e6}[unit] / 10
            self.assertAlmostEqual(self.table()['1gbit', 2, 'DataParallelSGD', bits]['bytes_per_step'], sent, delta=0.05 * sent + 1000)

    def test_ranks_that_share_cores(self):
        self.simulate('--ranks', '2,3', '--links', 'none', '--shared-cores', 2, '--json', 'table.jsonl', 'configFile=run.cntk')
        for (_, ranks, method, bits), row in self.table().items():
            self.assertGreater(row['samples_per_second'], 0)
            self.assertLess(row['speed_up'], 2.5, f'{ranks} ranks, {method}, {bits} bits')

    def test_steps_that_the_data_do_not_have(self):
        """A step has at most the samples of the data, and no speed counts more."""
        self.write('train.ctf', examples.points(400))
        text = self.simulate('--ranks', '2,4', '--links', 'none', '--per-rank', 4000, 'configFile=run.cntk')
        self.assertIn('steps of 400 to 400 samples', text)
        self.assertIn('no step of 4000 samples can be measured: it is taken as 10.0 steps of 400', text)
        self.assertIn('all minibatches are larger than an epoch, which is then taken as one minibatch', text)
        text = self.simulate('--ranks', '2,16', '--links', 'none', '--per-rank', 50, 'configFile=run.cntk')
        self.assertIn('minibatches of more than 8 ranks are larger than an epoch', text)
        self.assertNotIn('can be measured', text)
        text = self.simulate('--ranks', 2, '--links', 'none', 'configFile=run.cntk',
                             'Train=[SGD=[minibatchSize=4000;epochSize=8000]]')
        self.assertIn('minibatches of 400 samples, epochs of 8000 samples', text)
        self.assertRegex(text, r'steps of 200 to 400 samples')
        self.assertNotIn('taken as', text)

    def test_tables_that_take_long(self):
        """MPI ends ranks that wait for another one in MPI_Finalize for 10 s."""
        self.write('run.cntk', examples.config(hidden='20', minibatch=40, epochs=1))
        text = self.simulate('--ranks', 65536, '--links', '1gbit,10gbit', '--per-rank', 4, '--json', 'table.jsonl',
                             'configFile=run.cntk')
        self.assertIn('link 10gbit', text)
        self.assertEqual(len(self.table()), 2 * len(METHODS))

    def test_groups_that_are_none(self):
        for groups in ('size:four', 'size:99999999999'):
            text = self.simulate('--ranks', 2, 'configFile=run.cntk',
                                 f'Train=[SGD=[ParallelTrain=[groups="{groups}"]]]', expect=2)
            self.assertIn(f"'{groups}' names no groups", text)
            self.assertIn('fix: write byNode, size:4', text)

    def test_mistakes(self):
        self.assertIn("did you mean 'maxEpochs'", self.simulate('configFile=run.cntk', 'Train=[SGD=[maxEpoch=1]]', expect=2))
        for words, what, fix in (
                (('--ranks', 'x'), "--ranks 'x' is no number from 1 to 65536", 'fix: --ranks 2,4,8'),
                (('--links', '1gig'), "--links '1gig' is no rate", 'fix: --links 1gbit,10gbit,100gbit'),
                (('--latency', '30'), "--latency '30' is no time", 'fix: --latency 30us'),
                (('--json',), '--json needs a value', 'fix: --json simulate.jsonl'),
                (('-n', '1'), 'simulate: 1 rank cannot measure: messages need two', 'fix: -n 2'),
                (('--restarts', '2'), '--restarts has no effect', 'fix: ')):
            text = self.simulate(*words, *(() if words == ('--json',) else ('configFile=run.cntk',)), expect=2)
            self.assertIn(what, text)
            self.assertIn(fix, text)
        text = self.simulate('--ranks', 2, '--links', '1gbit', '--json', 'absent/x', 'configFile=run.cntk', expect=2)
        self.assertIn("simulate: 'absent/x' cannot be written: No such file or directory\nfix: ", text)
        self.assertNotIn('weights', text)  # nothing was measured
        self.assertIn('usage: trainer simulate', self.simulate('--help'))


if __name__ == '__main__':
    support.main()
