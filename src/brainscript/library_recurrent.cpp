// SPDX-License-Identifier: Apache-2.0
// The part of the standard library that works in time: delays, dynamic axes, BS.Sequences,
// BS.Loop, BS.RNNs and the recurrent layers. A delay is made before its input is evaluated, so definitions may refer to
// each other through it.
#include <string_view>

namespace tutti::brainscript {

extern constexpr std::string_view recurrent_library = R"BS(
# ---- time and dynamic axes

PastValue (dims, input, timeStep=1, initialState=None, defaultHiddenActivation=0.1, tag='') =  ## the value timeStep steps earlier in the sequence
  new ComputationNode { inputs = if _IsNone (initialState) then input else input : initialState }
FutureValue (dims, input, timeStep=1, initialState=None, defaultHiddenActivation=0.1, tag='') =  ## the value timeStep steps later in the sequence
  new ComputationNode { inputs = if _IsNone (initialState) then input else input : initialState }
Delay = PastValue
Shift (input, fromOffset, boundaryValue, boundaryMode=-1, dim=-1, tag='') =  ## the value at another step of the sequence, boundaryValue beyond its ends
  if dim != -1 then Fail ("Shift works along the time axis only: dim = -1")
  else if fromOffset < 0 then PastValue (0, input, timeStep=-fromOffset, initialState=boundaryValue, tag=tag)
  else if fromOffset > 0 then FutureValue (0, input, timeStep=fromOffset, initialState=boundaryValue, tag=tag)
  else input
TimeReverse (vectorSequence, tag='') = new ComputationNode { inputs = vectorSequence }  ## the sequence backwards
Where (cond, tag='') = new ComputationNode { inputs = cond }  ## indices of the steps at which the condition is not 0, on a new axis
PackedIndex (nodeWithLayoutToPackFor, indexSequence, tag='') =  ## indices into the steps that a condition has chosen
  new ComputationNode { inputs = nodeWithLayoutToPackFor : indexSequence }
GatherPacked (indexSequence, sourceData, tag='') =  ## the chosen steps of a sequence
  new ComputationNode { inputs = indexSequence : sourceData }
ScatterPacked (cond, indexSequence, sourceData, tag='') =  ## puts steps back into a sequence, zeros elsewhere
  new ComputationNode { inputs = cond : indexSequence : sourceData }
ReconcileDynamicAxis (dataInput, layoutInput, tag='') =  ## a value on the sequence axis of another one
  new ComputationNode { inputs = dataInput : layoutInput }
ReconcileMBLayout = ReconcileDynamicAxis
CastAs (type, data, tag='') = ReconcileDynamicAxis (data, type, tag=tag)  ## data on the sequence axis of type
_ZeroSequence (x) = new ComputationNode { operation = 'ZeroSequence'; inputs = x }

DelayLayer {T=1, defaultHiddenActivation=0} =  ## the value T steps earlier, or later where T is negative
  if T > 0 then (x => PastValue (0, x, timeStep=T, defaultHiddenActivation=defaultHiddenActivation))
  else if T < 0 then (x => FutureValue (0, x, timeStep=-T, defaultHiddenActivation=defaultHiddenActivation))
  else (x => x)

# ---- recurrent layers

# The parameters of an LSTM and one step of it; a record, so that layers get at the parameters.
_LSTMCell (outputDim, cellShape=None, usePeepholes=false, init='glorotUniform', initValueScale=1,
           enableSelfStabilization=false) = {
  cellDim = if _IsNone (cellShape) then outputDim else cellShape
  projects = outputDim != cellDim
  B = ParameterTensor {4 * cellDim, init='fixedValue', value=0}
  W = ParameterTensor {4 * cellDim : Inferred, init=init, initValueScale=initValueScale}
  A = ParameterTensor {4 * cellDim : Inferred, init=init, initValueScale=initValueScale}
  H = ParameterTensor {4 * cellDim : outputDim, init=init, initValueScale=initValueScale}
  Ci = ParameterTensor {cellDim, init=init, initValueScale=initValueScale}
  Cf = ParameterTensor {cellDim, init=init, initValueScale=initValueScale}
  Co = ParameterTensor {cellDim, init=init, initValueScale=initValueScale}
  Wmr = ParameterTensor {outputDim : cellDim, init=init, initValueScale=initValueScale}
  Sdh = if enableSelfStabilization then StabilizerLayer {} else (x => x)
  Sdc = if enableSelfStabilization then StabilizerLayer {} else (x => x)
  Sct = if enableSelfStabilization then StabilizerLayer {} else (x => x)
  Sht = if enableSelfStabilization then StabilizerLayer {} else (x => x)
  fromInput (x) = B + W * x
  apply (x, prevState, aux=None) = {
    _ = {
      dcs = Sdc (prevState.c)
      proj4 = if _IsNone (aux) then fromInput (x) + H * Sdh (prevState.h)
              else fromInput (x) + H * Sdh (prevState.h) + A * aux
      gate (k) = Slice (k * cellDim, (k + 1) * cellDim, proj4)
      peep (q, c, C) = if usePeepholes then q + C .* c else q
      it = Sigmoid (peep (gate (0), dcs, Ci))
      bit = it .* Tanh (gate (1))
      ft = Sigmoid (peep (gate (2), dcs, Cf))
      ct = ft .* prevState.c + bit
      ot = Sigmoid (peep (gate (3), Sct (ct), Co))
      ht = ot .* Tanh (ct)
    }
    c = _.ct
    h = if projects then Wmr * Sht (_.ht) else _.ht
    dim = outputDim
  }
}

_TrainedState {shape, cellShape} = {
  h = ParameterTensor {shape, init='fixedValue', value=0}
  c = ParameterTensor {cellShape, init='fixedValue', value=0}
}

RecurrentLSTMLayer {outputDim, cellShape=None, goBackwards=false, usePeepholes=false, trainInitialState=false,
                    init='glorotUniform', initValueScale=1, enableSelfStabilization=false, allowOptimizedEngine=false} = {  ## a layer of LSTM cells over the sequence
  initial = if trainInitialState then _TrainedState {outputDim, if _IsNone (cellShape) then outputDim else cellShape} else None
  lstm = _LSTMCell (outputDim, cellShape=cellShape, usePeepholes=usePeepholes, init=init, initValueScale=initValueScale,
                    enableSelfStabilization=enableSelfStabilization)
  fusible = !usePeepholes && !enableSelfStabilization && !lstm.projects
  fused (x) = new ComputationNode {
    operation = 'LSTM'
    inputs = if trainInitialState then lstm.fromInput (x) : lstm.H : initial.h : initial.c
             else lstm.fromInput (x) : lstm.H
    backwards = goBackwards
  }
  stepwise (x) = {
    prevState = if goBackwards then BS.RNNs.NextHC (lstmState, initialState=initial)
                else BS.RNNs.PreviousHC (lstmState, initialState=initial)
    lstmState = lstm.apply (x, prevState)
    h = lstmState.h
  }.h
  apply (x) = if fusible then fused (x) else stepwise (x)
}.apply

RecurrentLSTMLayerStack {layerDims, cellShapes=None, usePeepholes=false, init='glorotUniform', initValueScale=1,
                         enableSelfStabilization=false, allowOptimizedEngine=false} = {  ## several layers of LSTM cells
  dims = if IsArray (layerDims) then layerDims else [| layerDims |]
  cells = if _IsNone (cellShapes) || IsArray (cellShapes) then cellShapes else [| cellShapes |]
  layers = array[0..Length (dims)-1] (i =>
    RecurrentLSTMLayer {dims[i], cellShape=(if _IsNone (cells) then None else cells[i]), usePeepholes=usePeepholes,
                        init=init, initValueScale=initValueScale, enableSelfStabilization=enableSelfStabilization})
  upTo (last, x) = if last < 0 then x else layers[last] (upTo (last - 1, x))
  apply (x) = upTo (Length (dims) - 1, x)
}.apply

# ---- BS.Sequences, BS.Loop

_Sequences = {
  First (x) = Slice (0, 1, x, axis=-1)
  Last (x) = Slice (-1, 0, x, axis=-1)
  Gather (cond, x) = GatherPacked (PackedIndex (x, Where (cond)), x)
  Scatter (cond, y) = ScatterPacked (cond, PackedIndex (cond, Where (cond)), y)
  Map (lambda, x) = lambda (x)
  FoldL (binaryOp, x0, x) = {
    acc = binaryOp (x, PastValue (0, acc, initialState=x0))
    out = Last (acc)
  }.out
  FoldR (binaryOp, x0, x) = {
    acc = binaryOp (x, FutureValue (0, acc, initialState=x0))
    out = First (acc)
  }.out
  BroadcastSequenceAs (type, data1) = new ComputationNode { inputs = type : data1 }
  PastValueWindow (N, in, axis=2) = {
    ones = _ZeroSequence (in) + 1
    index = PackedIndex (in, Where (_Loop.IsLast (in)))
    delayed (t, x) =
      GatherPacked (index, if t == 0 then x else PastValue (0, x, timeStep=t, defaultHiddenActivation=0))
    stacked (x) = {
      pieces = Splice (array[0..N-1] (t => delayed (t, x)))
      split = SplitDimension (pieces, 1, N)
      result = if axis == 2 then split
               else if axis > 2 then TransposeDimensions (NewReshape (split, Repeat (axis - 2, 1), beginAxis=3, endAxis=3), 2, axis)
               else Fail ("PastValueWindow stacks along axis 2 or a later one")
    }.result
    value = stacked (in)
    valid = stacked (ones)
  }
}

_Loop = {
  Iteration (x) = {
    counter = _ZeroSequence (x) + 1 + PastValue (1, counter, defaultHiddenActivation=0)
  }.counter
  Count (x) = _Sequences.Last (Iteration (x))
  IsFirst (x) = IsFirstN (1, x)
  IsLast (x) = IsLastN (1, x)
  IsFirstN (N, x) = PastValue (1, _ZeroSequence (x), timeStep=N, defaultHiddenActivation=1)
  IsLastN (N, x) = FutureValue (1, _ZeroSequence (x), timeStep=N, defaultHiddenActivation=1)
  Previous (x, initialState=None) = PastValue (0, x, initialState=initialState)
  Next (x, initialState=None) = FutureValue (0, x, initialState=initialState)
  PreviousOrDefault (x, defaultValue=0) = PastValue (0, x, initialState=defaultValue)
  NextOrDefault (x, defaultValue=0) = FutureValue (0, x, initialState=defaultValue)
}

# ---- BS.RNNs

_RNNs = {
  LSTMBlock (outputDim, cellShape=None, usePeepholes=false, init='glorotUniform', initValueScale=1,
             enableSelfStabilization=false) =
    _LSTMCell (outputDim, cellShape=cellShape, usePeepholes=usePeepholes, init=init, initValueScale=initValueScale,
               enableSelfStabilization=enableSelfStabilization).apply

  PreviousHC (lstmState, initialState=None, layerIndex=0) = _Neighbour (PastValue, lstmState, initialState)
  NextHC (lstmState, initialState=None, layerIndex=0) = _Neighbour (FutureValue, lstmState, initialState)
  _Neighbour (delay, lstmState, initialState) = {
    h = delay (0, lstmState.h, initialState=if _IsNone (initialState) then None else initialState.h)
    c = delay (0, lstmState.c, initialState=if _IsNone (initialState) then None else initialState.c)
    dim = lstmState.dim
  }
  PreviousHCWithTrainedInitialState {shape=0, cellShape=None} = {
    state = _TrainedState {shape, if _IsNone (cellShape) then shape else cellShape}
    apply (x, layerIndex=0) = PreviousHC (x, initialState=state)
  }.apply
  NextHCWithTrainedInitialState {shape=0, cellShape=None} = {
    state = _TrainedState {shape, if _IsNone (cellShape) then shape else cellShape}
    apply (x, layerIndex=0) = NextHC (x, initialState=state)
  }.apply
  NoAuxInputHook (input, lstmState) = None

  # The original writes optional arguments between the others; by name they may still stand there in a call.
  # One step with a matrix of its own for each gate; all weights have seed 1.
  LSTMP (outputDim, x, prevState, cellDim=None, aux=None, auxDim=0, enableSelfStabilization=false, inputDim=0) = {
    cells = if _IsNone (cellDim) then outputDim else cellDim
    S (x) = BS.Parameters.Stabilize (x, enabled=enableSelfStabilization)
    _ = {
      B () = BS.Parameters.BiasParam (cells)
      W () = BS.Parameters.WeightParam (cells, 0)
      A () = BS.Parameters.WeightParam (cells, auxDim)
      H () = BS.Parameters.WeightParam (cells, outputDim)
      C () = BS.Parameters.DiagWeightParam (cells)
      dhs = S (prevState.h)
      dcs = S (prevState.c)
      pin () = if _IsNone (aux) then B () + W () * x else B () + W () * x + A () * aux
      it = Sigmoid (pin () + H () * dhs + C () .* dcs)
      bit = it .* Tanh (pin () + H () * dhs)
      ft = Sigmoid (pin () + H () * dhs + C () .* dcs)
      ct = ft .* prevState.c + bit
      ot = Sigmoid (pin () + H () * dhs + C () .* S (ct))
      ht = ot .* Tanh (ct)
    }
    Wmr = BS.Parameters.WeightParam (outputDim, cells)
    c = _.ct
    h = if outputDim != cells then Wmr * S (_.ht) else _.ht
    dim = outputDim
  }
  GRU (outputDim, x, prevState, cellDim=None, inputDim=0, aux=None, auxDim=0, enableSelfStabilization=false) = {
    S (x) = BS.Parameters.Stabilize (x, enabled=enableSelfStabilization)
    _ = {
      B () = BS.Parameters.BiasParam (outputDim)
      W () = BS.Parameters.WeightParam (outputDim, 0)
      A () = BS.Parameters.WeightParam (outputDim, auxDim)
      H () = BS.Parameters.WeightParam (outputDim, outputDim)
      dhs = S (prevState.h)
      pin () = if _IsNone (aux) then B () + W () * x else B () + W () * x + A () * aux
      zt = Sigmoid (pin () + H () * dhs)
      rt = Sigmoid (pin () + H () * dhs)
      ct = Tanh (pin () + H () * (dhs .* rt))
      ht = (1 - zt) .* ct + zt .* dhs
    }
    h = _.ht
    c = _.ct
    dim = outputDim
  }

  RecurrentLSTMP (outputDim, x, cellDim=None, inputDim=0, previousHook=PreviousHC, augmentInputHook=NoAuxInputHook,
                  augmentInputDim=0, layerIndex=0, enableSelfStabilization=false) = {
    prevState = previousHook (lstmState, layerIndex=layerIndex)
    lstmState = LSTMP (outputDim, x, prevState, cellDim=cellDim, aux=augmentInputHook (x, prevState), auxDim=augmentInputDim,
                       enableSelfStabilization=enableSelfStabilization)
  }.lstmState
  RecurrentGRU (outputDim, x, cellDim=None, inputDim=0, previousHook=PreviousHC, augmentInputHook=NoAuxInputHook,
                augmentInputDim=0, layerIndex=0, enableSelfStabilization=false) = {
    prevState = previousHook (gruState, layerIndex=layerIndex)
    gruState = GRU (outputDim, x, prevState, aux=augmentInputHook (x, prevState), auxDim=augmentInputDim,
                    enableSelfStabilization=enableSelfStabilization)
  }.gruState

  _Stack (cell, layerDims, cellDims, input, previousHook, augmentInputHook, augmentInputDim, stabilize) = {
    cellOf (i) = if _IsNone (cellDims) then layerDims[i] else cellDims[i]
    layers[i:0..Length (layerDims)-1] =
      cell (layerDims[i], cellDim=cellOf (i), x=if i == 0 then input else BS.Parameters.Stabilize (layers[i-1].h, enabled=stabilize),
            previousHook=previousHook, augmentInputHook=if i == 0 then augmentInputHook else NoAuxInputHook,
            augmentInputDim=if i == 0 then augmentInputDim else 0, layerIndex=i, enableSelfStabilization=stabilize)
  }.layers
  _BidirectionalStack (cell, layerDims, cellDims, input, previousHook, nextHook, stabilize) = {
    cellOf (i) = if _IsNone (cellDims) then layerDims[i] else cellDims[i]
    layers[i:0..Length (layerDims)-1] = {
      v = if i == 0 then input else BS.Parameters.Stabilize (layers[i-1].h, enabled=stabilize)
      fwd = cell (layerDims[i], cellDim=cellOf (i), x=v, previousHook=previousHook, layerIndex=i, enableSelfStabilization=stabilize)
      bwd = cell (layerDims[i], cellDim=cellOf (i), x=v, previousHook=nextHook, layerIndex=i, enableSelfStabilization=stabilize)
      h = Splice (fwd.h : bwd.h)
      c = Splice (fwd.c : bwd.c)
      dim = layerDims[i] * 2
    }
  }.layers
  _Listed (dims) = if IsArray (dims) then dims else [| dims |]

  RecurrentLSTMPStack (layerDims, input, cellDims=None, inputDim=0, previousHook=PreviousHC, augmentInputHook=NoAuxInputHook,
                       augmentInputDim=0, enableSelfStabilization=false) =
    _Stack (RecurrentLSTMP, _Listed (layerDims), if _IsNone (cellDims) then None else _Listed (cellDims), input, previousHook,
            augmentInputHook, augmentInputDim, enableSelfStabilization)
  RecurrentGRUStack (layerDims, input, cellDims=None, inputDim=0, previousHook=PreviousHC, augmentInputHook=NoAuxInputHook,
                     augmentInputDim=0, enableSelfStabilization=false) =
    _Stack (RecurrentGRU, _Listed (layerDims), None, input, previousHook, augmentInputHook, augmentInputDim, enableSelfStabilization)
  RecurrentBidirectionalLSTMPStack (layerDims, input, cellDims=None, inputDim=0, previousHook=PreviousHC, nextHook=NextHC,
                                    enableSelfStabilization=false) =
    _BidirectionalStack (RecurrentLSTMP, _Listed (layerDims), if _IsNone (cellDims) then None else _Listed (cellDims), input,
                         previousHook, nextHook, enableSelfStabilization)
  RecurrentBidirectionalGRUStack (layerDims, input, cellDims=None, inputDim=0, previousHook=PreviousHC, nextHook=NextHC,
                                  enableSelfStabilization=false) =
    _BidirectionalStack (RecurrentGRU, _Listed (layerDims), None, input, previousHook, nextHook, enableSelfStabilization)
  RecurrentBirectionalGRUStack = RecurrentBidirectionalGRUStack
}
)BS";

// The part of the standard library for sequence-to-sequence models: BS.Seq2Seq. Attention is an additional input of
// the decoder's recurrence; the decoders are edits of a trained model, whose nodes z, inputSequence, labelSequence,
// decoderHistoryHook, ... they know by name.
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
