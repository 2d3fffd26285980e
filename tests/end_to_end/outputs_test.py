# SPDX-License-Identifier: Apache-2.0
"""What actions make of models and texts: HTK files of utterances, factored matrices, vocabularies with word classes."""
import random
import struct

import examples
import support

SPEECH = '''
command = Train:Write
traceLevel = 1
modelPath = "net.dnn"
Train = [
    action = "train"
    SimpleNetworkBuilder = [ layerSizes = 6:5:3 ; trainingCriterion = "CrossEntropyWithSoftmax" ; evalCriterion = "ClassificationError"
                             applyMeanVarNorm = true ; needPrior = true ]
    SGD = [ minibatchSize = 8 ; learningRatesPerMB = 0.1 ; maxEpochs = 2 ]
    reader = [
        readerType = "HTKMLFReader"
        features = [ dim = 6 ; scpFile = "in.scp" ]
        labels = [ mlfFile = "labels.mlf" ; labelDim = 3 ; labelMappingFile = "states.txt" ]
    ]
]
Write = [
    action = "write"
    minibatchSize = 16
    outputNodeNames = ScaledLogLikelihood:PosteriorProb
    reader = [ readerType = "HTKMLFReader" ; features = [ dim = 6 ; scpFile = "in.scp" ; type = Real ] ]
    writer = [
        wrecords = 50000
        writerType = HTKMLFWriter
        ScaledLogLikelihood = [ dim = 3 ; scpFile = "out.scp" ; type = Real ]
        PosteriorProb = [ dim = 3 ; scpFile = "posterior.scp" ]
    ]
]
Text = [
    action = "write"
    outputPath = "text"
    outputNodeNames = ScaledLogLikelihood
    reader = [ readerType = "HTKMLFReader" ; features = [ dim = 6 ; scpFile = "in.scp" ] ]
]
'''


def htk(frames):
    """The bytes of a feature file."""
    return struct.pack('>iihh', len(frames), 100000, 4 * len(frames[0]), 9) + b''.join(struct.pack(f'>{len(f)}f', *f) for f in frames)


