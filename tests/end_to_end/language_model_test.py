# SPDX-License-Identifier: Apache-2.0
"""Language models and word labels of SimpleNetworkBuilder: the loss falls, ranks agree, a resumed run ends in the same file, and what is written."""
import random
import re
import shutil

import support

WORDS, CLASSES = 40, 6
SIZES = f'{WORDS}:8:10:{WORDS}'
CONFIG = '''
command = Train
precision = "float" ; modelPath = "model.dnn" ; deviceId = -1
recurrentLayer = 1 ; rnnType = @type@
Train = [
    action = "train"
    SimpleNetworkBuilder = [
        trainingCriterion = "ClassCrossEntropyWithSoftmax" ; evalCriterion = "classcrossentropywithsoftmax"
        initValueScale = 6 ; layerSizes = @sizes@ ; lookupTableOrder = @order@ ; vocabSize = 40 ; nbrClass = 6
    ]
    SGD = [ minibatchSize = 64 ; learningRatesPerSample = 0.05 ; momentumPerMB = 0 ; maxEpochs = 4
            clippingThresholdPerSample = 15 ]
    reader = [
        readerType = "LMSequenceReader" ; file = "train.txt" ; wordclass = "vocab.txt" ; nbruttsineachrecurrentiter = 0
        features = [ dim = 0 ]
        labelIn = [ labelDim = 40 ; labelType = "Category" ; beginSequence = "</s>" ; endSequence = "</s>" ]
        labels = [ labelDim = 40 ; labelType = "NextWord" ]
    ]
]
Write = [
    action = "write" ; outputPath = "out" ; outputNodeNames = TrainNodeClassBasedCrossEntropy ; minibatchSize = 1000
    reader = [
        readerType = "LMSequenceReader" ; file = "train.txt" ; wordclass = "vocab.txt" ; nbruttsineachrecurrentiter = 1
        features = [ dim = 0 ]
        labelIn = [ labelDim = 40 ; labelType = "Category" ]
        labels = [ labelDim = 40 ; labelType = "NextWord" ]
    ]
]
'''
TAGGED = '''
command = Train
precision = "float" ; modelPath = "tags.dnn" ; deviceId = -1
Train = [
    action = "train"
    SimpleNetworkBuilder = [
        trainingCriterion = "CrossEntropyWithSoftmax" ; evalCriterion = "ClassificationError" ; sparseinput = true
        initValueScale = 6 ; layerSizes = 80:8:10:3 ; lookupTableOrder = 2 ; rnnType = LSTM
    ]
    SGD = [ minibatchSize = 64 ; learningRatesPerSample = 0.1 ; momentumPerMB = 0 ; maxEpochs = 5 ]
    reader = [
        readerType = "LUSequenceReader" ; file = "tagged.txt" ; wordContext = 0:1 ; nbruttsineachrecurrentiter = 0
        features = [ dim = 0 ]
        labelIn = [ token = "words.txt" ]
        labels = [ token = "tags.txt" ]
    ]
]
'''


def make_sentences(count):
    """The next word is one of three: there is something to learn."""
    draw = random.Random(3)
    sentences = []
    for _ in range(count):
        words = [draw.randrange(WORDS - 2)]
        for _ in range(draw.randrange(3, 12)):
            words.append((words[-1] * 7 + draw.choice((1, 2, 3))) % (WORDS - 2))
        sentences.append([f'w{w}' for w in words])
    return sentences


class LanguageModelTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.sentences = make_sentences(150)
        names = ['</s>', '<unk>'] + [f'w{i}' for i in range(WORDS - 2)]
        self.write('train.txt', ''.join(f'</s> {" ".join(s)} </s>\n' for s in self.sentences))
        self.write('vocab.txt', ''.join(f'{i}\t1\t{w}\t{i * CLASSES // WORDS}\n' for i, w in enumerate(names)))
        self.write('words.txt', ''.join(w + '\n' for w in names))

    def configure(self, kind, sizes=f'{WORDS}:10:{WORDS}', order=0):
        text = CONFIG.replace('@type@', kind).replace('@sizes@', sizes).replace('@order@', str(order))
        self.write('run.cntk', text)

    def test_a_text_that_is_elsewhere(self):
        """--check says what is missing and checks the rest; a run does not start."""
        self.configure('CLASSLM')
        absent = ['configFile=run.cntk', 'Train=[reader=[file=elsewhere/train.txt]]']
        text = self.run_trainer([*absent, '--check']).text
        self.assertRegex(text, r"note: the data file 'elsewhere/train.txt' cannot be read: No such file")
        self.assertIn('fix: its contents are not checked, and a run would stop here', text)
        self.assertIn('Checked: the configuration is fine', text)
        self.assertIn("has no 'minibachSize'", self.run_trainer([*absent, 'Train=[SGD=[minibachSize=3]]', '--check'], expect=2).text)
        self.assertIn("error: the data file 'elsewhere/train.txt' cannot be read", self.run_trainer(absent, expect=2).text)
        words = 'Words=[action=writeWordAndClass;inputFile=elsewhere.txt;outputVocabFile=v.txt;vocabSize=9;beginSequence=a;endSequence=b]'
        text = self.run_trainer([words, 'command=Words', '--check']).text
        self.assertRegex(text, r"note: the data file 'elsewhere.txt' cannot be read")
        self.assertIn("error: the data file 'elsewhere.txt' cannot be read", self.run_trainer([words, 'command=Words'], expect=2).text)

    def losses(self, words, ranks=None, criterion='TrainNodeClassBasedCrossEntropy'):
        result = self.run_trainer(['configFile=run.cntk', *words], ranks)
        return [e[criterion][0] for e in support.epochs(result.text)]

    def train_on_ranks(self, criterion='TrainNodeClassBasedCrossEntropy', falls=0.9):
        """The loss falls, and two ranks find the same."""
        one = self.losses([], criterion=criterion)
        self.assertLess(one[-1], falls * one[0])
        two = self.losses(['makeMode=false', 'Train=[SGD=[ParallelTrain=[parallelizationMethod=DataParallelSGD]]]'], 2,
                          criterion)
        for a, b in zip(one, two):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_words_in_classes(self):
        self.configure('CLASSLM')
        self.train_on_ranks()

    def test_lstm_with_a_lookup_table(self):
        self.configure('CLASSLSTM', SIZES, 1)
        self.train_on_ranks(falls=0.98)  # four epochs are not many for an LSTM

    def test_tagged_words(self):
        self.write('tags.txt', 'EVEN\nODD\nO\n')
        tag = lambda w: 'O' if len(w) < 3 else ('EVEN', 'ODD')[int(w[1:]) % 2]
        self.write('tagged.txt', '\n'.join(''.join(f'{w} {tag(w)}\n' for w in s) for s in self.sentences))
        self.write('run.cntk', TAGGED)
        self.train_on_ranks('CrossEntropyWithSoftmax')

    def test_resumed_run_ends_in_the_same_file(self):
        self.configure('CLASSLSTM', SIZES, 1)
        self.losses(['Train=[SGD=[keepCheckPointFiles=true]]'])
        for name in ('model.dnn.2', 'model.dnn.2.ckp'):
            shutil.copy(self.directory / name, self.directory / name.replace('model', 'other'))
        self.assertEqual(len(self.losses(['modelPath="other.dnn"', 'Train=[SGD=[keepCheckPointFiles=true]]'])), 2)
        self.assertEqual((self.directory / 'other.dnn').read_bytes(), (self.directory / 'model.dnn').read_bytes())

    def test_one_value_per_sentence_is_written(self):
        self.configure('CLASSLM')
        loss = self.losses([])[-1]
        self.run_trainer(['configFile=run.cntk', 'command=Write'])
        values = [float(v) for v in re.findall(r'\S+', (self.directory / 'out.TrainNodeClassBasedCrossEntropy').read_text())]
        self.assertEqual(len(values), len(self.sentences))
        words = sum(len(s) + 1 for s in self.sentences)
        self.assertLess(sum(values) / words, loss)  # the model at the end of the epoch knows more than on the way

    def test_words_that_the_network_does_not_know(self):
        self.configure('CLASSLM')
        result = self.run_trainer(['configFile=run.cntk', 'Train=[SimpleNetworkBuilder=[vocabSize=39;layerSizes=39:10:39]]'], expect=None)
        self.assertIn('features', result.text)


if __name__ == '__main__':
    support.main()
