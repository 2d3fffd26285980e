# SPDX-License-Identifier: Apache-2.0
"""How runs under mpiexec end that go wrong: with the program's own words last, its exit code, and no text of the launcher."""
import time

import examples
import support


def last_line(result):
    """mpiexec may warn when a rank ends before it has read all of its standard input: that line is libevent's, not ours."""
    return [line for line in result.text.splitlines() if line.strip() and not line.startswith('[warn] Epoll ')][-1]


class EndingTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(64))

    def ends(self, arguments, ranks, code, last):
        """The last line of all output matches, and nobody has drawn a frame."""
        result = self.run_trainer(arguments, ranks, expect=code)
        self.assertRegex(last_line(result), last, str(result))
        self.assertNotRegex(result.text, r'(?m)^-{20,}$', str(result))
        for word in ('MPI_ABORT', 'prterun', 'Primary job', 'mpiexec detected'):
            self.assertNotIn(word, result.text)
        return result

    def test_mistakes_in_the_configuration(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.ends(['configFile=run.cntk', 'Train=[SGD=[maxEpoch=3]]'], ranks, 2, r"^fix: did you mean 'maxEpochs'\?")
        self.ends(['configFile=run.cntk', 'Train=[SGD=[maxEpochs=3'], 2, 2, r"^fix: the shell ends a command at ';'")
        self.ends(['configFile=absent.cntk'], 3, 2, '^fix: check the path')
        self.ends(['help=SGDD'], 2, 2, '^fix: did you mean help=SGD')

    def test_a_failure_of_all_ranks(self):
        """What no rank can go on from is said once, and without a rank's name."""
        self.run_trainer(['configFile=run.cntk'])
        for name in ('model.dnn', 'model.dnn.ckp'):  # as if the run had been stopped in its last epoch
            (self.directory / 'models' / name).unlink()
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                result = self.ends(['configFile=run.cntk', 'Train=[SimpleNetworkBuilder=[layerSizes=2:9:2]]'], ranks, 2, '^fix: ')
                self.assertEqual(result.text.count('cannot go on from an earlier one'), 1, str(result))

    def test_a_failure_of_one_rank(self):
        """One rank finds a message damaged, in the middle of a training. The other waits for it, and leaves without a word."""
        for rank in (0, 1):
            hook = f'ParallelTrain=[transport=messages;parallelizationMethod=DataParallelSGD;faultHook=[rank={rank};firstStep=5;steps=1;flipMessage=true]]'
            with self.subTest(rank=rank):
                result = self.ends(['configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[messageChecksums=all;{hook}]]'], 2, 87, 'checksum is wrong|^fix: ')
                self.assertRegex(result.text, rf'(?m)^\[rank {rank} on \S+\] .*damaged on its way')
                self.assertEqual(len(support.re.findall(r'(?m)^\[rank \d', result.text)), 1, str(result))

    def test_memory_for_copies_of_checkpoints(self):
        """The last checkpoint needs none, so a run of one epoch allocates none beforehand."""
        for epochs, more, copies in ((1, '', False), (2, '', True), (1, 'checkpointEverySamples=32', True)):
            for words in ([], ['--check']):
                with self.subTest(epochs=epochs, more=more, words=words):
                    result = self.run_trainer([*words, 'configFile=run.cntk', 'makeMode=false', f'Train=[SGD=[maxEpochs={epochs};{more}]]'])
                    self.assertEqual('for the copy' in result.text or 'Memory for the copy' in result.text, copies, str(result))

    def saved(self):
        """The bytes of all files beside the model."""
        return {p.name: p.read_bytes() for p in (self.directory / 'models').iterdir() if p.suffix != '.lock'}

    def test_an_earlier_run_that_does_not_fit(self):
        """A changed layer or optimizer: what differs, how to start anew, and the other way out, which works. Nothing of the earlier run
        changes before."""
        self.run_trainer(['configFile=run.cntk'])
        models = self.directory / 'models'
        before = self.saved()
        layers = ['configFile=run.cntk', 'Train=[SGD=[keepCheckpoints=1];SimpleNetworkBuilder=[layerSizes=2:9:2]]']
        longer = self.run_trainer([*layers, 'Train=[SGD=[maxEpochs=3]]'], expect=2).text
        self.assertIn("this run cannot go on from an earlier one: 'models/model.dnn' holds 'B0'", longer)
        self.assertEqual(self.saved() == before, True, 'files have changed')
        for name in ('model.dnn', 'model.dnn.ckp'):
            (models / name).unlink()
        before = self.saved()
        network = self.run_trainer(layers, expect=2).text
        self.assertEqual(self.saved() == before, True, 'files have changed')
        self.assertRegex(network, r"this run cannot go on from an earlier one: 'models/model\.dnn\.1' holds 'B0' as \[8 x 1\], the network has \[9 x 1\]")
        self.assertIn('fix: give the network the layers, sizes and constants that it had, and name the same criteria and evaluations; or makeMode = false', network)
        self.assertIn('another modelPath', network)
        adam = ['configFile=run.cntk', 'Train=[SGD=[gradUpdateType=adam]]']
        optimizer = self.run_trainer(adam, expect=2).text
        self.assertIn('gradUpdateType = none, this run has adam', optimizer)
        self.assertIn("or remove 'models/model.dnn.1.ckp' to go on from the last epoch's model with a fresh optimizer; or makeMode = false", optimizer)
        (models / 'model.dnn.1.ckp').unlink()
        text = self.run_trainer(adam).text
        self.assertIn('Parameter-learning state (such as momentum) will be reset', text)
        self.assertEqual([e['epoch'] for e in support.epochs(text)], [2])
        self.run_trainer(['configFile=run.cntk', 'makeMode=false', 'Train=[SimpleNetworkBuilder=[layerSizes=2:9:2]]'])

    def test_another_exchange_that_does_not_fit(self):
        """Other terms of the same method: a mistake in the configuration, which all ranks end with."""
        def blocks(terms):
            return f'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=40;{terms}]'
        outer = [blocks('resetSGDMomentum=false')] + [blocks(f'outerOptimizer={name}') for name in ('nesterov', 'adam', 'sgd')]
        asa = [f'parallelizationMethod=ASA;ASA=[exchange={what}]' for what in ('weights', 'gradients')]
        models = self.directory / 'models'
        for earlier, *others in (outer, outer[1:], outer[2:], [blocks('fragments=4;overlap=1'), blocks('resetSGDMomentum=false')], asa):
            self.run_trainer(['configFile=run.cntk', f'Train=[SGD=[metrics=[jsonl=models/records];ParallelTrain=[{earlier}]]]'], 2)
            before = self.saved()
            for other in others:
                with self.subTest(earlier=earlier, other=other):
                    result = self.ends(['configFile=run.cntk', f'Train=[SGD=[maxEpochs=3;metrics=[jsonl=models/records];ParallelTrain=[{other}]]]'], 2, 2, '^fix: set ParallelTrain as it was')
                    self.assertEqual(result.text.count('cannot go on from an earlier one: ParallelTrain does not fit the checkpoint: '), 1, str(result))
                    self.assertEqual(self.saved() == before, True, 'files have changed')
            for path in models.iterdir():
                path.unlink()

    def test_checkpoints_that_fail(self):
        """Rank 0 cannot write while the others compute: a warning for each checkpoint, and after the third all ranks end together."""
        self.write('slow.cntk', examples.config(epochs=100000))
        slow = 'Train=[SGD=[numMBsToShowResult=0;ParallelTrain=[faultHook=[rank=0;sleep=0.01]]]]'
        run = self.start_trainer(['configFile=slow.cntk', slow], 2)
        models = self.directory / 'models'
        while run.running() and not (models / 'model.dnn.1').exists():
            time.sleep(0.01)
        models.rename(self.directory / 'gone')
        self.write('models', 'a file')
        result = run.wait()
        self.assertEqual(result.code, 86, str(result))
        self.assertEqual(result.text.count('Not a directory'), 3, str(result))
        self.assertRegex(last_line(result), '^fix: free space', str(result))
        self.assertNotRegex(result.text, r'(?m)^-{20,}$', str(result))


if __name__ == '__main__':
    support.main()
