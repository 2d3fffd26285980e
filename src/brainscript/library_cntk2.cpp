// SPDX-License-Identifier: Apache-2.0
// The part of the standard library under CNTK2: the newer forms, with the main input first. `CNTK2.Abs = Abs` would
// refer to itself, so these functions are written out again.
#include <string_view>

namespace tutti::brainscript {

extern constexpr std::string_view cntk2_library = R"BS(
# ---- CNTK2

_DynamicAxis = DynamicAxis
CNTK2 = {
  DynamicAxis (tag='') = _DynamicAxis ()
  Input (shape, dynamicAxis='', tag='feature') = new ComputationNode { operation = 'InputValue'; dims = shape }
  Parameter {dims, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='', initFromFilePath='',
             initFromLiteral='', initFilterRank=0, initOutputRank=1, initOnCPUOnly=true, randomSeed=-1, tag=''} =
    new ComputationNode { operation = 'LearnableParameter' }
  Slice (_, beginIndex, endIndex, axis=1, tag='') =
    new ComputationNode { inputs = _; begin = beginIndex; end = endIndex }
  Splice (inputs, axis=1, tag='') =
    if axis < 1 then _NotInTime () else new ComputationNode { operation = 'RowStack' }
  Reshape (_, shape, beginAxis=0, endAxis=0, tag='') = new ComputationNode { inputs = _; dims = shape }
  TransposeDimensions (_, axis1, axis2, tag='') = new ComputationNode { inputs = _ }
  TransposeAxes = TransposeDimensions
  Clip (_, minValue, maxValue, tag='') = new ComputationNode { inputs = minValue : maxValue : _ }
  Pooling (_, poolingType, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, ceilOutDim=false,
           includePad=false, imageLayout='CHW', tag='') =
    new ComputationNode { inputs = _ }
  MaxUnpooling (_, poolInput, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =
    new ComputationNode { inputs = _ : poolInput; poolingType = 'max' }
  ROIPooling (_, rois, shape, spatialScale=None, tag='') = new ComputationNode { inputs = _ : rois }
  BatchNormalization (_, scale, bias, runMean, runVariance, runCount=None, spatial=false, normalizationTimeConstant=0,
                      blendTimeConstant=0, epsilon=0.00001, useCntkEngine=true, disableRegularization=false,
                      imageLayout='CHW', synchronized=false, tag='') =
    _BatchNormalization (_, scale, bias, runMean, runVariance, if IsBool (runCount) then spatial || runCount else spatial,
                         normalizationTimeConstant, blendTimeConstant, epsilon, useCntkEngine, disableRegularization,
                         imageLayout, synchronized, tag)
  Times (x, y, outputRank=1, inferInputRankToMap=-1, tag='') = new ComputationNode { inputs = x : y }
  ElementTimes (_, y, tag='') = new ComputationNode { inputs = _ : y }
  ElementDivide (_, y, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : Reciprocal (y) }
  Plus (_, y, tag='') = new ComputationNode { inputs = _ : y }
  Minus (_, y, tag='') = new ComputationNode { inputs = _ : y }
  LogPlus (_, y, tag='') = new ComputationNode { inputs = _ : y }
  ReduceSum (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Sum'; inputs = _ }
  ReduceLogSum (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'LogSum'; inputs = _ }
  ReduceMean (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Mean'; inputs = _ }
  ReduceMin (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Min'; inputs = _ }
  ReduceMax (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Max'; inputs = _ }
  Softmax (_, axis=0, tag='') = new ComputationNode { inputs = _ }
  LogSoftmax (_, axis=0, tag='') = new ComputationNode { inputs = _ }
  Hardmax (_, tag='') = new ComputationNode { inputs = _ }
  CrossEntropyWithSoftmax (labelSequence, outProbVectorSequence, axis=0, tag='') =
    if axis == 0 then new ComputationNode { inputs = labelSequence : outProbVectorSequence }
    else _CrossEntropyAlong (labelSequence, outProbVectorSequence, axis, tag)
  ClassificationError (labelSequence, outVectorSequence, topN=1, axis=0, tag='') =
    if axis == 0 then new ComputationNode { inputs = labelSequence : outVectorSequence }
    else _ErrorAlong (labelSequence, outVectorSequence, topN, axis, tag)
  SquareError (_, b, tag='') = new ComputationNode { inputs = _ : b }
  Dropout (_, rate=None, tag='') = new ComputationNode { inputs = _ }
  PastValue (_, shape, timeStep=1, defaultHiddenActivation=0.1, tag='') = new ComputationNode { inputs = _; dims = shape }
  FutureValue (_, shape, timeStep=1, defaultHiddenActivation=0.1, tag='') =
    new ComputationNode { inputs = _; dims = shape }
  Abs (_, tag='') = new ComputationNode { inputs = _ }
  Ceil (_, tag='') = new ComputationNode { inputs = _ }
  Exp (_, tag='') = new ComputationNode { inputs = _ }
  Floor (_, tag='') = new ComputationNode { inputs = _ }
  Log (_, tag='') = new ComputationNode { inputs = _ }
  Round (_, tag='') = new ComputationNode { inputs = _ }
  Sqrt (_, tag='') = new ComputationNode { inputs = _ }
  Square (_, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : _ }
  Tanh (_, tag='') = new ComputationNode { inputs = _ }
  ReLU (_, tag='') = new ComputationNode { operation = 'RectifiedLinear'; inputs = _ }
  Relu (_, tag='') = new ComputationNode { operation = 'RectifiedLinear'; inputs = _ }
  Sigmoid (_, tag='') = new ComputationNode { inputs = _ }
  Less (_, y, tag='') = new ComputationNode { inputs = _ : y }
  Equal (_, y, tag='') = new ComputationNode { inputs = _ : y }
  Greater (_, y, tag='') = new ComputationNode { inputs = _ : y }
  GreaterEqual (_, y, tag='') = new ComputationNode { inputs = _ : y }
  NotEqual (_, y, tag='') = new ComputationNode { inputs = _ : y }
  LessEqual (_, y, tag='') = new ComputationNode { inputs = _ : y }
  ErrorPrediction = ClassificationError
  Pass (_, tag='') = new ComputationNode { inputs = _ }
  Identity = Pass
}
)BS";

}  // namespace tutti::brainscript
