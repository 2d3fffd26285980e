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
extern const std::string_view cntk2_library;

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
LearnableParameter = Parameter
Const = Constant
ConstantTensor {val, dims, tag=''} =  ## a tensor of one value that is not trained
  ParameterTensor {dims, learningRateMultiplier=0, init='fixedValue', value=val, tag=tag}
ConstantFromString (literal, tag='') =  ## a constant whose values stand in a text
  ParameterTensor {0 : 0, learningRateMultiplier=0, init='fromLiteral', initFromLiteral=literal, tag=tag}

# ---- products and sums

Times (x, y, outputRank=1, inferInputRankToMap=-1, tag='') =  ## matrix product; contracts outputRank axes less than x has
  new ComputationNode { inputs = x : y }
TransposeTimes (leftMatrix, rightMatrix, outputRank=1, tag='') =  ## matrix product with the left matrix transposed
  new ComputationNode { inputs = leftMatrix : rightMatrix }
LookupTable (embeddingMatrix, inputTensor, tag='') = new ComputationNode { inputs = embeddingMatrix : inputTensor }
DiagTimes (diagonalMatrixAsColumnVector, matrix, tag='') =  ## each row of the matrix times one element of the vector
  new ComputationNode { inputs = diagonalMatrixAsColumnVector : matrix }
KhatriRaoProduct (leftMatrix, rightMatrix, tag='') =  ## column by column, all products of an element of each
  new ComputationNode { inputs = leftMatrix : rightMatrix }
ColumnwiseCrossProduct = KhatriRaoProduct
ElementTimes (x, y, tag='') = new ComputationNode { inputs = x : y }  ## product element by element, with broadcast of axes of 1
ColumnElementTimes (aVectorSequence, anotherVectorSequence, tag='') =  ## product of each column with a vector, element by element
  new ComputationNode { operation = 'ElementTimes'; inputs = aVectorSequence : anotherVectorSequence }
ElementDivide (x, y, tag='') =  ## quotient element by element
  new ComputationNode { operation = 'ElementTimes'; inputs = x : Reciprocal (y) }
Scale (scalarScalingFactor, matrix, tag='') =  ## a scalar node times a node
  new ComputationNode { operation = 'ElementTimes'; inputs = scalarScalingFactor : matrix }
Plus (x, y, tag='') = new ComputationNode { inputs = x : y }  ## sum, with broadcast of axes of 1
Minus (x, y, tag='') = new ComputationNode { inputs = x : y }  ## difference, with broadcast of axes of 1
LogPlus (leftMatrix, rightMatrix, tag='') = new ComputationNode { inputs = leftMatrix : rightMatrix }  ## log (exp (x) + exp (y)), element by element
SumElements (matrix, tag='') = new ComputationNode { inputs = matrix }  ## sum of all elements of the minibatch
SumColumnElements (z, tag='') = new ComputationNode { inputs = z }  ## sum over the elements of each sample
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
Trace (node, say='', logFrequency=100, logFirst=10, logGradientToo=false, onlyUpToRow=100000000, onlyUpToT=100000000,
       format=None, tag='') =  ## the node itself; training prints its values now and then
  new ComputationNode {
    inputs = _WarnIf (logGradientToo, "Trace prints no gradients", "leave logGradientToo out",
                      _WarnIf (!_IsNone (format), "'format' of Trace has no effect", "leave format out", node))
  }
Clip (minValue, maxValue, x, tag='') = new ComputationNode { inputs = minValue : maxValue : x }  ## x limited to a range
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
CrossEntropyWithSoftmax (labelSequence, outProbVectorSequence, axis=0, tag='') =  ## criterion: cross entropy between labels and softmax (z); with an axis, a value per sample
  if axis == 0 then new ComputationNode { inputs = labelSequence : outProbVectorSequence }
  else _CrossEntropyAlong (labelSequence, outProbVectorSequence, axis, tag)
