# SPDX-License-Identifier: Apache-2.0
"""DataParallelASGD over MPI: every policy ends and uses every sample once, synchronous ones have the numbers of simpler methods, staleness
and dropped samples are told, and ranks that do not suffice are refused."""
import itertools
import re

import examples
import support

STALENESS = re.compile(r'Staleness in epoch (\d+): mean (\S+), max (\d+); (\d+) pushes: (.*)')
DROPPED = re.compile(r'Dropped in epoch (\d+): (\d+) samples')


class ServersTest(support.TrainerTest):
    def train(self, ranks, parallel, samples=50, expect=0):
        self.write('train.ctf', examples.points(samples))
        self.write('run.cntk', examples.config(minibatch=12, epochs=2, bits=32))
        return self.run_trainer(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[ParallelTrain=[{parallel}]]]'], ranks, expect=expect)

    def servers(self, ranks, settings, samples=50):
        result = self.train(ranks, f'parallelizationMethod=asgd;DataParallelASGD=[{settings}]', samples)
        found = support.epochs(result.text)
        self.assertEqual([e['epoch'] for e in found], [1, 2], str(result))
        return found, result.text

    def every_sample_once(self, ranks, methods):
        """One start that trains with each method on 2 samples and on 50: every epoch has all of them. Returns what it said."""
        runs = list(itertools.product(methods, (2, 50)))
        for samples in (2, 50):
            self.write(f'points{samples}.ctf', examples.points(samples))
        said, text = self.train_each(examples.config(minibatch=12, epochs=2, bits=32),
                                     [f'SGD=[ParallelTrain=[{method}]];reader=[file=points{samples}.ctf]' for method, samples in runs], ranks)
        for (method, samples), part in zip(runs, said):
            with self.subTest(ranks=ranks, method=method, samples=samples):
                found = support.epochs(part)
                self.assertEqual([(e['epoch'], e['CrossEntropyWithSoftmax'][1], e['totalSamplesSeen']) for e in found],
                                 [(1, samples, samples), (2, samples, 2 * samples)], text)
        return text

    def numbers(self, epochs):
        return [(e['CrossEntropyWithSoftmax'], e['EvalClassificationError']) for e in epochs]

    def test_every_policy_uses_every_sample(self):
        self.every_sample_once(3, [f'parallelizationMethod=asgd;DataParallelASGD=[{settings}]' for settings in (
            'syncPeriod=4', 'syncPeriod=4;usePipeline=true', 'push=gradients', 'push=gradients;policy=mixed', 'policy=sync;syncPeriod=4',
            'maxStaleness=1;syncPeriod=4', 'SimModelAverage=true', 'servers=1', 'servers=2;push=gradients;exchangeBits=1')])

    def test_synchronous_gradients_have_the_numbers_of_DataParallelSGD(self):
        expected = self.numbers(support.epochs(self.train(2, 'parallelizationMethod=DataParallelSGD').text))
        self.assertEqual(self.numbers(self.servers(2, 'policy=sync;push=gradients')[0]), expected)
        self.assertEqual(self.numbers(self.servers(3, 'policy=sync;push=gradients;servers=1')[0]), expected)

    def test_groups_push_as_one_worker_each(self):
        for ranks, groups in ((4, 'size:2'), (3, 'n:2')):
            expected = self.numbers(support.epochs(self.train(ranks, 'parallelizationMethod=DataParallelSGD').text))
            waiting = self.train(ranks, f'parallelizationMethod=asgd;DataParallelASGD=[policy=sync;push=gradients];groups={groups}')
            for a, b in zip(expected, self.numbers(support.epochs(waiting.text))):
                self.assertAlmostEqual(a[0][0], b[0][0], delta=1e-6)
                self.assertEqual(a[1], b[1])
            methods = [f'{method};groups={groups};insideGroups=[parallelizationMethod=DataParallelSGD]' for method in (
                'parallelizationMethod=asgd;DataParallelASGD=[syncPeriod=4]', 'parallelizationMethod=asgd;DataParallelASGD=[push=gradients]',
                'parallelizationMethod=EASGD;EASGD=[policy=async;period=2]')]
            text = self.every_sample_once(ranks, methods)
            self.assertEqual(len(re.findall(r'(?m)^  exchange .*2 groups of ', text)), 2 * len(methods), text)

    def test_one_worker_has_the_numbers_of_training_alone(self):
        expected = self.numbers(support.epochs(self.train(1, 'parallelizationMethod=none').text))
        for ranks, settings in ((1, 'syncPeriod=12'), (2, 'servers=1;syncPeriod=12')):  # a rank on shared cores has fewer threads
            for a, b in zip(expected, self.numbers(self.servers(ranks, settings)[0])):
                self.assertAlmostEqual(a[0][0], b[0][0], delta=1e-6)
                self.assertEqual(a[1], b[1])

    def test_staleness_keeps_its_bound(self):
        self.write('train.ctf', examples.points(50))
        bounds = (0, 1, 3)
        said, text = self.train_each(examples.config(minibatch=12, epochs=2, bits=32), [
            f'SGD=[ParallelTrain=[parallelizationMethod=asgd;DataParallelASGD=[maxStaleness={bound};push=gradients]]]' for bound in bounds], 3)
        for bound, part in zip(bounds, said):
            self.assertEqual([e['epoch'] for e in support.epochs(part)], [1, 2], text)
            lines = STALENESS.findall(part)
            self.assertEqual(len(lines), 2, text)
            for _, _, largest, pushes, counts in lines:
                self.assertLessEqual(int(largest), bound)
                self.assertEqual(sum(int(c.split(': ')[1]) for c in counts.split(', ')), int(pushes))

    def test_backup_workers_go_on_without_the_slowest(self):
        result = self.train(3, 'parallelizationMethod=asgd;faultHook=[rank=2;sleep=0.1];DataParallelASGD=[policy=sync;push=gradients;backupWorkers=1]')
        found, dropped = support.epochs(result.text), DROPPED.findall(result.text)
        self.assertEqual(len(dropped), 2, str(result))
        for epoch, (_, samples) in zip(found, dropped):
            self.assertEqual(epoch['CrossEntropyWithSoftmax'][1] + int(samples), 50, epoch['line'])
            self.assertGreaterEqual(int(samples), 12)
        self.assertNotIn('damaged', result.text)

    def test_masters_of_groups_are_workers_of_a_super_master(self):
        inside = ('DataParallelASGD=[syncPeriod=4]', 'DataParallelASGD=[push=gradients]', 'DataParallelASGD=[push=gradients;servers=1]',
                  'DataParallelASGD=[push=gradients;policy=sync]', 'EASGD=[policy=async;period=2]')
        between = ('parallelizationMethod=asgd;DataParallelASGD=[syncPeriod=8]', 'parallelizationMethod=EASGD;EASGD=[policy=async;period=2]')
        methods = [f'{method};groups=size:2;insideGroups=[parallelizationMethod={block.split("=")[0]};{block}]'
                   for method, block in itertools.product(between, inside)]
        text = self.every_sample_once(4, methods)
        self.assertEqual(len(re.findall(r'(?m)^  exchange .*2 groups of 2 ranks', text)), 2 * len(methods), text)

    def test_backup_workers_within_groups(self):
        result = self.train(6, 'parallelizationMethod=asgd;faultHook=[rank=5;sleep=0.1];DataParallelASGD=[syncPeriod=8];groups=n:2;'
                            'insideGroups=[parallelizationMethod=asgd;DataParallelASGD=[policy=sync;push=gradients;backupWorkers=1]]')
        found = support.epochs(result.text)
        self.assertEqual([e['epoch'] for e in found], [1, 2], str(result))
        for number, epoch in enumerate(found, 1):
            self.assertLessEqual(epoch['CrossEntropyWithSoftmax'][1], 50, epoch['line'])
            self.assertGreater(epoch['CrossEntropyWithSoftmax'][1], 0, epoch['line'])

    def test_ranks_that_do_not_suffice(self):
        result = self.train(2, 'parallelizationMethod=asgd;DataParallelASGD=[servers=2]', expect=None)
        self.assertIn('servers = 2 leaves no worker among 2 ranks', result.text)


if __name__ == '__main__':
    support.main()
