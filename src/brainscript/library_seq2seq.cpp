// SPDX-License-Identifier: Apache-2.0
// The part of the standard library for sequence-to-sequence models: BS.Seq2Seq. Attention is an additional input of
// the decoder's recurrence; the decoders are edits of a trained model, whose nodes z, inputSequence, labelSequence,
// decoderHistoryHook, ... they know by name.
#include "brainscript/library.h"

namespace tutti::brainscript {

extern constexpr std::string_view seq2seq_library = R"BS(
# ---- BS.Seq2Seq

_Seq2Seq = {
  # An augmentInputHook: a weighted average of the encoder's last attentionSpan outputs, for each step of the decoder. Values of the
  # window are [dim x 1 x attentionSpan]; beam search has its hypotheses on the axis in the middle.
  CreateAugmentWithFixedWindowAttentionHook (attentionDim, attentionSpan, decoderDynamicAxis, encoderOutput,
                                             enableSelfStabilization=false) = {
    S (x) = BS.Parameters.Stabilize (x, enabled=enableSelfStabilization)
    atEachStep (x) = BS.Sequences.BroadcastSequenceAs (decoderDynamicAxis, SplitDimension (x, 1, 1))
    window = BS.Sequences.PastValueWindow (attentionSpan, encoderOutput.h)
    encoder = {
      W = BS.Parameters.WeightParam (attentionDim, encoderOutput.dim)
      # A sequence can be shorter than the window: what is not there must not count for the stabilizer.
      projected = atEachStep (W * (if enableSelfStabilization then S (window.value .* window.valid) else window.value))
      value = atEachStep (window.value)
      valid = atEachStep (window.valid)
    }
    hook (input, prevState) = {
      W = BS.Parameters.WeightParam (attentionDim, prevState.dim)
      v = BS.Parameters.WeightParam (1, attentionDim)
      agreement = Tanh (encoder.projected + W * S (prevState.h))
      score = v * S (agreement .* encoder.valid) + Log (encoder.valid)
      weights = Softmax (score, axis=3)
      average = S (Times (encoder.value .* weights, BS.Constants.OnesTensor (attentionSpan), outputRank=2))
    }.average
  }.hook

  # The model as a decoder that feeds back its own best word. Outputs: decodeOut, inputsOut, labelsOut.
  GreedySequenceDecoderFrom (modelAsTrained) = {
    decodeOut = Pass (Hardmax (modelAsTrained.z), tag='output')
    inputsOut = Pass (modelAsTrained.inputSequence, tag='output')
    labelsOut = Pass (modelAsTrained.labelSequence, tag='output')
    model = BS.Network.Edit (modelAsTrained,
                             BS.Network.Editing.ReplaceLinksToNode (modelAsTrained.decoderHistoryHook, modelAsTrained.decoderHistoryFromOutput),
                             decodeOut : inputsOut : labelsOut)
  }.model

  # scores [V x D]: the D largest, one after the other, each as a 1 in a matrix of zeros; together [V x D x D].
  GetTopNTensor (D, scores) = {
    picked[n:0..D-1] = {
      left = if n == 0 then scores else picked[n-1].rest
      best = Hardmax (left)
      rest = left - 1e30 .* best
    }
    all = Splice (array[0..D-1] (n => picked[n].best), axis=3)
  }.all

  # The model as a decoder that follows the beamDepth best histories. State and history of the model get an axis of hypotheses; at each
  # step the D best of all continuations become the new ones, and the state is reordered accordingly through
  # beamSearchReorderHook. From the end of the sequence backwards the words on the path to the best one are read off.
  BeamSearchSequenceDecoderFrom (modelAsTrained, beamDepth) = {
    z = modelAsTrained.z
    start = modelAsTrained.labelSentenceStartEmbeddedScattered
    ones (n) = BS.Constants.OnesTensor (n)
    # [first other other ...] as a column, or as a row
    oneAndOthers (first, other) =
      if beamDepth == 1 then ConstantTensor {first, 1}
      else RowStack (ConstantTensor {first, 1} : ConstantTensor {other, beamDepth - 1})
    none = -1e30
    # z of one hypothesis at a time, whatever the rank of z
    column (d) = LogSoftmax (Slice (d, d + 1, z, axis=2))
    logProbabilities = if beamDepth == 1 then LogSoftmax (z) else Splice (array[0..beamDepth-1] (column), axis=2)
    # At the beginning there is one history; the others must not win.
    firstScores = Transpose (oneAndOthers (0, none))
    paths = logProbabilities + BS.Boolean.If (BS.Loop.IsFirst (start), firstScores, BS.Loop.Previous (score))
    best = GetTopNTensor (beamDepth, paths)                                                  # [V x from x to]
    vocabulary = z.dim
    from = Times (ones (vocabulary), best, outputRank=0)                                     # [from x to]
    word = Times (ones (beamDepth), TransposeDimensions (best, 1, 2), outputRank=0)          # [V x to]
    score = ones (1 : vocabulary : beamDepth) * (best .* paths)                              # [1 x to]
    # one-hot [to]: which hypothesis of each step is on the best path
    traceback = BS.Boolean.If (BS.Loop.IsLast (start), oneAndOthers (1, 0), BS.Loop.Next (from * traceback))
    onPath = Times (best, traceback, outputRank=2) * ones (beamDepth)                        # [V]
    decodeOut = Pass (onPath, tag='output')
    inputsOut = Pass (modelAsTrained.inputSequence, tag='output')
    labelsOut = Pass (modelAsTrained.labelSequence, tag='output')
    model = BS.Network.Edit (modelAsTrained,
                             BS.Network.Editing.ReplaceLinksToNode (modelAsTrained.beamSearchReorderHook, from) :
                             BS.Network.Editing.ReplaceLinksToNode (modelAsTrained.decoderHistoryHook, word),
                             inputsOut : labelsOut : decodeOut)
  }.model
}
)BS";

}  // namespace tutti::brainscript
