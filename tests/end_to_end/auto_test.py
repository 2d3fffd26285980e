# SPDX-License-Identifier: Apache-2.0
"""parallelizationMethod = auto: the run is that of the method it names, a run that continues keeps it, and what it prints."""
import json
import re

import examples
import support

AUTO = 'Train=[SGD=[ParallelTrain=[parallelizationMethod=auto{}]]]'
# What a user writes for each method that auto can name.
GIVEN = {
    'DataParallelSGD in 32 bits': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]',
    'DataParallelSGD in 1 bits': 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]',
    'ASA of gradients in 32 bits': 'parallelizationMethod=ASA',
}


class AutoTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(hidden='20', minibatch=40, epochs=2))
        self.write('train.ctf', examples.points(2000))

    def run_auto(self, *words, ranks=2, allow='', **options):
        return self.run_trainer(['configFile=run.cntk', AUTO.format(allow), *words], ranks, **options)

    def choice(self, text):
        found = re.search(r'^(?:# )?  auto       ((?:DataParallelSGD|ASA of gradients) in \d+ bits), (.*)$', text, re.MULTILINE)
        self.assertTrue(found, text)
        return found.groups()

    def model(self, name):
        return (self.directory / name).read_bytes()

    def test_equals_the_method_that_it_names(self):
        run = self.run_auto('modelPath=auto/m', 'Train=[SGD=[metrics=[jsonl=auto.jsonl]]]')
        method, reason = self.choice(run.text)
        self.assertRegex(reason, r'^the fastest of those timed on 2 ranks: \d+ samples/s; (DataParallelSGD|ASA of gradients) in 32 bits \d+; one rank alone \d+$')
        self.assertIn(method, ('DataParallelSGD in 32 bits', 'ASA of gradients in 32 bits'))
        self.run_trainer(['configFile=run.cntk', 'modelPath=given/m', f'Train=[SGD=[ParallelTrain=[{GIVEN[method]}]]]'], 2)
        self.assertEqual(self.model('auto/m'), self.model('given/m'))
        start = json.loads((self.directory / 'auto.jsonl').read_text(encoding='utf-8').splitlines()[0])
        self.assertEqual(start['auto'], f'{method}, {reason}')
        self.assertEqual(round(start['measures']['predicted_samples_per_second']), int(re.search(r': (\d+) samples/s', reason).group(1)))

    def test_other_results_only_where_allowed(self):
        run = self.run_auto('modelPath=a/m', allow=';autoAllow=1bit')
        method, reason = self.choice(run.text)
        self.assertIn('DataParallelSGD in 1 bits', method + reason)
        self.assertNotIn('EASGD', reason)
        self.run_trainer(['configFile=run.cntk', 'modelPath=b/m', f'Train=[SGD=[ParallelTrain=[{GIVEN[method]}]]]'], 2)
        self.assertEqual(self.model('a/m'), self.model('b/m'))

    def test_methods_of_all_kinds_are_timed(self):
        text = self.run_auto('--dry-run', allow=';autoAllow="16bit:4bit:1bit:local:async"').text
        line = re.search(r'^#   auto .*$', text, re.MULTILINE).group(0)
        for name in ('DataParallelSGD in 16 bits', 'DataParallelSGD in 4 bits', 'ModelAveragingSGD', 'BlockMomentumSGD', 'EASGD', 'DataParallelASGD'):
            self.assertIn(name, line)
        self.assertNotIn('not possible', line)
        self.assertFalse((self.directory / 'models').exists())

    def test_a_run_that_continues_times_nothing(self):
        self.run_auto('Train=[SGD=[maxEpochs=1]]')
        first = self.run_auto('Train=[SGD=[maxEpochs=2]]')
        method, reason = self.choice(first.text)
        self.assertIn('as when this training began', reason)
        self.assertNotIn('timing', first.text)
        # The file tells it to the run after, too, on another number of ranks.
        self.assertEqual(self.choice(self.run_auto('Train=[SGD=[maxEpochs=3]]', ranks=3).text)[0], method)
        self.assertIn('timing', self.run_auto('makeMode=false').text)

    def test_what_check_and_one_rank_say(self):
        check = self.run_auto('--check').text
        self.assertRegex(check, r'(?m)^#   auto       DataParallelSGD in 32 bits, for this check; a run times DataParallelSGD in 32 bits, ASA of gradients in 32 bits')
        self.assertIn('parallelizationMethod = auto\n', check)
        one = self.run_auto(ranks=None)
        self.assertIn('as one rank exchanges nothing', self.choice(one.text)[1])
        # Not kept: more ranks may go on.
        self.assertIn('timing', self.run_auto('Train=[SGD=[maxEpochs=3]]').text)

    def test_bits_of_the_config_are_replaced(self):
        for own in ('exchangeBits = 16', 'gradientBits = 4 ; quantizer = original'):
            self.write('run.cntk', examples.config(hidden='20', minibatch=40, bits=32).replace('gradientBits = 32', own))
            for ranks in (None, 2):
                text = self.run_auto('--dry-run', ranks=ranks).text
                line = re.search(r'^#   auto .*$', text, re.MULTILINE).group(0)
                self.assertIn('DataParallelSGD in 32 bits', line)
                self.assertNotIn('not possible', line)

    def test_more_ranks_that_do_not_pay(self):
        """A network that one rank computes in no time."""
        self.write('small.cntk', examples.config(hidden='2', minibatch=2))
        text = self.run_trainer(['configFile=small.cntk', AUTO.format(''), '--dry-run'], 4).text
        self.assertRegex(text, r'4 ranks do not pay: one rank alone trains \d+ samples/s')

    def test_mistakes(self):
        config = examples.config().replace('parallelizationMethod = "DataParallelSGD"', 'parallelizationMethod = auto\n            autoAllow = 1bit:lokal')
        self.write('wrong.cntk', config)
        line = next(i for i, text in enumerate(config.splitlines(), 1) if 'lokal' in text)
        run = self.run_trainer(['configFile=wrong.cntk'], 2, expect=2)
        self.assertRegex(run.text, rf"wrong\.cntk:{line}:\d+: error: .*autoAllow has no word 'lokal'")
        self.assertIn("did you mean 'local'", run.text)
        text = self.run_auto(expect=2, allow=';groups="n:2"').text
        self.assertIn('parallelizationMethod = auto chooses among methods without groups', text)
        self.assertIn('autoAllow has no effect without', self.run_trainer(['configFile=run.cntk', '--check', 'Train=[SGD=[ParallelTrain=[autoAllow=1bit]]]'], 2).text)
        # A mistake elsewhere is reported as ever.
        self.assertIn("did you mean 'maxEpochs'", self.run_auto('Train=[SGD=[maxEpoch=1]]', expect=2).text)


if __name__ == '__main__':
    support.main()