ClassificationError (labelSequence, outVectorSequence, topN=1, axis=0, tag='') =  ## evaluation: 1 for each sample whose label is not among the topN largest elements
  if axis == 0 then new ComputationNode { inputs = labelSequence : outVectorSequence }
  else _ErrorAlong (labelSequence, outVectorSequence, topN, axis, tag)
_CrossEntropyAlong (labels, z, along, tag) =
  Minus (ReduceLogSum (z, axis=along), ReduceSum (labels .* z, axis=along), tag=tag)
_ErrorAlong (labels, z, topN, along, tag) =    # the share of predictions that are wrong; more than one maximum is wrong
  if topN != 1 then Fail ("topN needs all elements of a sample, not one axis", "leave topN or axis out")
  else ReduceMean (GreaterEqual (ReduceSum (NotEqual (labels, Equal (z, ReduceMax (z, axis=along))), axis=along), 1), tag=tag)
ErrorPrediction = ClassificationError
Precision (labels, z, class=1, tag='') =  ## evaluation: share of the samples with the largest z at the class (from 0) that have its label
  new ComputationNode { inputs = labels : z }
Recall (labels, z, class=1, tag='') =  ## evaluation: share of the samples with the label of the class (from 0) that have the largest z there
  new ComputationNode { inputs = labels : z }
F1Score (labels, z, class=1, tag='') =  ## evaluation: harmonic mean of precision and recall of the class (from 0)
  new ComputationNode { inputs = labels : z }
CrossEntropy (refProbVectorSequence, outProbVectorSequence, tag='') =  ## criterion: -sum of the first times the logarithm of the second
  new ComputationNode { inputs = refProbVectorSequence : outProbVectorSequence }
SquareError (aMatrix, anotherMatrix, tag='') = new ComputationNode { inputs = aMatrix : anotherMatrix }  ## criterion: sum of the squared differences
Logistic (label, probability, tag='') =  ## criterion of two classes: cross entropy of a label 0 or 1 and a probability
  new ComputationNode { inputs = label : probability }
WeightedLogistic (label, probability, instanceWeight, tag='') =  ## Logistic with a weight for each sample
  new ComputationNode { inputs = label : probability : instanceWeight }
ClassBasedCrossEntropyWithSoftmax (labelClassDescriptorVectorSequence, mainInputInfo, mainWeight, classLogProbsBeforeSoftmax, tag='') =
  new ComputationNode {
    inputs = labelClassDescriptorVectorSequence : mainInputInfo : mainWeight : classLogProbsBeforeSoftmax
  }
MatrixL1Reg (matrix, tag='') = new ComputationNode { inputs = matrix }  ## sum of the absolute values of a parameter, to add to a criterion
MatrixL2Reg (matrix, tag='') = new ComputationNode { inputs = matrix }  ## root of the sum of the squares of a parameter, to add to a criterion
CosDistance (aVectorSequence, anotherVectorSequence, tag='') =  ## cosine of the angle between two vectors
  new ComputationNode { inputs = aVectorSequence : anotherVectorSequence }
CosDistanceWithNegativeSamples (aVectorSequence, anotherVectorSequence, numShifts, numNegSamples, tag='') =
  _CosDistanceWithNegativeSamples (aVectorSequence, anotherVectorSequence, _Number (numShifts), _Number (numNegSamples),
                                   tag)
_CosDistanceWithNegativeSamples (a, b, shift, negatives, tag) =
  new ComputationNode { operation = 'CosDistanceWithNegativeSamples'; inputs = a : b }
_Number (x) = if IsDouble (x) then x else x.value    # of a constant
LambdaRank (gain, prediction, queryId, tag='') = new ComputationNode { inputs = gain : prediction : queryId }
NDCG1Eval (gain, prediction, queryId, tag='') = new ComputationNode { inputs = gain : prediction : queryId }

# ---- shape

