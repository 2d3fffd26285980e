# SPDX-License-Identifier: Apache-2.0
"""What a run says when it does not do what its user expects: one group, settings without effect, divergence, an exchange that costs
more than it gains, data that are damaged."""
import re

import examples
import support


class WarningsTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(200))

    def train(self, *options, ranks=None):
        return self.run_trainer(['configFile=run.cntk', 'makeMode=false', *options], ranks).text

    # --- groups
    def test_one_group_keeps_the_method(self):
        fixes = {'size:4': 'groups = n:2', 'byNode': 'start ranks on more nodes, or groups = n:2'}
        runs = [(groups, *method) for groups in fixes for method in (('EASGD', 'period=5'), ('BlockMomentumSGD', 'blockSize=60'))]
        names = [f'Run{i}' for i in range(len(runs))]
        self.write('each.cntk', support.copies_of_train(examples.config(), names))
        words = [f'{name}=[SGD=[ParallelTrain=[parallelizationMethod={method};{method}=[{block}];groups={groups}]]]'
                 for name, (groups, method, block) in zip(names, runs)]
        text = self.run_trainer(['--check', 'configFile=each.cntk', f'command={":".join(names)}', *words], 3).text
        for groups, method, _ in runs:
            with self.subTest(groups=groups, method=method):
                self.assertIn(f'groups = {groups} makes one group of all 3 ranks: {method} runs with one worker, the group, in which '
                              f'DataParallelSGD works. fix: {fixes[groups]} for two groups', text)
        for method in ('EASGD', 'Block'):
            self.assertEqual(len(re.findall(rf'exchange +1 group of 3 ranks: between them .*{method}', text)), len(fixes), text)
        text = self.train('Train=[SGD=[ParallelTrain=[parallelizationMethod=EASGD;groups=size:4]]]', ranks=3)
        self.assertEqual(text.count('makes one group'), 1, text)
        self.assertEqual([e['CrossEntropyWithSoftmax'][1] for e in support.epochs(text)], [200, 200])

    def test_two_groups_are_nothing_to_talk_about(self):
        text = self.train('Train=[SGD=[ParallelTrain=[parallelizationMethod=EASGD;groups=size:2]]]', '--check', ranks=3)
        self.assertNotIn('one group', text)

    # --- settings without effect
    def test_messages_without_checksums(self):
        def notes(settings, parallel, ranks=3):
            text = self.train(f'Train=[SGD=[{settings}ParallelTrain=[{parallel}]]]', '--check', ranks=ranks)
            return support.re.findall(r'messageChecksums (?:has|does) .*|faultHook: flipMessage has .*', text)

        method, flip = 'parallelizationMethod=DataParallelSGD', ';faultHook=[rank=1;flipMessage=true]'
        unflipped = 'faultHook: flipMessage has no effect: no message carries a checksum. fix: messageChecksums = all'
        for settings, parallel, expected in (
                ('messageChecksums=all;', method, []),
                ('messageChecksums=all;', f'{method}{flip}', []),
                ('messageChecksums=all;', f'{method};transport=messages', []),
                ('messageChecksums=all;', 'parallelizationMethod=DataParallelASGD', []),
                ('messageChecksums=all;', 'parallelizationMethod=DataParallelASGD;groups=n:2;insideGroups=[parallelizationMethod=DataParallelSGD]', []),
                ('messageChecksums=all;', 'parallelizationMethod=none', ['messageChecksums has no effect with parallelizationMethod = none']),
                ('messageChecksums=betweenHosts;', method, ['messageChecksums has no effect on one host']),
                ('messageChecksums=betweenHosts;', f'{method}{flip}', ['messageChecksums has no effect on one host', unflipped]),
                ('messageChecksums=all;', f'{method};transport=messages{flip}', []),
                ('', f'{method}{flip}', [unflipped]),
                ('', method, [])):
            with self.subTest(settings=settings, parallel=parallel):
                self.assertEqual(notes(settings, parallel), expected)
        self.assertEqual(notes('messageChecksums=all;', method, ranks=1), [])

    def test_weights_that_are_not_compared(self):
        for method, note in (('BlockMomentumSGD;BlockMomentumSGD=[blockSize=9]', 'compares the weights of the last exchange with BlockMomentumSGD'),
                             ('ASGD', 'has no effect with DataParallelASGD'), ('DataParallelSGD', None)):
            text = self.train(f'Train=[SGD=[verifyReplicas=2;ParallelTrain=[parallelizationMethod={method}]]]', '--check', ranks=2)
            self.assertEqual(support.re.findall('verifyReplicas (?:compares|has) .*?SGD', text)[:1],
                             [f'verifyReplicas {note}'] if note else [])

    def test_settings_inside_groups_without_effect(self):
        inside = 'insideGroups=[parallelizationMethod=DataParallelSGD;ModelAveragingSGD=[blockSize=5]]'
        text = self.train(f'Train=[SGD=[ParallelTrain=[parallelizationMethod=EASGD;groups=n:2;{inside}]]]', '--check', ranks=2)
        self.assertIn('insideGroups: the block ModelAveragingSGD has no effect with parallelizationMethod = DataParallelSGD', text)

    # --- criteria
    def train_network(self, definitions, *options, ranks=None):
        network = f'''BrainScriptNetworkBuilder = [ features = Input {{2}} ; labels = Input {{2}} ; {definitions}
        featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (c) ]
        '''
        self.write('run.cntk', examples.with_network(examples.config(), network))
        return self.train(*options, ranks=ranks)

    def test_criteria_that_are_no_sums_over_samples(self):
        for criterion in ('SumElements (z .* (SumElements (z .* z) .* 0.001))', 'SquareError (z, features .* (SumElements (z) .* 0.001))',
                          'ReduceSum (z .* (SumElements (z .* z) .* 0.001))'):
            with self.subTest(criterion=criterion):
                text = self.train_network(f'z = LinearLayer {{2}} (features) ; c = {criterion}', 'Train=[SGD=[maxEpochs=1;learningRatesPerMB=0]]', ranks=2)
                self.assertRegex(text, r"'c' \(\w+\) is not a sum over samples: each of the 2 ranks computes it from its share")
        text = self.train_network('z = LinearLayer {2} (features) ; c = SquareError (labels, z)', 'Train=[SGD=[maxEpochs=1]]', ranks=2)
        self.assertNotIn('not a sum over samples', text)

    def test_nothing_is_learned(self):
        warning = r"run\.cntk:\d+:\d+: warning: the training criterion 'c' depends on no trained parameter: nothing will be learned"
        for definitions in ('c = SquareError (labels, features)', 'W = ParameterTensor {(2:2), learningRateMultiplier=0} ; c = SquareError (labels, W * features)',
                            'W = ParameterTensor {(2:2)} ; y = W * features ; outputNodes = (y) ; c = SquareError (labels, features)'):
            with self.subTest(definitions=definitions):
                self.assertRegex(self.train_network(definitions, '--check'), warning)
        self.assertNotIn('nothing will be learned', self.train_network('c = SquareError (labels, LinearLayer {2} (features))', '--check'))

    # --- data, which are looked at before the log is open
    def test_damaged_data_in_the_log(self):
        self.write('train.ctf', examples.points(200).replace('\n', '\nnothing\n', 1))
        damaged, told = 'Train=[reader=[maxErrors=3]]', ': warning: expected'
        for words, ranks in (([], 2), (['--check'], 2), (['--check'], None)):
            with self.subTest(words=words, ranks=ranks):
                self.assertEqual(self.train(damaged, *words, ranks=ranks).count(f'train.ctf:2:1{told}'), 1)
        self.train(damaged, 'stderr=log', ranks=2)
        for log in ('log', 'log.rank1'):
            self.assertEqual((self.directory / log).read_text().count(f'train.ctf:2:1{told}'), 1, log)

    # --- divergence
    DIVERGED = 'is more than twice that of the best constant prediction'

    def test_divergence(self):
        for ranks in (None, 2):
            text = self.train('Train=[SGD=[learningRatesPerMB=500;maxEpochs=3]]', ranks=ranks)
            for epoch in (1, 2, 3):
                self.assertRegex(text, rf'Finished Epoch\[ {epoch} of 3\].*\n(?:.*\n)*?Warning: epoch {epoch}: CrossEntropyWithSoftmax = \S+ {self.DIVERGED}, '
                                 r'0\.\d+ \(the entropy of the labels\): the training has diverged\. fix: lower the learning rate')

    def test_what_learns_has_not_diverged(self):
        self.assertNotIn(self.DIVERGED, self.train('Train=[SGD=[maxEpochs=4]]'))

    def test_square_errors(self):
        self.write('run.cntk', examples.config().replace('"CrossEntropyWithSoftmax"', '"SquareError"').replace('"ClassificationError"', '"SquareError"'))
        text = self.train('Train=[SGD=[learningRatesPerMB=50]]')
        self.assertRegex(text, rf'{self.DIVERGED}, 0\.\d+ \(the variance of the labels\)')
        self.assertNotIn(self.DIVERGED, self.train('Train=[SGD=[learningRatesPerMB=0.01]]'))

    # --- exchange
    def test_exchange_that_costs_more_than_it_gains(self):
        """A network that computes next to nothing, in minibatches of a few samples, and a rank that keeps the other waiting."""
        text = self.train('Train=[SGD=[minibatchSize=4;ParallelTrain=[faultHook=[rank=1;sleep=0.01]]]]', ranks=2)
        found = support.re.findall(r'Warning: epoch (\d) took .*', text)
        self.assertEqual(found, ['1'], text)
        self.assertRegex(text, r'epoch 1 took \S+ s on 2 ranks; one rank alone would need about \S+ s \(2 times the \S+ s that this rank computed\)\. The exchange '
                         r'took \S+ s for \S+ MB sent by this rank \(\S+ MB/s\), after every 2 samples of a rank \(minibatchSize = 4\)\. fix: minibatchSize = \d+ or more')


if __name__ == '__main__':
    support.main()