def read_htk(path):
    data = path.read_bytes()
    frames, period, size, kind = struct.unpack('>iihh', data[:12])
    values = struct.unpack(f'>{frames * size // 4}f', data[12:])
    return period, kind, [list(values[i * size // 4:(i + 1) * size // 4]) for i in range(frames)]


class OutputsTest(support.TrainerTest):
    def make_speech(self):
        rng = random.Random(3)
        self.write('run.cntk', SPEECH)
        self.write('states.txt', 'a\nb\nc\n')
        mlf = ['#!MLF!#']
        self.lengths = [5, 11, 1, 7]
        for u, length in enumerate(self.lengths):
            (self.directory / f'u{u}.fea').write_bytes(htk([[rng.gauss(0, 1) for _ in range(6)] for _ in range(length)]))
            mlf += [f'"u{u}.lab"'] + [f'{t * 100000} {(t + 1) * 100000} {"abc"[rng.randrange(3)]}' for t in range(length)] + ['.']
        self.write('labels.mlf', '\n'.join(mlf) + '\n')
        self.write('in.scp', ''.join(f'u{u}.fea\n' for u in range(4)))
        self.write('out.scp', ''.join(f'out/deep/u{u}.lik\n' for u in range(4)))
        self.write('posterior.scp', '\ufeff' + ''.join(f'out/u{u}.post\r\n' for u in range(4)))  # as editors of Windows write it

    def test_utterances_become_files(self):
        self.make_speech()
        text = self.run_trainer(['configFile=run.cntk', 'command=Train:Write:Text']).text
        self.assertIn("'wrecords' in the writer block has no effect", text)
        rows = [[float(v) for v in line.split()] for line in (self.directory / 'text.ScaledLogLikelihood').read_text().splitlines() if line.strip()]
        at = 0
        for u, length in enumerate(self.lengths):
            period, kind, frames = read_htk(self.directory / f'out/deep/u{u}.lik')
            self.assertEqual((period, kind, len(frames)), (100000, 9, length))
            for frame in frames:
                for a, b in zip(frame, rows[at]):
                    self.assertAlmostEqual(a, b, delta=1e-6)
                at += 1
            for frame in read_htk(self.directory / f'out/u{u}.post')[2]:
                self.assertAlmostEqual(sum(frame), 1, delta=1e-5)
        self.assertEqual(at, len(rows))
        # What was written can be read again.
        self.write('again.scp', ''.join(f'u{u}.x=out/deep/u{u}.lik\n' for u in range(4)))
        again = self.run_trainer(['configFile=run.cntk', 'command=Train', 'modelPath=again.dnn', 'Train=[SimpleNetworkBuilder=[layerSizes=3:5:3]]',
                                  'Train=[reader=[features=[dim=3;scpFile=again.scp]]]'])
        self.assertEqual([e['CrossEntropyWithSoftmax'][1] for e in support.epochs(again.text)], [sum(self.lengths)] * 2)

    def test_mistakes_of_writers(self):
        self.make_speech()
        self.run_trainer(['configFile=run.cntk', 'command=Train'])
        for options, words in (
                (['Write=[writer=[writerType=LMSequenceWriter]]'], "there is no writer 'LMSequenceWriter'"),
                (['Write=[outputNodeNames=HLast]'], "the writer has no block for the node 'HLast'"),
                (['Write=[writer=[PosteriorProb=[dim=9000]]]'], 'a frame of 9000 numbers does not fit into an HTK file'),
                (['Write=[writer=[PosteriorProb=[scpFile=none.scp]]]'], "the file 'none.scp' cannot be read: No such file"),
                (['Write=[reader=[maxErrors=1]]'], 'with maxErrors utterances may be skipped'),
                (['Write=[reader=[features=[scpFile=longer.scp]]]'], "'out.scp' lists 4 files, but the reader has 5 utterances")):
            self.write('longer.scp', ''.join(f'{u}=u{u % 4}.fea[0,0]\n' for u in range(5)))
            self.assertIn(words, self.run_trainer(['configFile=run.cntk', 'command=Write', *options], expect=2).text)
        self.assertIn("has 3 values per frame, its writer says dim = 4",
                      self.run_trainer(['configFile=run.cntk', 'command=Write', 'Write=[writer=[PosteriorProb=[dim=4]]]'], expect=None).text)

    def test_lists_that_would_overwrite_files(self):
        self.make_speech()
        self.run_trainer(['configFile=run.cntk', 'command=Train'])
        plain = 'reader = [ readerType = "HTKMLFReader" ; features = [ dim = 6 ; scpFile = "in.scp" ; type = Real ] ]'
        composite = ('reader = [ readerType = "CompositeDataReader" ; deserializers = ([ type = "HTKFeatureDeserializer" ; maxErrors = $errors$'
                     ' ; input = [ features = [ dim = 6 ; scpFile = "in.scp" ] ] ]) ]')
        self.assertIn(plain, SPEECH)
        self.write('composite.cntk', 'errors = 0\n' + SPEECH.replace(plain, composite))
        before = {u: (self.directory / f'u{u}.fea').read_bytes() for u in range(4)}
        (self.directory / 'link.fea').symlink_to('u1.fea')
        for paths, words in (
                (['a', 'b', './a', 'c'], "'posterior.scp' lists the file './a', which is listed already"),
                (['a', 'b', 'c', 'out/deep/../deep/u0.lik'], "which is listed already"),  # by the other node
                (['a', 'u0.fea', 'b', 'c'], "'posterior.scp' lists the file 'u0.fea', which the reader reads"),
                (['a', 'b', 'c', 'link.fea'], "'posterior.scp' lists the file 'link.fea', which the reader reads"),
                (['a', 'b', 'c', 'in.scp'], "'posterior.scp' lists the file 'in.scp', which the reader reads"),
                (['a', 'b', 'c', 'posterior.scp'], "'posterior.scp' lists the file 'posterior.scp', itself a list of outputs"),
                (['a', './out.scp', 'b', 'c'], "'posterior.scp' lists the file './out.scp', itself a list of outputs")):
            self.write('posterior.scp', ''.join(f'{p}\n' for p in paths))
            for config in ('run.cntk', 'composite.cntk'):
                text = self.run_trainer([f'configFile={config}', 'command=Write'], expect=2).text
                self.assertIn(words, text)
                self.assertIn('fix: each utterance of each node needs an output file of its own', text)
        self.assertEqual(before, {u: (self.directory / f'u{u}.fea').read_bytes() for u in range(4)})
        self.write('posterior.scp', 'a\nb\nc\nd\n')
        self.run_trainer(['configFile=composite.cntk', 'command=Write'])
        self.assertIn('with maxErrors utterances may be skipped',
                      self.run_trainer(['configFile=composite.cntk', 'command=Write', 'errors=3'], expect=2).text)

    def test_factored_matrices(self):
        self.write('run.cntk', examples.config(epochs=3).replace('2:8:2', '2:24:16:2') + '''
Factor = [ action = "SVD" ; modelPath = "models/model.dnn" ; outputmodelPath = "$out$" ; KeepRatio = $keep$ ; AlignedSize = 4 ; NodeNameRegex = "W[0-9]" ]
Dump = [ action = "dumpNode" ; modelPath = "$out$" ; outputFile = "dump.txt" ; printValues = false ]
out = "svd/net.dnn.0"
keep = 1
''')
        self.write('train.ctf', examples.points(200))
        self.write('test.ctf', examples.points(60, seed=2))
        self.run_trainer(['configFile=run.cntk', 'command=Train', 'Train=[SimpleNetworkBuilder=[layerSizes=2:24:16:2]]'])
        before = support.final_results(self.run_trainer(['configFile=run.cntk', 'command=Test']).text)
        text = self.run_trainer(['configFile=run.cntk', 'command=Factor:Dump']).text
        self.assertIn("SVD of 'W1' [16 x 24]: 16 of 16 singular values", text)
        nodes = (self.directory / 'dump.txt').read_text()
        self.assertIn('W1-U=LearnableParameter [16,16]', nodes)
        self.assertIn('W1-V=LearnableParameter [16,24]', nodes)
        self.assertIn('W1*H1=Times ( W1-U , W1-SVD )', nodes)
        self.assertNotIn('\nW1=', nodes)
        after = support.final_results(self.run_trainer(['configFile=run.cntk', 'command=Test', 'modelPath=svd/net.dnn.0']).text)
        for name, (value, count) in before.items():
            self.assertAlmostEqual(after[name][0], value, delta=1e-5)
            self.assertEqual(after[name][1], count)
        smaller = self.run_trainer(['configFile=run.cntk', 'command=Factor', 'keep=0.3', 'out=small.dnn']).text
        self.assertRegex(smaller, r"SVD of 'W1' \[16 x 24\]: (4|8) of 16 singular values")
        # The training of that path goes on from there.
        text = self.run_trainer(['configFile=run.cntk', 'command=Train', 'modelPath=svd/net.dnn']).text
        self.assertIn("the network is that of 'svd/net.dnn.0'", text)
        self.assertEqual(len(support.epochs(text)), 3)

    def test_tensors_that_are_not_factored_are_named(self):
        self.write('run.cntk', '''
command = Make:Factor
Make = [ action = "edit" ; outputModelPath = "net.dnn" ; BrainScriptNetworkBuilder = {
    x = Input {6} ; V = ParameterTensor {4:5:6} ; W = ParameterTensor {7:6}
    y = Times (V, x, outputRank=2) ; z = W * x ; outputNodes = (y : z) } ]
Factor = [ action = "SVD" ; modelPath = "net.dnn" ; outputModelPath = "small.dnn" ; nodeNameRegex = "[VW]" ; alignedSize = 1 ]
''')
        text = self.run_trainer(['configFile=run.cntk']).text
        self.assertIn("SVD leaves 'V' [4 x 5 x 6] as it is", text)
        self.assertIn("SVD of 'W' [7 x 6]", text)

    def test_mistakes_of_factoring(self):
        self.write('run.cntk', examples.config(epochs=1) + '''
Factor = [ action = "SVD" ; modelPath = "models/model.dnn" ; outputModelPath = "out.dnn" ; SVDConfig = "rules.txt" ]
''')
        self.write('train.ctf', examples.points(40))
        self.run_trainer(['configFile=run.cntk', 'command=Train'])
        for rules, words in (('W0 2\n', "line 1 of 'rules.txt' is not a rule: 'W0 2'"), ('Q.* 0.5\n', "no matrix of 'models/model.dnn' matches 'Q.*'"),
                             ('W[ 0.5\n', "'W[' is not a regular expression")):
            self.write('rules.txt', rules)
            self.assertIn(words, self.run_trainer(['configFile=run.cntk', 'command=Factor'], expect=2).text)
        self.assertIn('give exactly one of nodeNameRegex and SVDConfig', self.run_trainer(['configFile=run.cntk', 'command=Factor', 'Factor=[nodeNameRegex=W0]'], expect=2).text)
        self.write('rules.txt', 'W0 1.0\n\nW[1-9]\t0.5\n')
        self.assertEqual(self.run_trainer(['configFile=run.cntk', 'command=Factor']).text.count('SVD of '), 2)

    def test_words_and_classes(self):
        rng = random.Random(1)
        text = '\n'.join(' '.join(f'w{int(rng.paretovariate(0.7))}' for _ in range(12)) for _ in range(200)) + '\n'
        self.write('text.txt', text)
        self.write('words.cntk', '''
command = Words
Words = [
    action = "writeWordAndClass"
    inputFile = "text.txt"
    beginSequence = "</s>" ; endSequence = "</s>"
    outputVocabFile = "made/vocab.txt" ; outputWord2Cls = "made/word2cls.txt" ; outputCls2Index = "made/cls2idx.txt" ; outputMappingFile = "made/words.txt"
    vocabSize = 40 ; nbrClass = 5 ; cutoff = 0 ; printValues = true
]
''')
        self.run_trainer(['configFile=words.cntk'])
        rows = [line.split() for line in (self.directory / 'made/vocab.txt').read_text().splitlines()]
        self.assertEqual([int(r[0]) for r in rows], list(range(40)))
        counts = {}
        for line in text.splitlines():
            for word in line.split() + ['</s>']:
                counts[word] = counts.get(word, 0) + 1
        known = {r[2]: float(r[1]) for r in rows}
        self.assertEqual(sum(known.values()), sum(counts.values()))
        for word, count in known.items():
            if word != '<unk>':
                self.assertEqual(count, counts[word])
        self.assertEqual([r[2] for r in rows], (self.directory / 'made/words.txt').read_text().split())
        classes = [int(c) for c in (self.directory / 'made/word2cls.txt').read_text().split()]
        self.assertEqual(classes, [int(r[3]) for r in rows])
        self.assertEqual(classes, sorted(classes))
        for c, first in enumerate(int(i) for i in (self.directory / 'made/cls2idx.txt').read_text().split()):
            if c in classes:
                self.assertEqual(first, classes.index(c))
        self.assertIn('All output files up to date.', self.run_trainer(['configFile=words.cntk', 'traceLevel=1']).text)
        self.assertIn("the data file 'none.txt' cannot be read", self.run_trainer(['configFile=words.cntk', 'Words=[inputFile=none.txt]'], expect=2).text)
        self.assertIn('classes need outputWord2Cls', self.run_trainer(['configFile=words.cntk', 'Words=[outputWord2Cls=""]'], expect=2).text)

    def test_names_of_classes(self):
        """A reader and what is written number the names of one file alike."""
        self.write('run.cntk', '''
command = Make:Write
modelPath = "net.dnn"
Make = [ action = "edit" ; outputModelPath = "net.dnn" ; BrainScriptNetworkBuilder = [ y = Input(3) ; z = y * Constant(1) ; outputNodes = (z) ] ]
Write = [
    action = "write" ; outputPath = "out"
    format = [ type = "category" ; labelMappingFile = "names.txt" ]
    reader = [ readerType = "UCIFastReader" ; file = "table.txt" ; y = [ start = 0 ; labelDim = 3 ; labelMappingFile = "$names$" ] ]
]
names = "names.txt"
''')
        self.write('table.txt', 'dog\nbird\ncat\n')
        self.write('names.txt', 'cat \ndog\r\n\tbird\n\n')
        self.run_trainer(['configFile=run.cntk'])
        self.assertEqual((self.directory / 'out.z').read_text(), 'dog\nbird\ncat\n')
        self.write('good.txt', 'cat\ndog\nbird\n')
        self.write('names.txt', 'cat\n\ndog\nbird\n')
        for names in ('names.txt', 'good.txt'):  # of the reader and the writer, and of the writer alone
            text = self.run_trainer(['configFile=run.cntk', 'command=Write', f'names={names}'], expect=None).text
            self.assertIn('names.txt:2:1: error: an empty line among the names of classes', text)

    def test_a_network_without_outputs(self):
        """Refused before the data are read: the reader's file is complete, and nothing is written."""
        self.write('run.cntk', '''
command = Write
Write = [
    action = "write" ; outputPath = "out"
    BrainScriptNetworkBuilder = [ y = Input(1) ; c = SumElements (y * Constant(1)) ; criterionNodes = (c) ]
    reader = [ readerType = "UCIFastReader" ; file = "table.txt" ; y = [ start = 0 ; dim = 1 ] ]
]
''')
        self.write('table.txt', '1\n2\n')
        text = self.run_trainer(['configFile=run.cntk'], expect=2).text
        self.assertIn('has no output nodes', text)
        self.assertIn('fix: set outputNodeNames', text)
        self.assertEqual(list(self.directory.glob('out*')), [])

    def test_a_reader_waits_for_a_file_of_the_same_run(self):
        self.make_speech()
        self.write('text.txt', 'a b c d a b c a b a\n')
        words = ('Words=[action=writeWordAndClass;inputFile=text.txt;beginSequence=x;endSequence=c;vocabSize=9;cutoff=0;outputVocabFile=made/v.txt;'
                 'outputMappingFile=made/states.txt]')
        options = ['configFile=run.cntk', words, 'command=Words:Train', 'Train=[SimpleNetworkBuilder=[layerSizes=6:5:4]]',
                   'Train=[reader=[labels=[labelDim=4;labelMappingFile=made/states.txt]]]']
        self.assertIn("begins     with 'made/states.txt', which this run makes first", self.run_trainer([*options, '--check']).text)
        for ranks in (None, 2):
            text = self.run_trainer([*options, f'modelPath=later{ranks}.dnn', 'Words=[makeMode=false]'], ranks).text
            self.assertEqual([e['CrossEntropyWithSoftmax'][1] for e in support.epochs(text)], [sum(self.lengths)] * 2)
        self.assertEqual((self.directory / 'made/states.txt').read_text(), 'a\nb\nc\n<unk>\n')


if __name__ == '__main__':
    support.main()