Slice (beginIndex, endIndex, input, axis=1, tag='') =  ## elements beginIndex to endIndex - 1 along an axis; axis=-1 is time
  new ComputationNode { inputs = input; begin = beginIndex; end = endIndex }
RowSlice (beginIndex, numRows, input, tag='') =  ## numRows rows from beginIndex on
  new ComputationNode { operation = 'Slice'; inputs = input; begin = beginIndex; end = beginIndex + numRows; axis = 1 }
RowStack (inputs, axis=1, tag='') = new ComputationNode { }  ## joins tensors along an axis
Splice (inputs, axis=1, tag='') =  ## joins tensors along an axis
  if axis < 1 then _NotInTime () else new ComputationNode { operation = 'RowStack' }
_NotInTime () = Fail ("only the axes of a sample can be joined", "count them from 1: axis = 1 joins rows; time cannot be joined")
RowRepeat (input, numRepeats, tag='') = new ComputationNode { inputs = input }  ## the rows numRepeats times below each other
NewReshape (input, dims, beginAxis=0, endAxis=0, tag='') =  ## the same elements under other dims; 0 for one that follows
  new ComputationNode { operation = 'Reshape'; inputs = input }
Reshape (input, numRows, imageWidth=0, imageHeight=0, imageChannels=0, tag='') =  ## the same elements under other dims
  new ComputationNode {
    inputs = input
    dims = if imageWidth == 0 then numRows else imageChannels : imageWidth : imageHeight
  }
ReshapeDimension (x, axis, tensorShape, tag='') = NewReshape (x, tensorShape, beginAxis=axis, endAxis=axis+1, tag=tag)  ## gives one axis another shape
FlattenDimensions (x, axis, num, tag='') = NewReshape (x, 0, beginAxis=axis, endAxis=axis+num, tag=tag)  ## makes one axis of several
SplitDimension (x, axis, N, tag='') =  ## makes an axis of length n into one of N and the rest
  NewReshape (x, 0 : N, beginAxis=axis, endAxis=axis+1, tag=tag)
TransposeDimensions (_, axis1, axis2, tag='') = new ComputationNode { inputs = _ }  ## exchanges two axes
Transpose (x, tag='') = TransposeDimensions (x, 1, 2, tag=tag)  ## exchanges the first two axes

# ---- training and statistics of the data

Dropout (_, rate=None, tag='') =  ## zeroes a random part of the elements in training; the rate is SGD's dropoutRate
  new ComputationNode { inputs = _ }
Mean (dataVectorSequence, tag='') = new ComputationNode { inputs = dataVectorSequence }  ## mean of a stream over the training data, computed once before training
InvStdDev (dataVectorSequence, tag='') =  ## 1 / standard deviation of a stream over the training data, computed once before training
  new ComputationNode { inputs = dataVectorSequence }
PerDimMeanVarNormalization (x, mean, invStdDev, tag='') =  ## (x - mean) .* invStdDev
  new ComputationNode { inputs = x : mean : invStdDev }
PerDimMeanVarDeNormalization (dataVectorSequence, meanVector, invStdDevVector, tag='') =  ## x / invStdDev + mean
  new ComputationNode { inputs = dataVectorSequence : meanVector : invStdDevVector }
