// SPDX-License-Identifier: Apache-2.0
// The standard library (semantics 2.7, 3, 4): every operation and layer with its arguments and defaults. The one
// primitive is `new ComputationNode`, which takes the attributes of its operation from the record and from the
// arguments of the function around it. The order in which W, x and b are written decides the seeds (semantics 2.6).
// Layers of image networks stand in library_images.cpp, everything in time in library_recurrent.cpp.
#include "brainscript/library.h"

namespace tutti::brainscript {
namespace {

constexpr std::string_view text = R"BS(
None = _None
Inferred = 0

# ---- functions and arrays

_Compose (first, then_) = x => then_ (first (x))
Repeat (N, what) = array[0..N-1] (i => what)
Sign (x) = _Numeric ('Sign', x)
Fac (n) = _Numeric ('Fac', n)

# ---- inputs

Input (dims, dynamicAxis='', sparse=false, tag='feature') = new ComputationNode { operation = 'InputValue' }
SparseInput (dims, dynamicAxis='', tag='feature') = new ComputationNode { operation = 'InputValue'; sparse = true }
ImageInput (imageWidth, imageHeight, imageChannels, imageLayout='CHW', dynamicAxis='', tag='feature') =
  new ComputationNode { operation = 'InputValue'; dims = _ImageDims (imageWidth, imageHeight, imageChannels, imageLayout) }
SparseImageInput (imageWidth, imageHeight, imageChannels, imageLayout='CHW', dynamicAxis='', tag='feature') =
  new ComputationNode { operation = 'InputValue'; sparse = true; dims = _ImageDims (imageWidth, imageHeight, imageChannels, imageLayout) }
_ImageDims (w, h, c, imageLayout) =
  if imageLayout == 'CHW' || imageLayout == 'cudnn' then w : h : c
  else if imageLayout == 'HWC' || imageLayout == 'legacy' then c : w : h
  else Fail ("imageLayout must be 'CHW' or 'HWC', not '" + imageLayout + "'")

# ---- parameters and constants

ParameterTensor {dims, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='', initFromFilePath='',
                 initFromLiteral='', initFilterRank=0, initOutputRank=1, initOnCPUOnly=true, randomSeed=-1, tag=''} =
  new ComputationNode { operation = 'LearnableParameter' }
Parameter {outputDim, inputDim=None, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='',
           initFromFilePath='', initFromLiteral='', initOnCPUOnly=true, randomSeed=-1, tag=''} =
  new ComputationNode {
    operation = 'LearnableParameter'
    dims = if _IsNone (inputDim) then outputDim else outputDim : inputDim
  }
Constant {val, rows=1, cols=1, tag=''} =
  Parameter {rows, cols, learningRateMultiplier=0, init='fixedValue', value=val, tag=tag}
Const = Constant
ConstantTensor {val, dims, tag=''} = ParameterTensor {dims, learningRateMultiplier=0, init='fixedValue', value=val, tag=tag}
ConstantFromString (text, tag='') =
  ParameterTensor {0 : 0, learningRateMultiplier=0, init='fromLiteral', initFromLiteral=text, tag=tag}

# ---- products and sums

Times (x, y, outputRank=1, inferInputRankToMap=-1, tag='') = new ComputationNode { operation = 'Times'; inputs = x : y }
TransposeTimes (x, y, outputRank=1, tag='') = new ComputationNode { operation = 'TransposeTimes'; inputs = x : y }
LookupTable (embeddingMatrix, inputTensor, tag='') =
  new ComputationNode { operation = 'LookupTable'; inputs = embeddingMatrix : inputTensor }
DiagTimes (v, m, tag='') = new ComputationNode { operation = 'DiagTimes'; inputs = v : m }
KhatriRaoProduct (x, y, tag='') = new ComputationNode { operation = 'KhatriRaoProduct'; inputs = x : y }
ElementTimes (x, y, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = x : y }
ElementDivide (x, y, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = x : Reciprocal (y) }
Scale (s, m, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = s : m }
Plus (x, y, tag='') = new ComputationNode { operation = 'Plus'; inputs = x : y }
Minus (x, y, tag='') = new ComputationNode { operation = 'Minus'; inputs = x : y }
LogPlus (x, y, tag='') = new ComputationNode { operation = 'LogPlus'; inputs = x : y }
SumElements (m, tag='') = new ComputationNode { operation = 'SumElements'; inputs = m }
SumColumnElements (m, tag='') = new ComputationNode { operation = 'SumColumnElements'; inputs = m }
ReduceSum (x, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Sum'; inputs = x }
ReduceLogSum (x, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'LogSum'; inputs = x }
ReduceMean (x, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Mean'; inputs = x }
ReduceMin (x, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Min'; inputs = x }
ReduceMax (x, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Max'; inputs = x }

# ---- one element at a time; the first group also computes with plain numbers

Abs (_, tag='') = if IsDouble (_) then _Numeric ('Abs', _) else new ComputationNode { operation = 'Abs'; inputs = _ }
Floor (_, tag='') = if IsDouble (_) then _Numeric ('Floor', _) else new ComputationNode { operation = 'Floor'; inputs = _ }
Ceil (_, tag='') = if IsDouble (_) then _Numeric ('Ceil', _) else new ComputationNode { operation = 'Ceil'; inputs = _ }
Round (_, tag='') = if IsDouble (_) then _Numeric ('Round', _) else new ComputationNode { operation = 'Round'; inputs = _ }
Sqrt (_, tag='') = if IsDouble (_) then _Numeric ('Sqrt', _) else new ComputationNode { operation = 'Sqrt'; inputs = _ }
Exp (_, tag='') = if IsDouble (_) then _Numeric ('Exp', _) else new ComputationNode { operation = 'Exp'; inputs = _ }
Log (_, tag='') = if IsDouble (_) then _Numeric ('Log', _) else new ComputationNode { operation = 'Log'; inputs = _ }
Sin (_, tag='') = if IsDouble (_) then _Numeric ('Sin', _) else new ComputationNode { operation = 'Sin'; inputs = _ }
Cosine (_, tag='') = if IsDouble (_) then _Numeric ('Cosine', _) else new ComputationNode { operation = 'Cosine'; inputs = _ }

Sigmoid (_, tag='') = new ComputationNode { operation = 'Sigmoid'; inputs = _ }
Tanh (_, tag='') = new ComputationNode { operation = 'Tanh'; inputs = _ }
RectifiedLinear (_, tag='') = new ComputationNode { operation = 'RectifiedLinear'; inputs = _ }
ReLU = RectifiedLinear
Reciprocal (_, tag='') = new ComputationNode { operation = 'Reciprocal'; inputs = _ }
Negate (_, tag='') = new ComputationNode { operation = 'Negate'; inputs = _ }
Square (_, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : _ }
Pass (_, tag='') = new ComputationNode { operation = 'Pass'; inputs = _ }
Identity = Pass
Trace (node, say='', logFrequency=100, logFirst=10, logGradientToo=false, onlyUpToRow=100000000, onlyUpToT=100000000, tag='') =
  if logGradientToo then Fail ("gradients are not printed: leave logGradientToo out")
  else new ComputationNode { operation = 'Trace'; inputs = node }
Clip (min, max, x, tag='') = new ComputationNode { operation = 'Clip'; inputs = min : max : x }
Less (x, y, tag='') = new ComputationNode { operation = 'Less'; inputs = x : y }
Equal (x, y, tag='') = new ComputationNode { operation = 'Equal'; inputs = x : y }
Greater (x, y, tag='') = new ComputationNode { operation = 'Greater'; inputs = x : y }
GreaterEqual (x, y, tag='') = new ComputationNode { operation = 'GreaterEqual'; inputs = x : y }
NotEqual (x, y, tag='') = new ComputationNode { operation = 'NotEqual'; inputs = x : y }
LessEqual (x, y, tag='') = new ComputationNode { operation = 'LessEqual'; inputs = x : y }

# ---- softmax and criteria

Softmax (z, axis=0, tag='') = new ComputationNode { operation = 'Softmax'; inputs = z }
LogSoftmax (z, axis=0, tag='') = new ComputationNode { operation = 'LogSoftmax'; inputs = z }
Hardmax (z, tag='') = new ComputationNode { operation = 'Hardmax'; inputs = z }
CrossEntropyWithSoftmax (labels, z, axis=0, tag='') =
  new ComputationNode { operation = 'CrossEntropyWithSoftmax'; inputs = labels : z }
ClassificationError (labels, z, topN=1, axis=0, tag='') =
  new ComputationNode { operation = 'ClassificationError'; inputs = labels : z }
ErrorPrediction = ClassificationError
CrossEntropy (ref, prob, tag='') = new ComputationNode { operation = 'CrossEntropy'; inputs = ref : prob }
SquareError (a, b, tag='') = new ComputationNode { operation = 'SquareError'; inputs = a : b }
Logistic (label, prob, tag='') = new ComputationNode { operation = 'Logistic'; inputs = label : prob }
WeightedLogistic (label, prob, weight, tag='') =
  new ComputationNode { operation = 'WeightedLogistic'; inputs = label : prob : weight }
ClassBasedCrossEntropyWithSoftmax (labelClassDescriptorVectorSequence, mainInputInfo, mainWeight, classLogProbsBeforeSoftmax, tag='') =
  new ComputationNode {
    operation = 'ClassBasedCrossEntropyWithSoftmax'
    inputs = labelClassDescriptorVectorSequence : mainInputInfo : mainWeight : classLogProbsBeforeSoftmax
  }
MatrixL1Reg (x, tag='') = new ComputationNode { operation = 'MatrixL1Reg'; inputs = x }
MatrixL2Reg (x, tag='') = new ComputationNode { operation = 'MatrixL2Reg'; inputs = x }
CosDistance (a, b, tag='') = new ComputationNode { operation = 'CosDistance'; inputs = a : b }
CosDistanceWithNegativeSamples (a, b, numShifts, numNegSamples, tag='') =
  _CosDistanceWithNegativeSamples (a, b, _Number (numShifts), _Number (numNegSamples), tag)
_CosDistanceWithNegativeSamples (a, b, shift, negatives, tag) =
  new ComputationNode { operation = 'CosDistanceWithNegativeSamples'; inputs = a : b }
_Number (x) = if IsDouble (x) then x else x.value    # of a constant
LambdaRank (gain, prediction, queryId, tag='') = new ComputationNode { operation = 'LambdaRank'; inputs = gain : prediction : queryId }
NDCG1Eval (gain, prediction, queryId, tag='') = new ComputationNode { operation = 'NDCG1Eval'; inputs = gain : prediction : queryId }

# ---- shape

Slice (begin, end, x, axis=1, tag='') = new ComputationNode { operation = 'Slice'; inputs = x }
RowSlice (begin, num, x, tag='') = new ComputationNode { operation = 'Slice'; inputs = x; end = begin + num; axis = 1 }
RowStack (inputs, axis=1, tag='') = new ComputationNode { operation = 'RowStack' }
Splice (inputs, axis=1, tag='') = new ComputationNode { operation = 'RowStack' }
RowRepeat (x, n, tag='') = new ComputationNode { operation = 'RowRepeat'; inputs = x; numRepeats = n }
NewReshape (x, dims, beginAxis=0, endAxis=0, tag='') = new ComputationNode { operation = 'Reshape'; inputs = x }
Reshape (x, numRows, imageWidth=0, imageHeight=0, imageChannels=0, tag='') =
  new ComputationNode {
    operation = 'Reshape'
    inputs = x
    dims = if imageWidth == 0 then numRows else imageChannels : imageWidth : imageHeight
  }
ReshapeDimension (x, axis, shape, tag='') = NewReshape (x, shape, beginAxis=axis, endAxis=axis+1, tag=tag)
FlattenDimensions (x, axis, num, tag='') = NewReshape (x, 0, beginAxis=axis, endAxis=axis+num, tag=tag)
SplitDimension (x, axis, N, tag='') = NewReshape (x, 0 : N, beginAxis=axis, endAxis=axis+1, tag=tag)
TransposeDimensions (x, a, b, tag='') =
  new ComputationNode { operation = 'TransposeDimensions'; inputs = x; axis1 = a; axis2 = b }
Transpose (x, tag='') = TransposeDimensions (x, 1, 2, tag=tag)

# ---- training and statistics of the data

Dropout (_, rate=None, tag='') = new ComputationNode { operation = 'Dropout'; inputs = _ }
Mean (x, tag='') = new ComputationNode { operation = 'Mean'; inputs = x }
InvStdDev (x, tag='') = new ComputationNode { operation = 'InvStdDev'; inputs = x }
PerDimMeanVarNormalization (x, mean, invStd, tag='') =
  new ComputationNode { operation = 'PerDimMeanVarNormalization'; inputs = x : mean : invStd }
PerDimMeanVarDeNormalization (x, mean, invStd, tag='') =
  new ComputationNode { operation = 'PerDimMeanVarDeNormalization'; inputs = x : mean : invStd }
MeanVarNorm (x, tag='') = PerDimMeanVarNormalization (x, Mean (x), InvStdDev (x), tag=tag)
LogPrior (labels, tag='') = Log (Mean (labels), tag=tag)

# ---- layers

LinearLayer {outDim, bias=true, init='glorotUniform', initValueScale=1, inputRank=None, mapRank=None, initBias=0} = {
  inputShape = if _IsNone (inputRank) then Inferred
               else if _IsNone (mapRank) then Repeat (inputRank, Inferred)
               else Fail ("give either inputRank or mapRank, not both")
  toMap = if !_IsNone (inputRank) then -1 else if _IsNone (mapRank) then 0 else mapRank
  W = ParameterTensor {outDim : inputShape, init=init, initValueScale=initValueScale}
  b = ParameterTensor {outDim, init='fixedValue', value=initBias}
  product (x) = Times (W, x, outputRank=Length (outDim), inferInputRankToMap=toMap)
  apply (x) = if bias then product (x) + b else product (x)
}.apply

DenseLayer {outDim, bias=true, activation=(x => x), init='glorotUniform', initValueScale=1, inputRank=None, mapRank=None,
            initBias=0} =
  Sequential (LinearLayer {outDim, bias=bias, init=init, initValueScale=initValueScale, inputRank=inputRank,
                           mapRank=mapRank, initBias=initBias} : activation)

EmbeddingLayer {outDim, init='glorotUniform', initValueScale=1, embeddingPath='', transpose=false} = {
  shape = if transpose then Inferred : outDim else outDim : Inferred
  E = if embeddingPath == ''
      then ParameterTensor {shape, init=init, initValueScale=initValueScale}
      else ParameterTensor {shape, initFromFilePath=embeddingPath, learningRateMultiplier=0}
  apply (x) = if transpose then TransposeTimes (E, x) else Times (E, x)
}.apply
Embedding = EmbeddingLayer

LayerNormalizationLayer {initScale=1, initBias=0} = {
  gain = ParameterTensor {1, init='fixedValue', value=initScale}
  bias = ParameterTensor {1, init='fixedValue', value=initBias}
  apply (x) = {
    x0 = x - ReduceMean (x)
    deviation = Sqrt (ReduceMean (x0 .* x0))
    result = gain .* ElementDivide (x0, deviation) + bias
  }.result
}.apply

StabilizerLayer {steepness=4} = {
  p = ParameterTensor {1, init='fixedValue', value=0.99537863}
  apply (x) = x .* (Log (1 + Exp (steepness .* p)) / steepness)
}.apply

FeatureMVNLayer {} = MeanVarNorm
LogPriorLayer {} = LogPrior

Sequential (arrayOfFunctions) = {
  chain = if IsArray (arrayOfFunctions) then arrayOfFunctions << 0 else [| arrayOfFunctions |]
  upTo (last, x) = if last < 0 then x else chain[last] (upTo (last - 1, x))
  apply (x) = upTo (Length (chain) - 1, x)
}.apply
Parallel (arrayOfFunctions, combine) = {
  branches = if IsArray (arrayOfFunctions) then arrayOfFunctions << 0 else [| arrayOfFunctions |]
  apply (x) = combine (array[0..Length (branches)-1] (i => branches[i] (x)))
}.apply
MergeBinary (arrayOfFunctions, combine) = {
  branches = if Length (arrayOfFunctions) == 2 then arrayOfFunctions << 0
             else Fail ("MergeBinary joins two functions: (f : g)")
  apply (x) = combine (branches[0] (x), branches[1] (x))
}.apply
LayerStack {n, layer} = Sequential (array[0..n-1] (layer))

BFF (in, rows, cols) = {
  B = Parameter {rows, 1, init='fixedValue', value=0}
  W = Parameter {rows, cols}
  z = W * in + B
}
SBFF (in, rows, cols) = {
  affine = BFF (in, rows, cols)
  Eh = Sigmoid (affine.z)
}

# ---- namespaces

BS = {
  Constants = {
    None = _None
    IsNone (x) = _IsNone (x)
    Zero = Constant {0}
    One = Constant {1}
    True = One
    False = Zero
    OnesTensor (dims) = ConstantTensor {1, dims}
    ZeroesLike (x) = 0 .* x
    ZeroesLike1 (x) = 0 .* x
    ZeroSequenceLike (x) = _ZeroSequence (x)
    OnesLike (x) = 0 .* x + 1
    Range (dim) = Splice (array[0..dim-1] (i => Constant {i}))
  }
  Boolean = {
    True = Constants.True
    False = Constants.False
    And (x, y) = x .* y
    Or (x, y) = Not (Not (x) .* Not (y))
    Xor (x, y) = Square (x - y)
    Not (x) = 1 - x
    Toggle (clk, initialValue=0) = {
      state = Xor (PastValue (1, state, defaultHiddenActivation=initialValue), clk)
    }.state
    If (cond, thenVal, elseVal, tag='') = new ComputationNode { operation = 'If'; inputs = cond : thenVal : elseVal }
  }
  Network = {
    Load (pathName) = _LoadNetwork (pathName)
    CloneFunction (inputNodes, outputNodes, parameters='learnable') = _CloneFunction (inputNodes, outputNodes, parameters)
    Edit (inputModel, editFunctions, additionalRoots=[| |]) = _EditNetwork (inputModel, editFunctions, additionalRoots)
    Editing = {
      ReplaceLinksToNode (nodeToReplace, newNode) = (node => if IsSameObject (node, nodeToReplace) then newNode else node)
      ReplaceLinksToNamedNode (name, newNode) = (node => if node.name == name then newNode else node)
    }
  }
  Sequences = _Sequences
  Loop = _Loop
  RNNs = _RNNs
  Seq2Seq = _Seq2Seq
  Parameters = {
    WeightParam (outputDim, inputDim, initValueScale=1) =
      Parameter {outputDim, inputDim, init='uniform', initValueScale=initValueScale, randomSeed=1}
    DiagWeightParam (outputDim, initValueScale=1) =
      ParameterTensor {outputDim, init='uniform', initValueScale=initValueScale, randomSeed=1}
    BiasParam (dim) = ParameterTensor {dim, init='fixedValue', value=0}
    ScalarParam () = BiasParam (1)
    Stabilize (x, enabled=true) = if enabled then _Stabilized (x, 1) else x
    StabilizeElements (x, inputDim=None, enabled=true) =
      if enabled then _Stabilized (x, if _IsNone (inputDim) then x.dims else inputDim) else x
    _Stabilized (x, dims) = {
      p = ParameterTensor {dims, init='fixedValue', value=0.99537863}
      result = x .* (Log (1 + Exp (4 .* p)) / 4)
    }.result
  }
}

# The newer spellings, with the main input first.
CNTK2 = {
  Parameter {dims, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='', initFromFilePath='',
             initFromLiteral='', initFilterRank=0, initOutputRank=1, initOnCPUOnly=true, randomSeed=-1, tag=''} =
    new ComputationNode { operation = 'LearnableParameter' }
  Slice (_, begin, end, axis=1, tag='') = new ComputationNode { operation = 'Slice'; inputs = _ }
  Splice (inputs, axis=1, tag='') = new ComputationNode { operation = 'RowStack' }
  Reshape (_, dims, beginAxis=0, endAxis=0, tag='') = new ComputationNode { operation = 'Reshape'; inputs = _ }
  TransposeAxes (_, axis1, axis2, tag='') = new ComputationNode { operation = 'TransposeDimensions'; inputs = _ }
  Clip (_, min, max, tag='') = new ComputationNode { operation = 'Clip'; inputs = min : max : _ }
  Pooling (_, poolingType, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =
    new ComputationNode { operation = 'Pooling'; inputs = _ }
  MaxUnpooling (_, poolInput, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =
    new ComputationNode { operation = 'MaxUnpooling'; inputs = _ : poolInput; poolingType = 'max' }
  ROIPooling (_, rois, shape, tag='') = new ComputationNode { operation = 'ROIPooling'; inputs = _ : rois }
  BatchNormalization (_, scale, bias, runMean, runVariance, spatial, normalizationTimeConstant=0, blendTimeConstant=0,
                      epsilon=0.00001, useCntkEngine=true, imageLayout='CHW', synchronized=false, tag='') =
    new ComputationNode { operation = 'BatchNormalization'; inputs = _ : scale : bias : runMean : runVariance }
  Times (_, y, outputRank=1, inferInputRankToMap=-1, tag='') = new ComputationNode { operation = 'Times'; inputs = _ : y }
  ElementTimes (_, y, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : y }
  ElementDivide (_, y, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : Reciprocal (y) }
  Plus (_, y, tag='') = new ComputationNode { operation = 'Plus'; inputs = _ : y }
  Minus (_, y, tag='') = new ComputationNode { operation = 'Minus'; inputs = _ : y }
  LogPlus (_, y, tag='') = new ComputationNode { operation = 'LogPlus'; inputs = _ : y }
  ReduceSum (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Sum'; inputs = _ }
  ReduceLogSum (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'LogSum'; inputs = _ }
  ReduceMean (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Mean'; inputs = _ }
  ReduceMin (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Min'; inputs = _ }
  ReduceMax (_, axis=None, tag='') = new ComputationNode { operation = 'ReduceElements'; op = 'Max'; inputs = _ }
  Softmax (_, axis=0, tag='') = new ComputationNode { operation = 'Softmax'; inputs = _ }
  LogSoftmax (_, axis=0, tag='') = new ComputationNode { operation = 'LogSoftmax'; inputs = _ }
  Hardmax (_, tag='') = new ComputationNode { operation = 'Hardmax'; inputs = _ }
  CrossEntropyWithSoftmax (_, outputs, axis=0, tag='') =
    new ComputationNode { operation = 'CrossEntropyWithSoftmax'; inputs = _ : outputs }
  ClassificationError (_, outputs, topN=1, axis=0, tag='') =
    new ComputationNode { operation = 'ClassificationError'; inputs = _ : outputs }
  SquareError (_, b, tag='') = new ComputationNode { operation = 'SquareError'; inputs = _ : b }
  Dropout (_, rate=None, tag='') = new ComputationNode { operation = 'Dropout'; inputs = _ }
  Identity = Pass
}
)BS";

}  // namespace

std::string library_text() {
  std::string all(text);
  for (const std::string_view part : {image_library, recurrent_library, seq2seq_library,
                                      keras_library, simple_library, ndl_library})
    all += part;
  return all;
}

}  // namespace tutti::brainscript
