# SPDX-License-Identifier: Apache-2.0
"""Training from HDF5, speech and table files: the same numbers on one, two and three ranks, and with what maxErrors leaves."""
import math
import pathlib
import shutil
import struct
import support

CASES = pathlib.Path(__file__).resolve().parent / 'broken'  # their sound halves, and their broken data
PARALLEL = 'Train=[SGD=[maxEpochs=3;ParallelTrain=[parallelizationMethod=DataParallelSGD]]]'

LONG = '''
command = Train
modelPath = "models/long.dnn"
Train = [
    action = "train"
    SimpleNetworkBuilder = [ layerSizes = 2:3:2 ; trainingCriterion = "CrossEntropyWithSoftmax" ; evalCriterion = "ClassificationError" ]
    SGD = [ epochSize = 8 ; minibatchSize = 8 ; learningRatesPerSample = 0.02 ; maxEpochs = 4 ; autoAdjust = [ $adjust$ ] ]
    reader = [
        readerType = "CNTKTextFormatReader" ; file = "long.ctf"
        input = [ features = [ dim = 2 ; format = "dense" ] ; labels = [ dim = 2 ; format = "dense" ] ]
    ]
]
'''


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

    def test_delimiters_within_quotes(self):
        """The reader does not support them, so `trainer new` writes no config for them."""
        for rows, found in (('"a, b",1,u\n' * 9, 't.csv:1: error: a field begins with a quote and does not end with one'),
                            ('a,1,u\n"a, b",1,v\n', 't.csv:2: error: 4 columns with commas between them, and the first line has 3')):
            self.write('t.csv', rows)
            text = self.run_trainer(['new', 'table', 't.csv', '--label', '2'], expect=2).text
            self.assertIn(found, text)
            self.assertIn('fix: delimiters within quotes are not supported', text)

    def test_damaged_utterances_are_counted_in_every_action(self):
        config = (CASES / 'speech.cntk').read_text().replace('command   = Train', 'command = Train:Test:Compare')
        reader = config[config.index('reader = ['):config.rindex(']')].replace('readerType', 'maxErrors = 1 ; readerType')
        self.write('run.cntk', config + f'Test = [ action = "test" ; {reader} ]\nCompare = [ action = "cv" ; {reader} ]\n'
                   + f'Write = [ action = "write" ; outputPath = "out" ; {reader} ]\n')
        frames = struct.pack('>4f', 1, 2, math.nan, 4)
        (self.directory / 'data/b.mfc').write_bytes(struct.pack('>iihh', 2, 100000, 8, 9) + frames)
        for ranks in (None, 2):
            text = self.run_trainer(['configFile=run.cntk', 'makeMode=false', 'Train=[reader=[maxErrors=1]]'], ranks).text
            self.assertIn('2 of 5 samples were skipped in epoch 1: their data are damaged', text)
            self.assertIn('2 of 5 samples were skipped: their data are damaged', text)
            self.assertEqual({count for _, count in support.final_results(text).values()}, {3})
        text = self.run_trainer(['configFile=run.cntk', 'command=Compare']).text
        self.assertIn('2 of 5 samples were skipped: their data are damaged', text)
        text = self.run_trainer(['configFile=run.cntk', 'command=Write']).text
        self.assertIn('2 of 5 samples were not written: their data are damaged', text)

    def test_an_epoch_without_a_sequence(self):
        """A sequence of 20 samples and epochs of 8: epochs 2 and 4 have none, and count neither for the learning rate nor for patience."""
        self.write('long.cntk', LONG)
        self.write('long.ctf', ''.join(f'0 |features {i % 3} 1 |labels {int(i % 3 == 0)} {int(i % 3 > 0)}\n' for i in range(20)))
        for adjust in ('autoAdjustLR=adjustAfterEpoch;reduceLearnRateIfImproveLessThan=0;loadBestModel=true',
                       'autoAdjustLR=adjustAfterEpoch;reduceLearnRateIfImproveLessThan=0;loadBestModel=false',
                       'autoAdjustLR=searchBeforeEpoch'):
            for ranks in (None, 2):
                options = ['configFile=long.cntk', f'adjust={adjust}', 'makeMode=false'] + ([PARALLEL] if ranks else [])
                text = self.run_trainer([*options, 'Train=[SGD=[maxEpochs=4;patience=1]]'], ranks).text
                found = support.epochs(text)
                self.assertEqual([e['CrossEntropyWithSoftmax'][1] for e in found], [20, 0, 20, 0], text)
                rates = [e['learningRatePerSample'] for e in found]
                self.assertEqual((rates[1], rates[3]), (rates[0], rates[2]))
                for epoch in (2, 4):
                    self.assertIn(f'epoch {epoch} had no samples', text)
                self.assertIn('fix: a larger epochSize', text)


if __name__ == '__main__':
    support.main()
