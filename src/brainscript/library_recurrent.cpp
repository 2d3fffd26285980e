// SPDX-License-Identifier: Apache-2.0
// The part of the standard library that works in time (semantics 2.7, 3, 4): delays, dynamic axes, BS.Sequences,
// BS.Loop, BS.RNNs and the recurrent layers. A delay is made before its input is evaluated, so definitions may refer to
// each other through it.
#include "brainscript/library.h"

namespace tutti::brainscript {

extern constexpr std::string_view recurrent_library = R"BS(
# ---- time and dynamic axes

PastValue (dims, x, timeStep=1, initialState=None, defaultHiddenActivation=0.1, tag='') =
  new ComputationNode { operation = 'PastValue'; inputs = if _IsNone (initialState) then x else x : initialState }
FutureValue (dims, x, timeStep=1, initialState=None, defaultHiddenActivation=0.1, tag='') =
  new ComputationNode { operation = 'FutureValue'; inputs = if _IsNone (initialState) then x else x : initialState }
Delay = PastValue
Shift (x, fromOffset, boundaryValue, boundaryMode=-1, dim=-1, tag='') =
  if dim != -1 then Fail ("Shift works along the time axis only: dim = -1")
  else if fromOffset < 0 then PastValue (0, x, timeStep=-fromOffset, initialState=boundaryValue, tag=tag)
  else if fromOffset > 0 then FutureValue (0, x, timeStep=fromOffset, initialState=boundaryValue, tag=tag)
  else x
TimeReverse (vectorSequence, tag='') = new ComputationNode { operation = 'TimeReverse'; inputs = vectorSequence }
Where (cond, tag='') = new ComputationNode { operation = 'Where'; inputs = cond }
PackedIndex (nodeWithLayoutToPackFor, indexSequence, tag='') =
  new ComputationNode { operation = 'PackedIndex'; inputs = nodeWithLayoutToPackFor : indexSequence }
GatherPacked (indexSequence, sourceData, tag='') =
  new ComputationNode { operation = 'GatherPacked'; inputs = indexSequence : sourceData }
ScatterPacked (cond, indexSequence, sourceData, tag='') =
  new ComputationNode { operation = 'ScatterPacked'; inputs = cond : indexSequence : sourceData }
ReconcileDynamicAxis (dataInput, layoutInput, tag='') =
  new ComputationNode { operation = 'ReconcileDynamicAxis'; inputs = dataInput : layoutInput }
ReconcileMBLayout = ReconcileDynamicAxis
_ZeroSequence (x) = new ComputationNode { operation = 'ZeroSequence'; inputs = x }

DelayLayer {T=1, defaultHiddenActivation=0} =
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
  weights = W : H    # both are made before what the input is made of: the order of their seeds
  fromInput (x) = B + weights[0] * x
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
                    init='glorotUniform', initValueScale=1, enableSelfStabilization=false, allowOptimizedEngine=false} = {
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
                         enableSelfStabilization=false, allowOptimizedEngine=false} = {
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
  BroadcastSequenceAs (type, data1) =
    new ComputationNode { operation = 'BroadcastSequenceAs'; inputs = type : data1 }
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

  PreviousHC (lstmState, initialState=None, layerIndex=0) = {
    h = PastValue (0, lstmState.h, initialState=if _IsNone (initialState) then None else initialState.h)
    c = PastValue (0, lstmState.c, initialState=if _IsNone (initialState) then None else initialState.c)
    dim = lstmState.dim
  }
  NextHC (lstmState, initialState=None, layerIndex=0) = {
    h = FutureValue (0, lstmState.h, initialState=if _IsNone (initialState) then None else initialState.h)
    c = FutureValue (0, lstmState.c, initialState=if _IsNone (initialState) then None else initialState.c)
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

}  // namespace tutti::brainscript
