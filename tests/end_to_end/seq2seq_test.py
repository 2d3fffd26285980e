# SPDX-License-Identifier: Apache-2.0
"""Sequence to sequence: an encoder, a decoder with attention that is trained on its data, and decoders made of the trained model. A beam
that holds every history finds the best one of all, a beam of one is the greedy decoder."""
import itertools
import math
import random

import support

WORDS = 4       # the last two begin and end a sequence
BEGIN, END = 2, 3

CONFIG = '''
command = Train
makeMode = false
modelPath = "$OutputDir$/s2s.dnn"
stderr = "$OutputDir$/s2s.log"
data = "train.ctf"
streams = [ source = [ dim = 4; format = "sparse" ]; target = [ dim = 4; format = "sparse" ] ]
Train = {
  action = "train"
  BrainScriptNetworkBuilder = (new ComputationNetwork {
    sourceAxis = DynamicAxis()
    source = Input (4, dynamicAxis=sourceAxis); target = Input (4, tag='label')
    inputSequence = Pass (source)
    labelSequence = Pass (Slice (1, 0, target, axis=-1))
    labelSentenceStart = Pass (BS.Sequences.First (target))
    isFirst = BS.Loop.IsFirst (labelSequence)
    labelSentenceStartEmbeddedScattered = BS.Sequences.Scatter (isFirst, labelSentenceStart)
    S (x) = BS.Parameters.Stabilize (x, enabled=true)
    encoder = BS.RNNs.RecurrentLSTMPStack (40, cellDims=40, S (inputSequence), previousHook=BS.RNNs.NextHC,
                                           enableSelfStabilization=true)
    beamSearchReorderHook = Pass (BS.Constants.OnesTensor (1:1))
    reordered (lstmState, layerIndex=0) = {
      h = BS.Loop.Previous (lstmState.h * beamSearchReorderHook)
      c = BS.Loop.Previous (lstmState.c * beamSearchReorderHook)
      dim = lstmState.dim
    }
    decoderHistoryFromOutput = Pass (Hardmax (z))
    decoderHistoryHook = Pass (labelSequence)
    attention = BS.Seq2Seq.CreateAugmentWithFixedWindowAttentionHook (20, 5, labelSequence, encoder[0], enableSelfStabilization=true)
    decoderInput = Pass (BS.Boolean.If (isFirst, labelSentenceStartEmbeddedScattered, BS.Loop.Previous (decoderHistoryHook)))
    decoder = BS.RNNs.RecurrentLSTMPStack (40, cellDims=40, S (decoderInput), previousHook=reordered, augmentInputHook=attention,
                                           augmentInputDim=40, enableSelfStabilization=true)
    z = BS.Parameters.WeightParam (4, 40) * S (decoder[0].h) + BS.Parameters.BiasParam (4)
    ce = Pass (ReduceLogSum (z) - TransposeTimes (labelSequence, z), tag='criterion')
    errs = Pass (BS.Constants.One - TransposeTimes (labelSequence, Hardmax (z)), tag='evaluation')
  })
  SGD = { maxEpochs = $Epochs$; minibatchSize = 40; learningRatesPerSample = 0.02; momentumAsTimeConstant = 100; gradUpdateType = FSAdaGrad
          numMBsToShowResult = 0 }
  reader = { readerType = "CNTKTextFormatReader"; file = "$OutputDir$/$data$"; randomize = true; input = $streams$ }
}
Decode = {
  action = "write"
  BrainScriptNetworkBuilder = (
    if $Beam$ == 0 then BS.Seq2Seq.GreedySequenceDecoderFrom (BS.Network.Load ("$modelPath$"))
    else BS.Seq2Seq.BeamSearchSequenceDecoderFrom (BS.Network.Load ("$modelPath$"), $Beam$))
  outputPath = "$OutputDir$/decoded"
  format = { type = "category"; sequenceEpilogue = "#\\n" }
  minibatchSize = 64
  reader = { readerType = "CNTKTextFormatReader"; file = "$OutputDir$/$data$"; randomize = false; input = $streams$ }
}
Score = [
  action = "write"; outputNodeNames = ce; outputPath = "$OutputDir$/scores"; minibatchSize = 64; format = [ sequenceEpilogue = "#\\n" ]
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/$data$"; randomize = false; input = $streams$ ]
]
'''


def write_pairs(path, pairs):
    with open(path, 'w', encoding='utf-8') as out:
        for i, (source, target) in enumerate(pairs):
            for s, t in itertools.zip_longest([BEGIN, *source, END], [BEGIN, *target]):
                out.write(f'{i}' + (f' |source {s}:1' if s is not None else '') + (f' |target {t}:1' if t is not None else '') + '\n')


class Seq2SeqTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        (self.directory / 'net.cntk').write_text(CONFIG, encoding='utf-8')
        draw = random.Random(5)
        self.pairs = []
        for _ in range(60):
            source = [draw.randrange(2) for _ in range(draw.randint(1, 3))]
            self.pairs.append((source, [1 - c for c in source] + [END]))
        write_pairs(self.directory / 'train.ctf', self.pairs)

    def run_net(self, *options, ranks=1):
        self.run_trainer([f'configFile={self.directory}/net.cntk', f'OutputDir={self.directory}', 'Beam=0', 'Epochs=16', *options], ranks)
        return (self.directory / 's2s.log').read_text(encoding='utf-8')

    def sequences(self, name):
        text = (self.directory / name).read_text(encoding='utf-8')
        return [part.split() for part in text.split('#') if part.strip()]

    def decoded(self, beam, data='train.ctf'):
        self.run_net('command=Decode', f'Beam={beam}', f'data={data}')
        return [[int(w) for w in s] for s in self.sequences('decoded.decodeOut')]

    def test_decoders_of_a_trained_model(self):
        epochs = support.epochs(self.run_net())
        self.assertLess(epochs[-1]['ce'][0], 0.6 * epochs[0]['ce'][0], 'it learns')
        greedy = self.decoded(0)
        self.assertEqual([len(t) for _, t in self.pairs], [len(d) for d in greedy])
        right = sum(a == b for d, (_, t) in zip(greedy, self.pairs) for a, b in zip(d, t))
        self.assertGreater(right, 0.7 * sum(map(len, greedy)))
        self.assertEqual(greedy, self.decoded(1))

        # Every sequence of two words for three sources: as many as a beam of 16 holds in the last step.
        sources = [[0, 1], [1], [1, 1, 0]]
        everything = list(itertools.product(range(WORDS), repeat=2))
        write_pairs(self.directory / 'all.ctf', [(s, t) for s in sources for t in everything])
        self.run_net('command=Score', 'data=all.ctf')
        costs = [sum(map(float, s)) for s in self.sequences('scores.ce')]
        write_pairs(self.directory / 'few.ctf', [(s, everything[0]) for s in sources])
        self.assertEqual(3 * len(everything), len(costs))
        for beam in (16, 5):
            for i, found in enumerate(self.decoded(beam, 'few.ctf')):
                mine = costs[i * len(everything):(i + 1) * len(everything)]
                total = sum(math.exp(-c) for c in mine)
                self.assertAlmostEqual(total, 1, delta=1e-4, msg='the costs are those of all there is')
                self.assertAlmostEqual(min(mine), mine[everything.index(tuple(found))], delta=1e-5)

    def test_two_ranks_learn_what_one_does(self):
        one = support.epochs(self.run_net('Epochs=2'))
        two = support.epochs(self.run_net('Epochs=2', ranks=2))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a['ce'][0], b['ce'][0], delta=1e-4)


if __name__ == '__main__':
    support.main()
