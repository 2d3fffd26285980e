# SPDX-License-Identifier: Apache-2.0
"""Nothing is trusted blindly: a bit that flips in the weights of a rank is found and named, or outvoted; a bit that flips in a message is
found at once. Runs without such a bit are not disturbed."""
import examples
import support
from preemption_test import METHODS

DIFFER, DAMAGED = 84, 87


class CorruptionTest(support.TrainerTest):
    def prepare(self, options, epochs=4):
        self.write('run.cntk', examples.config(hidden='32', minibatch=40, epochs=epochs))
        self.write('train.ctf', examples.points(2000))
        return ['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[numMBsToShowResult=0;{options}]]']

    def model(self):
        return (self.directory / 'models/model.dnn').read_bytes()

    def test_no_false_alarm(self):
        self.write('train.ctf', examples.points(2000))
        for ranks in sorted({ranks for ranks, *_ in METHODS.values()}):
            methods = {name: parallel for name, (of, parallel, _) in METHODS.items() if of == ranks}
            models = []
            for checks in ('', 'verifyReplicas=7;messageChecksums=all;'):
                within = {name: 'checkpointEverySamples=800;' if checks and 'blockSize' not in parallel and 'delayed' not in name else ''
                          for name, parallel in methods.items()}
                self.train_each(examples.config(hidden='32', minibatch=40, epochs=4), [
                    f'SGD=[numMBsToShowResult=0;{checks}{within[name]}ParallelTrain=[{parallel}]]' for name, parallel in methods.items()], ranks)
                models.append([(self.directory / f'models/Run{i}.dnn').read_bytes() for i in range(len(methods))])
            for (name, parallel), plain, checked in zip(methods.items(), *models):
                with self.subTest(method=name):
                    exact = 'ASGD' not in parallel and 'async' not in parallel
                    self.assertTrue(not exact or checked == plain, 'the checks changed the result')

    def test_running_statistics(self):
        """They belong to a rank and differ; the weights do not."""
        self.write('run.cntk', examples.normalized(examples.config(epochs=2)))
        self.write('train.ctf', examples.points(400))
        self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[verifyReplicas=1;numMBsToShowResult=0]]'], 2)

    def test_a_flipped_weight(self):
        for name in ('gradients', 'delayed'):
            _, parallel, _ = METHODS[name]
            for every in (1, 10):
                with self.subTest(method=name, every=every):
                    hook = 'faultHook=[rank=1;firstStep=33;steps=1;flipWeight=W0]'
                    result = self.run_trainer(self.prepare(f'verifyReplicas={every};ParallelTrain=[{parallel};{hook}]'), 3, expect=None)
                    self.assertEqual(result.code, DIFFER, str(result)[-3000:])
                    self.assertRegex(result.text, r"'W0' of rank 1 on \S+ differs from that of most ranks", str(result)[-3000:])
                    found = int(support.re.search(r'after (\d+) minibatches', result.text).group(1))
                    self.assertLessEqual(found - 33, every)

    def test_two_ranks(self):
        hook = 'faultHook=[rank=1;firstStep=33;steps=1;flipWeight=W1]'
        result = self.run_trainer(self.prepare(f'verifyReplicas=5;ParallelTrain=[parallelizationMethod=DataParallelSGD;{hook}]'), 2, expect=DIFFER)
        self.assertRegex(result.text, r"'W1' differs between rank 0 on \S+, rank 1 on \S+, and there is no majority")

    def test_the_majority(self):
        """Three ranks outvote one: with a comparison in every step the run ends as if the bit had not flipped."""
        method = 'parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]'
        self.run_trainer(self.prepare(f'ParallelTrain=[{method}]'), 3)
        expected = self.model()
        hook = 'faultHook=[rank=2;firstStep=33;steps=1;flipWeight=W0]'
        result = self.run_trainer(self.prepare(f'verifyReplicas=1;onDivergence=majority;ParallelTrain=[{method};{hook}]'), 3)
        self.assertRegex(result.text, r"Warning: epoch 1, after 34 minibatches: 'W0' of rank 2 on \S+ differs from that of most ranks: the weights of most")
        self.assertEqual(result.text.count('the weights of most ranks are taken'), 1)
        self.assertEqual(len(self.model()), len(expected))

    def test_a_damaged_message(self):
        for name, transport in (('gradients', ''), ('servers', ''), ('elastic', ''), ('averaging', 'transport=messages;')):
            with self.subTest(method=name):
                ranks, parallel, _ = METHODS[name]
                hook = 'faultHook=[rank=1;firstStep=33;steps=1;flipMessage=true]'
                result = self.run_trainer(self.prepare(f'messageChecksums=all;ParallelTrain=[{transport}{parallel};{hook}]', 1000), ranks, expect=DAMAGED)
                self.assertRegex(result.text, r'of \d+ bytes from rank \d on \S+ was damaged on its way: its checksum is wrong')

    def test_a_damaged_message_to_a_member_of_a_group(self):
        """Its reader waits for a work unit of the leader, which waits for this rank in the exchange."""
        hook = 'faultHook=[rank=1;firstStep=8;steps=1;flipMessage=true]'
        groups = 'parallelizationMethod=ASGD;groups=size:2;insideGroups=[parallelizationMethod=DataParallelSGD]'
        arguments = self.prepare(f'messageChecksums=all;stallTimeout=20;ParallelTrain=[{groups};{hook}]', 1000)
        self.run_trainer(arguments, 4, expect=DAMAGED)

    def test_a_flipped_weight_within_a_group(self):
        """It is that of one rank, and the group leader's are those that are exchanged and saved."""
        for between in ('BlockMomentumSGD;BlockMomentumSGD=[blockSize=600]', 'EASGD;EASGD=[period=100]', 'ASGD;DataParallelASGD=[syncPeriod=400]'):
            with self.subTest(between):
                groups = f'parallelizationMethod={between};groups=size:2;insideGroups=[parallelizationMethod=DataParallelSGD]'
                hook = 'faultHook=[rank=3;firstStep=5;steps=1;flipWeight=W0]'
                text = self.run_trainer(self.prepare(f'verifyReplicas=1;ParallelTrain=[{groups};{hook}]'), 4, expect=DIFFER).text
                self.assertRegex(text, r"'W0' differs between rank 2 on \S+, rank 3 on \S+, and there is no majority")
                self.assertNotIn('verifyReplicas has no effect', text)

    def test_the_majority_of_a_group(self):
        groups = 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=300];groups=size:3;' \
                 'insideGroups=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]]'
        hook = 'faultHook=[rank=4;firstStep=5;steps=1;flipWeight=W0]'
        result = self.run_trainer(self.prepare(f'verifyReplicas=1;onDivergence=majority;ParallelTrain=[{groups};{hook}]'), 6)
        self.assertRegex(result.text, r"'W0' of rank 4 on \S+ differs from that of most ranks: the weights of most ranks are taken")
        self.assertEqual(result.text.count('the weights of most ranks are taken'), 1)

    def test_mistakes(self):
        for options, expected in (('verifyReplicas=-1', 'cannot be negative'), ('onDivergence=majority', 'has no effect without verifyReplicas'),
                                  ('messageChecksums=some', 'some')):
            with self.subTest(options):
                result = self.run_trainer([*self.prepare(options), '--check'], expect=2)
                self.assertIn(expected, result.text)
                self.assertIn('fix: ', result.text)


if __name__ == '__main__':
    support.main()