MeanVarNorm (feat, tag='') =  ## normalises an input by mean and deviation of the training data
  PerDimMeanVarNormalization (feat, Mean (feat), InvStdDev (feat), tag=tag)
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
# The older function returns a node, with a table that is not trained; without an input it is the layer.
Embedding (embeddingDim, input=None, inputDim=0, initFrom='', embeddingPath='', sparseInput=false, learningRateWeight=0,
           init='glorotUniform', initValueScale=1, transpose=false) =  ## vectors of words, which the input has as one-hot vectors
  if _IsNone (input)
  then EmbeddingLayer {embeddingDim, init=init, initValueScale=initValueScale, embeddingPath=embeddingPath,
                       transpose=transpose}
  else if input.dim == 1 && !sparseInput
  then Fail ("the input has one element: it must be a one-hot vector", "give an input with an element for each word")
  else {
    E = Parameter {inputDim, embeddingDim, learningRateMultiplier=learningRateWeight, init=initFrom,
                   initFromFilePath=embeddingPath}
    lookup = TransposeTimes (E, input)
  }.lookup

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
Parallel (arrayOfFunctions, combineFunction) = {  ## applies functions to the same input and joins their results
  branches = if IsArray (arrayOfFunctions) then arrayOfFunctions << 0 else [| arrayOfFunctions |]
  apply (x) = combineFunction (array[0..Length (branches)-1] (i => branches[i] (x)))
}.apply
MergeBinary (arrayOfFunctions, combineFunction) =  ## applies each of two functions to its own input, and joins the results
  if Length (arrayOfFunctions) != 2 then Fail ("MergeBinary joins two functions: (f : g)")
  else {
    branches = arrayOfFunctions << 0
    apply (x, y) = combineFunction (branches[0] (x), branches[1] (y))
  }.apply
LayerStack {n, c} = Sequential (array[0..n-1] (c))  ## n layers one after the other; c is a function of the index from 0

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
    True = 1
    False = 0
    OnesTensor (dims) = ConstantTensor {1, dims}
    ZeroesLike (x) = 0 .* x
    ZeroesLike1 (x) = 0 .* x
    ZeroSequenceLike (x) = _ZeroSequence (x)
    OnesLike (x) = 0 .* x + 1
    Range (dim) = Splice (array[0..dim-1] (i => Constant {i}))
  }
  Boolean = {
    True = 1
    False = 0
    And (a, b) = a .* b  ## a and b, of nodes with 0 and 1
    Or (a, b) = Not (Not (a) .* Not (b))  ## a or b, of nodes with 0 and 1
    Xor (a, b) = Square (a - b)  ## one of a and b, of nodes with 0 and 1
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
)BS";

}  // namespace

std::string library_text() {
  std::string all(text);
  for (const std::string_view part :
       {image_library, recurrent_library, seq2seq_library, cntk2_library, keras_library, simple_library, ndl_library})
    all += part;
  return all;
}

const NotAvailable* find_not_available(const std::string& name) {
  static const std::string sampling =
      "train with CrossEntropyWithSoftmax over all classes, or ClassBasedCrossEntropyWithSoftmax";
  static const std::string sequences = "train with CrossEntropyWithSoftmax on the labels of the frames";
  static const std::string lstm =
      "use RecurrentLSTMLayer or RecurrentLSTMLayerStack; GRUs are BS.RNNs.RecurrentGRUStack";
  static const std::string mixture =
      "write the mixture out: ReduceLogSum (LogSoftmax (prior) - ...) over its components";
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
      {"GMMLogLikelihood", mixture},
      {"EnvironmentInput", "give the value as a Constant"},
      {"Acos", "approximate it by a polynomial in x"},
      {"Asin", "approximate it by a polynomial in x"},
      {"Asinh", "write Log (x + Sqrt (x .* x + 1))"},
      {"Atanh", "write (Log (1 + x) - Log (1 - x)) / 2"},
      {"Cosh", "write (Exp (x) + Exp (-x)) / 2"},
      {"Sinh", "write (Exp (x) - Exp (-x)) / 2"},
      {"Diagonal", "multiply the matrix by a unit matrix, element by element, and add up its rows"},
      {"GMMLL", mixture},
      {"LSTM", lstm},
      {"QuantizedTimes", "use Times; computeType = \"bfloat16\" computes products in 16 bits"},
      {"StrideTimes", "use Times on a Slice"},
      {"PairNetwork", "name both networks in one description: BS.Network.CloneFunction takes parts of trained models"},
  };
  const auto found = std::ranges::find_if(all, [&](const auto& n) { return config::equal_keys(n.name, name); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tutti::brainscript
