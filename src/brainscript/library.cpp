// SPDX-License-Identifier: Apache-2.0
// The standard library: every operation and layer with its arguments and defaults. The one
// primitive is `new ComputationNode`, which takes the attributes of its operation from the record and from the
// arguments of the function around it; an operation is that of the function's name unless it is given. The order in
// which W, x and b are written decides the seeds. The sentence behind ## is that of help=NAME; it stands
// on the line on which the arguments end. Layers of image networks stand in library_images.cpp, everything in time in
// library_recurrent.cpp.
#include "brainscript/network.h"

#include <algorithm>

#include "config/text.h"

namespace tutti::brainscript {

extern const std::string_view image_library, recurrent_library, seq2seq_library;  // library_images, library_recurrent
extern const std::string_view keras_library, simple_library, ndl_library;         // library_builders

namespace {

constexpr std::string_view text = R"BS(
None = _None
Inferred = 0

# ---- functions and arrays

_Compose (first, then_) = x => then_ (first (x))
Repeat (N, what) = array[0..N-1] (i => what)  ## an array of N times the same
Sign (x) = _Numeric ('Sign', x)  ## -1, 0 or 1, of a number
Fac (n) = _Numeric ('Fac', n)  ## factorial of a number

# ---- inputs

Input (dims, dynamicAxis='', sparse=false, tag='feature') =  ## an input: a stream of the reader, found by the name of the definition
  new ComputationNode { operation = 'InputValue' }
SparseInput (dims, dynamicAxis='', tag='feature') =  ## an input whose columns are sparse (indices and values)
  new ComputationNode { operation = 'InputValue'; sparse = true }
ImageInput (imageWidth, imageHeight, imageChannels, imageLayout='CHW', dynamicAxis='', tag='feature') =  ## an input of images, width x height x channels
  new ComputationNode { operation = 'InputValue'; dims = _ImageDims (imageWidth, imageHeight, imageChannels, imageLayout) }
SparseImageInput (imageWidth, imageHeight, imageChannels, imageLayout='CHW', dynamicAxis='', tag='feature') =  ## an input of images stored as sparse columns
  new ComputationNode { operation = 'InputValue'; sparse = true; dims = _ImageDims (imageWidth, imageHeight, imageChannels, imageLayout) }
_ImageDims (w, h, c, imageLayout) =
  if imageLayout == 'CHW' || imageLayout == 'cudnn' then w : h : c
  else if imageLayout == 'HWC' || imageLayout == 'legacy' then c : w : h
  else Fail ("imageLayout must be 'CHW' or 'HWC', not '" + imageLayout + "'")

# ---- parameters and constants

ParameterTensor {dims, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='', initFromFilePath='',
                 initFromLiteral='', initFilterRank=0, initOutputRank=1, initOnCPUOnly=true, randomSeed=-1, tag=''} =  ## a trained tensor; 0 in dims means "from the input"
  new ComputationNode { operation = 'LearnableParameter' }
Parameter {outputDim, inputDim=None, learningRateMultiplier=1, init='', initValueScale=1, value=0, initValue='',
           initFromFilePath='', initFromLiteral='', initOnCPUOnly=true, randomSeed=-1, tag=''} =  ## a trained matrix, or vector without inputDim
  new ComputationNode {
    operation = 'LearnableParameter'
    dims = if _IsNone (inputDim) then outputDim else outputDim : inputDim
  }
Constant {val, rows=1, cols=1, tag=''} =  ## a matrix of one value that is not trained
  Parameter {rows, cols, learningRateMultiplier=0, init='fixedValue', value=val, tag=tag}
Const = Constant
ConstantTensor {val, dims, tag=''} =  ## a tensor of one value that is not trained
  ParameterTensor {dims, learningRateMultiplier=0, init='fixedValue', value=val, tag=tag}
ConstantFromString (text, tag='') =  ## a constant whose values stand in a text
  ParameterTensor {0 : 0, learningRateMultiplier=0, init='fromLiteral', initFromLiteral=text, tag=tag}

# ---- products and sums

Times (x, y, outputRank=1, inferInputRankToMap=-1, tag='') =  ## matrix product; contracts outputRank axes less than x has
  new ComputationNode { inputs = x : y }
TransposeTimes (x, y, outputRank=1, tag='') = new ComputationNode { inputs = x : y }  ## matrix product with x transposed
LookupTable (embeddingMatrix, inputTensor, tag='') = new ComputationNode { inputs = embeddingMatrix : inputTensor }
DiagTimes (v, m, tag='') = new ComputationNode { inputs = v : m }  ## each row of m times one element of v
KhatriRaoProduct (x, y, tag='') = new ComputationNode { inputs = x : y }  ## column by column, all products of an element of x and one of y
ColumnwiseCrossProduct = KhatriRaoProduct
ElementTimes (x, y, tag='') = new ComputationNode { inputs = x : y }  ## product element by element, with broadcast of axes of 1
ElementDivide (x, y, tag='') =  ## quotient element by element
  new ComputationNode { operation = 'ElementTimes'; inputs = x : Reciprocal (y) }
Scale (s, m, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = s : m }  ## a scalar node times a node
Plus (x, y, tag='') = new ComputationNode { inputs = x : y }  ## sum, with broadcast of axes of 1
Minus (x, y, tag='') = new ComputationNode { inputs = x : y }  ## difference, with broadcast of axes of 1
LogPlus (x, y, tag='') = new ComputationNode { inputs = x : y }  ## log (exp (x) + exp (y)), element by element
SumElements (m, tag='') = new ComputationNode { inputs = m }  ## sum of all elements of the minibatch
SumColumnElements (m, tag='') = new ComputationNode { inputs = m }  ## sum over the elements of each sample
ReduceSum (x, axis=None, tag='') =  ## sum over an axis, or over all
  new ComputationNode { operation = 'ReduceElements'; op = 'Sum'; inputs = x }
ReduceLogSum (x, axis=None, tag='') =  ## log of the sum of exp over an axis, or over all
  new ComputationNode { operation = 'ReduceElements'; op = 'LogSum'; inputs = x }
ReduceMean (x, axis=None, tag='') =  ## mean over an axis, or over all
  new ComputationNode { operation = 'ReduceElements'; op = 'Mean'; inputs = x }
ReduceMin (x, axis=None, tag='') =  ## smallest element along an axis, or of all
  new ComputationNode { operation = 'ReduceElements'; op = 'Min'; inputs = x }
ReduceMax (x, axis=None, tag='') =  ## largest element along an axis, or of all
  new ComputationNode { operation = 'ReduceElements'; op = 'Max'; inputs = x }

# ---- one element at a time; the first group also computes with plain numbers

Abs (_, tag='') = if IsDouble (_) then _Numeric ('Abs', _) else new ComputationNode { inputs = _ }  ## absolute value
Floor (_, tag='') = if IsDouble (_) then _Numeric ('Floor', _) else new ComputationNode { inputs = _ }  ## largest whole number not above
Ceil (_, tag='') = if IsDouble (_) then _Numeric ('Ceil', _) else new ComputationNode { inputs = _ }  ## smallest whole number not below
Round (_, tag='') = if IsDouble (_) then _Numeric ('Round', _) else new ComputationNode { inputs = _ }  ## nearest whole number; halves upward
Sqrt (_, tag='') = if IsDouble (_) then _Numeric ('Sqrt', _) else new ComputationNode { inputs = _ }  ## square root
Exp (_, tag='') = if IsDouble (_) then _Numeric ('Exp', _) else new ComputationNode { inputs = _ }  ## e to the power of each element
Log (_, tag='') = if IsDouble (_) then _Numeric ('Log', _) else new ComputationNode { inputs = _ }  ## natural logarithm
Sin (_, tag='') = if IsDouble (_) then _Numeric ('Sin', _) else new ComputationNode { inputs = _ }  ## sine
Cosine (_, tag='') = if IsDouble (_) then _Numeric ('Cosine', _) else new ComputationNode { inputs = _ }  ## cosine

Sigmoid (_, tag='') = new ComputationNode { inputs = _ }  ## 1 / (1 + exp (-x))
Tanh (_, tag='') = new ComputationNode { inputs = _ }  ## hyperbolic tangent
RectifiedLinear (_, tag='') = new ComputationNode { inputs = _ }  ## max (x, 0)
ReLU = RectifiedLinear
Reciprocal (_, tag='') = new ComputationNode { inputs = _ }  ## 1 / x
Negate (_, tag='') = new ComputationNode { inputs = _ }  ## -x
Square (_, tag='') = new ComputationNode { operation = 'ElementTimes'; inputs = _ : _ }  ## x times x
Pass (_, tag='') = new ComputationNode { inputs = _ }  ## the value itself
Identity = Pass
Trace (node, say='', logFrequency=100, logFirst=10, logGradientToo=false, onlyUpToRow=100000000, onlyUpToT=100000000, tag='') =  ## the node itself; training prints its values now and then
  if logGradientToo then Fail ("gradients are not printed: leave logGradientToo out")
  else new ComputationNode { inputs = node }
Clip (min, max, x, tag='') = new ComputationNode { inputs = min : max : x }  ## x limited to the range from min to max
Less (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x < y, else 0
Equal (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x = y, else 0
Greater (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x > y, else 0
GreaterEqual (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x >= y, else 0
NotEqual (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x differs from y, else 0
LessEqual (x, y, tag='') = new ComputationNode { inputs = x : y }  ## 1 where x <= y, else 0

# ---- softmax and criteria

Softmax (z, axis=0, tag='') = new ComputationNode { inputs = z }  ## exp (z) divided by its sum along the axis
LogSoftmax (z, axis=0, tag='') = new ComputationNode { inputs = z }  ## logarithm of the softmax along the axis
Hardmax (z, tag='') = new ComputationNode { inputs = z }  ## 1 at the largest element, 0 elsewhere
CrossEntropyWithSoftmax (labels, z, axis=0, tag='') =  ## criterion: cross entropy between labels and softmax (z)
  new ComputationNode { inputs = labels : z }
ClassificationError (labels, z, topN=1, axis=0, tag='') =  ## evaluation: 1 for each sample whose label is not among the topN largest of z
  new ComputationNode { inputs = labels : z }
ErrorPrediction = ClassificationError
Precision (labels, z, class=1, tag='') =  ## evaluation: share of the samples with the largest z at the class (from 0) that have its label
  new ComputationNode { inputs = labels : z }
Recall (labels, z, class=1, tag='') =  ## evaluation: share of the samples with the label of the class (from 0) that have the largest z there
  new ComputationNode { inputs = labels : z }
F1Score (labels, z, class=1, tag='') =  ## evaluation: harmonic mean of precision and recall of the class (from 0)
  new ComputationNode { inputs = labels : z }
CrossEntropy (ref, prob, tag='') = new ComputationNode { inputs = ref : prob }  ## criterion: -sum of ref times log (prob)
SquareError (a, b, tag='') = new ComputationNode { inputs = a : b }  ## criterion: sum of the squared differences
Logistic (label, prob, tag='') =  ## criterion of two classes: cross entropy of a label 0 or 1 and a probability
  new ComputationNode { inputs = label : prob }
WeightedLogistic (label, prob, weight, tag='') =  ## Logistic with a weight for each sample
  new ComputationNode { inputs = label : prob : weight }
ClassBasedCrossEntropyWithSoftmax (labelClassDescriptorVectorSequence, mainInputInfo, mainWeight, classLogProbsBeforeSoftmax, tag='') =
  new ComputationNode {
    inputs = labelClassDescriptorVectorSequence : mainInputInfo : mainWeight : classLogProbsBeforeSoftmax
  }
MatrixL1Reg (x, tag='') = new ComputationNode { inputs = x }  ## sum of the absolute values of a parameter, to add to a criterion
MatrixL2Reg (x, tag='') = new ComputationNode { inputs = x }  ## root of the sum of the squares of a parameter, to add to a criterion
CosDistance (a, b, tag='') = new ComputationNode { inputs = a : b }  ## cosine of the angle between two vectors
CosDistanceWithNegativeSamples (a, b, numShifts, numNegSamples, tag='') =
  _CosDistanceWithNegativeSamples (a, b, _Number (numShifts), _Number (numNegSamples), tag)
_CosDistanceWithNegativeSamples (a, b, shift, negatives, tag) =
  new ComputationNode { operation = 'CosDistanceWithNegativeSamples'; inputs = a : b }
_Number (x) = if IsDouble (x) then x else x.value    # of a constant
LambdaRank (gain, prediction, queryId, tag='') = new ComputationNode { inputs = gain : prediction : queryId }
NDCG1Eval (gain, prediction, queryId, tag='') = new ComputationNode { inputs = gain : prediction : queryId }

# ---- shape

Slice (begin, end, x, axis=1, tag='') = new ComputationNode { inputs = x }  ## elements begin to end - 1 along an axis; axis=-1 is time
RowSlice (begin, num, x, tag='') =  ## num rows from begin on
  new ComputationNode { operation = 'Slice'; inputs = x; end = begin + num; axis = 1 }
RowStack (inputs, axis=1, tag='') = new ComputationNode { }  ## joins tensors along an axis
Splice (inputs, axis=1, tag='') = new ComputationNode { operation = 'RowStack' }  ## joins tensors along an axis
RowRepeat (x, n, tag='') = new ComputationNode { inputs = x; numRepeats = n }  ## the rows n times below each other
NewReshape (x, dims, beginAxis=0, endAxis=0, tag='') =  ## the same elements under other dims; 0 for one that follows
  new ComputationNode { operation = 'Reshape'; inputs = x }
Reshape (x, numRows, imageWidth=0, imageHeight=0, imageChannels=0, tag='') =  ## the same elements under other dims
  new ComputationNode {
    inputs = x
    dims = if imageWidth == 0 then numRows else imageChannels : imageWidth : imageHeight
  }
ReshapeDimension (x, axis, shape, tag='') = NewReshape (x, shape, beginAxis=axis, endAxis=axis+1, tag=tag)  ## gives one axis another shape
FlattenDimensions (x, axis, num, tag='') = NewReshape (x, 0, beginAxis=axis, endAxis=axis+num, tag=tag)  ## makes one axis of several
SplitDimension (x, axis, N, tag='') =  ## makes an axis of length n into one of N and the rest
  NewReshape (x, 0 : N, beginAxis=axis, endAxis=axis+1, tag=tag)
TransposeDimensions (x, a, b, tag='') = new ComputationNode { inputs = x; axis1 = a; axis2 = b }  ## exchanges two axes
Transpose (x, tag='') = TransposeDimensions (x, 1, 2, tag=tag)  ## exchanges the first two axes

# ---- training and statistics of the data

Dropout (_, rate=None, tag='') =  ## zeroes a random part of the elements in training; the rate is SGD's dropoutRate
  new ComputationNode { inputs = _ }
Mean (x, tag='') = new ComputationNode { inputs = x }  ## mean of a stream over the training data, computed once before training
InvStdDev (x, tag='') =  ## 1 / standard deviation of a stream over the training data, computed once before training
  new ComputationNode { inputs = x }
PerDimMeanVarNormalization (x, mean, invStd, tag='') = new ComputationNode { inputs = x : mean : invStd }  ## (x - mean) .* invStd
PerDimMeanVarDeNormalization (x, mean, invStd, tag='') = new ComputationNode { inputs = x : mean : invStd }  ## x / invStd + mean
MeanVarNorm (x, tag='') =  ## normalises an input by mean and deviation of the training data
  PerDimMeanVarNormalization (x, Mean (x), InvStdDev (x), tag=tag)
LogPrior (labels, tag='') = Log (Mean (labels), tag=tag)  ## logarithm of the frequencies of the labels

# ---- layers

LinearLayer {outDim, bias=true, init='glorotUniform', initValueScale=1, inputRank=None, mapRank=None, initBias=0} = {  ## fully connected layer: W * x + b
  inputShape = if _IsNone (inputRank) then Inferred
               else if _IsNone (mapRank) then Repeat (inputRank, Inferred)
               else Fail ("give either inputRank or mapRank, not both")
  toMap = if !_IsNone (inputRank) then -1 else if _IsNone (mapRank) then 0 else mapRank
  W = ParameterTensor {outDim : inputShape, init=init, initValueScale=initValueScale,
                       initOutputRank=(if init == 'orthogonal' then Length (outDim) else 1)}  # 1: the ranges of CNTK
  b = ParameterTensor {outDim, init='fixedValue', value=initBias}
  product (x) = Times (W, x, outputRank=Length (outDim), inferInputRankToMap=toMap)
  apply (x) = if bias then product (x) + b else product (x)
}.apply

DenseLayer {outDim, bias=true, activation=(x => x), init='glorotUniform', initValueScale=1, inputRank=None, mapRank=None,
            initBias=0} =  ## fully connected layer with an activation: activation (W * x + b)
  Sequential (LinearLayer {outDim, bias=bias, init=init, initValueScale=initValueScale, inputRank=inputRank,
                           mapRank=mapRank, initBias=initBias} : activation)

EmbeddingLayer {outDim, init='glorotUniform', initValueScale=1, embeddingPath='', transpose=false} = {  ## table of vectors, one for each index of a sparse input
  shape = if transpose then Inferred : outDim else outDim : Inferred
  E = if embeddingPath == ''
      then ParameterTensor {shape, init=init, initValueScale=initValueScale}
      else ParameterTensor {shape, initFromFilePath=embeddingPath, learningRateMultiplier=0}
  apply (x) = if transpose then TransposeTimes (E, x) else Times (E, x)
}.apply
Embedding = EmbeddingLayer

LayerNormalizationLayer {initScale=1, initBias=0} = {  ## normalises each sample to mean 0 and deviation 1, then scales and shifts
  gain = ParameterTensor {1, init='fixedValue', value=initScale}
  bias = ParameterTensor {1, init='fixedValue', value=initBias}
  apply (x) = {
    x0 = x - ReduceMean (x)
    deviation = Sqrt (ReduceMean (x0 .* x0))
    result = gain .* ElementDivide (x0, deviation) + bias
  }.result
}.apply

StabilizerLayer {steepness=4} = {  ## multiplies by a trained positive scalar
  p = ParameterTensor {1, init='fixedValue', value=0.99537863}
  apply (x) = x .* (Log (1 + Exp (steepness .* p)) / steepness)
}.apply

FeatureMVNLayer {} = MeanVarNorm  ## normalises an input by mean and deviation of the training data
LogPriorLayer {} = LogPrior  ## logarithm of the frequencies of the labels

Sequential (arrayOfFunctions) = {  ## applies functions one after the other, the first one first
  chain = if IsArray (arrayOfFunctions) then arrayOfFunctions << 0 else [| arrayOfFunctions |]
  upTo (last, x) = if last < 0 then x else chain[last] (upTo (last - 1, x))
  apply (x) = upTo (Length (chain) - 1, x)
}.apply
Parallel (arrayOfFunctions, combine) = {  ## applies functions to the same input and joins their results
  branches = if IsArray (arrayOfFunctions) then arrayOfFunctions << 0 else [| arrayOfFunctions |]
  apply (x) = combine (array[0..Length (branches)-1] (i => branches[i] (x)))
}.apply
MergeBinary (arrayOfFunctions, combine) = {  ## joins the results of two functions
  branches = if Length (arrayOfFunctions) == 2 then arrayOfFunctions << 0
             else Fail ("MergeBinary joins two functions: (f : g)")
  apply (x) = combine (branches[0] (x), branches[1] (x))
}.apply
LayerStack {n, layer} = Sequential (array[0..n-1] (layer))  ## n layers one after the other; layer is a function of the index from 0

BFF (in, rows, cols) = {  ## the older W * in + B, as .z
  B = Parameter {rows, 1, init='fixedValue', value=0}
  W = Parameter {rows, cols}
  z = W * in + B
}
SBFF (in, rows, cols) = {  ## the older Sigmoid (W * in + B), as .Eh
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
    And (x, y) = x .* y  ## x and y, of nodes with 0 and 1
    Or (x, y) = Not (Not (x) .* Not (y))  ## x or y, of nodes with 0 and 1
    Xor (x, y) = Square (x - y)  ## one of x and y, of nodes with 0 and 1
    Not (x) = 1 - x  ## 1 - x
    Toggle (clk, initialValue=0) = {  ## changes between 0 and 1 at each step at which clk is 1
      state = Xor (PastValue (1, state, defaultHiddenActivation=initialValue), clk)
    }.state
    If (cond, thenVal, elseVal, tag='') =  ## thenVal where cond is not 0, else elseVal
      new ComputationNode { inputs = cond : thenVal : elseVal }
  }
  Network = {
    Load (pathName) = _LoadNetwork (pathName)  ## a trained model from a file
    CloneFunction (inputNodes, outputNodes, parameters='learnable') =  ## a part of a loaded model as a function
      _CloneFunction (inputNodes, outputNodes, parameters)
    Edit (inputModel, editFunctions, additionalRoots=[| |]) =  ## a loaded model with some of its nodes replaced
      _EditNetwork (inputModel, editFunctions, additionalRoots)
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
    WeightParam (outputDim, inputDim, initValueScale=1) =  ## a trained matrix
      Parameter {outputDim, inputDim, init='uniform', initValueScale=initValueScale, randomSeed=1}
    DiagWeightParam (outputDim, initValueScale=1) =
      ParameterTensor {outputDim, init='uniform', initValueScale=initValueScale, randomSeed=1}
    BiasParam (dim) = ParameterTensor {dim, init='fixedValue', value=0}  ## a trained vector that begins as 0
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
  Slice (_, begin, end, axis=1, tag='') = new ComputationNode { inputs = _ }
  Splice (inputs, axis=1, tag='') = new ComputationNode { operation = 'RowStack' }
  Reshape (_, dims, beginAxis=0, endAxis=0, tag='') = new ComputationNode { inputs = _ }
  TransposeAxes (_, axis1, axis2, tag='') = new ComputationNode { operation = 'TransposeDimensions'; inputs = _ }
  Clip (_, min, max, tag='') = new ComputationNode { inputs = min : max : _ }
  Pooling (_, poolingType, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =
    new ComputationNode { inputs = _ }
  MaxUnpooling (_, poolInput, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =
    new ComputationNode { inputs = _ : poolInput; poolingType = 'max' }
  ROIPooling (_, rois, shape, tag='') = new ComputationNode { inputs = _ : rois }
  BatchNormalization (_, scale, bias, runMean, runVariance, spatial, normalizationTimeConstant=0, blendTimeConstant=0,
                      epsilon=0.00001, useCntkEngine=true, imageLayout='CHW', synchronized=false, tag='') =
    new ComputationNode { inputs = _ : scale : bias : runMean : runVariance }
  Times (_, y, outputRank=1, inferInputRankToMap=-1, tag='') = new ComputationNode { inputs = _ : y }
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
  CrossEntropyWithSoftmax (_, outputs, axis=0, tag='') = new ComputationNode { inputs = _ : outputs }
  ClassificationError (_, outputs, topN=1, axis=0, tag='') = new ComputationNode { inputs = _ : outputs }
  SquareError (_, b, tag='') = new ComputationNode { inputs = _ : b }
  Dropout (_, rate=None, tag='') = new ComputationNode { inputs = _ }
  Identity = Pass
}
)BS";

}  // namespace

std::string library_text() {
  std::string all(text);
  for (const std::string_view part :
       {image_library, recurrent_library, seq2seq_library, keras_library, simple_library, ndl_library})
    all += part;
  return all;
}

const NotAvailable* find_not_available(const std::string& name) {
  static const std::string sampling =
      "train with CrossEntropyWithSoftmax over all classes, or ClassBasedCrossEntropyWithSoftmax";
  static const std::string sequences = "train with CrossEntropyWithSoftmax on the labels of the frames";
  static const std::string lstm =
      "use RecurrentLSTMLayer or RecurrentLSTMLayerStack; GRUs are BS.RNNs.RecurrentGRUStack";
  static const std::vector<NotAvailable> all = {
      {"OptimizedRNNStack", lstm},
      {"RNNStack", lstm},
      {"RandomSample", sampling},
      {"GetRandomSample", sampling},
      {"RandomSampleInclusionFrequency", sampling},
      {"GetInclusionFrequency", sampling},
      {"SequenceWithSoftmax", sequences},
      {"SequenceWithLattice", sequences},
      {"SequenceDecoder", "write the scores of the labels and decode them outside of the network"},
      {"CRF", sequences},
      {"ForwardBackward", sequences},
      {"LabelsToGraph", sequences},
      {"DummyCriterion", "compute the criterion in the network; derivatives of other programs cannot be read"},
      {"EditDistanceError",
       "write the decoded labels and compare them outside of the network; ClassificationError counts frames"},
      {"GMMLogLikelihood", "write the mixture out: ReduceLogSum (LogSoftmax (prior) - ...) over its components"},
      {"EnvironmentInput", "give the value as a Constant"},
      {"QuantizedTimes", "use Times; computeType = \"bfloat16\" computes products in 16 bits"},
      {"StrideTimes", "use Times on a Slice"},
      {"PairNetwork", "name both networks in one description: BS.Network.CloneFunction takes parts of trained models"},
  };
  const auto found = std::ranges::find_if(all, [&](const auto& n) { return config::equal_keys(n.name, name); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tutti::brainscript
