# SPDX-License-Identifier: Apache-2.0
"""Training from HDF5, speech and table files: the same numbers on one, two and three ranks, and with what maxErrors leaves."""
import pathlib
import shutil
import support

CASES = pathlib.Path(__file__).resolve().parent / 'broken'  # their sound halves, and their broken data
PARALLEL = 'Train=[SGD=[maxEpochs=3;ParallelTrain=[parallelizationMethod=DataParallelSGD]]]'


class DataReadersTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(CASES, self.directory, dirs_exist_ok=True)

    def train(self, config, samples, options=()):
        """The criterion of each epoch, the same for any number of ranks."""
        reference = None
        for ranks in (None, 2, 3):
            result = self.run_trainer([f'configFile={config}', 'makeMode=false', PARALLEL, *options], ranks)
            found = [e['CrossEntropyWithSoftmax'] for e in support.epochs(result.text)]
            self.assertEqual([count for _, count in found], [samples] * 3, str(result))
            reference = reference or found
            for (a, _), (b, _) in zip(reference, found):
                self.assertAlmostEqual(a, b, delta=1e-6)
        return [value for value, _ in reference]

    def test_hdf5(self):
        self.train('hdf5.cntk', 4)

    def test_hdf5_files_one_of_which_is_missing(self):
        config = (CASES / 'hdf5.cntk').read_text()
        self.write('run.cntk', config.replace('file = "data/good.h5"', 'fileList = "data/h5_list.txt" ; maxErrors = 1'))
        self.train('run.cntk', 4)

    def test_speech(self):
        self.train('speech.cntk', 5)

    def test_speech_without_an_utterance(self):
        self.train('speech.cntk', 3, ['Train=[reader=[features=[scpFile="data/speech_cut.scp"];maxErrors=1]]'])

    def test_table(self):
        self.train('table.cntk', 4)

    def test_table_without_a_line(self):
        self.train('table.cntk', 1, ['Train=[reader=[file="data/table_label.csv";maxErrors=1]]'])


if __name__ == '__main__':
    support.main()
