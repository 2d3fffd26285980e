// SPDX-License-Identifier: Apache-2.0
// What the other builders' networks are written in.
#include <string_view>

namespace tutti::brainscript {

// The part of the standard library that networks from Keras files are written in: what the layers of this language do
// in another way (initial states of 0, biases of gates, activations with parameters).
extern constexpr std::string_view keras_library = R"BS(
_Keras = {
  HardSigmoid (x) = Clip (0, 1, 0.2 .* x + 0.5)
  Elu (x, alpha) = ReLU (x) + alpha .* (Exp (-ReLU (-x)) - 1)
  Selu (x) = 1.0507009873554805 .* Elu (x, 1.6732632423543772)
  Softplus (x) = ReLU (x) + Log (1 + Exp (-Abs (x)))
  Softsign (x) = ElementDivide (x, 1 + Abs (x))
  Swish (x) = x .* Sigmoid (x)
  Leaky (x, alpha) = ReLU (x) - alpha .* ReLU (-x)
  Capped (x, most) = Clip (0, most, x)
  Linear (x) = x
  Larger (x, y) = BS.Boolean.If (Greater (x, y), x, y)

  Prelu {dims, init, initValueScale, value} = {
    alpha = ParameterTensor {dims, init=init, initValueScale=initValueScale, value=value}
    apply (x) = ReLU (x) - alpha .* ReLU (-x)
  }.apply

  Normalization {dims, spatial, scaled, shifted, timeConstant, epsilon, synchronized} = {
    scale = ParameterTensor {dims, init='fixedValue', value=1, learningRateMultiplier=if scaled then 1 else 0}
    bias = ParameterTensor {dims, init='fixedValue', value=0, learningRateMultiplier=if shifted then 1 else 0}
    runMean = ParameterTensor {dims, init='fixedValue', value=0, learningRateMultiplier=0}
    runVariance = ParameterTensor {dims, init='fixedValue', value=1, learningRateMultiplier=0}
    apply (x) = BatchNormalization (x, scale, bias, runMean, runVariance, spatial=spatial,
                                    normalizationTimeConstant=timeConstant, epsilon=epsilon, useCntkEngine=false, synchronized=synchronized)
  }.apply

  Delayed (units, x, goBackwards) =
    if goBackwards then FutureValue (units, x, defaultHiddenActivation=0) else PastValue (units, x, defaultHiddenActivation=0)
  FromInput {rows, bias, init, initValueScale} = {
    W = ParameterTensor {rows : Inferred, init=init, initValueScale=initValueScale}
    b = ParameterTensor {rows, initValue=bias}
    apply (x) = if IsArray (bias) then W * x + b else W * x
  }

  # With the usual activations (`plain`) all steps are one operation.
  Lstm {units, bias, activation, gateActivation, init, initValueScale, recurrentInit, recurrentScale, goBackwards, plain} = {
    input = FromInput {4 * units, bias, init, initValueScale}
    H = ParameterTensor {4 * units : units, init=recurrentInit, initValueScale=recurrentScale}
    fused (x) = new ComputationNode {
      operation = 'LSTM'
      inputs = input.apply (x) : H
      backwards = goBackwards
      defaultHiddenActivation = 0
    }
    stepwise (x) = {
      gates = input.apply (x) + H * Delayed (units, h, goBackwards)
      gate (k) = Slice (k * units, (k + 1) * units, gates)
      c = gateActivation (gate (2)) .* Delayed (units, c, goBackwards) + gateActivation (gate (0)) .* activation (gate (1))
      h = gateActivation (gate (3)) .* activation (c)
    }.h
    apply (x) = if plain then fused (x) else stepwise (x)
  }.apply

  # The reset gate acts on the state or, where it comes late, on its product, which then has a bias of its own.
  # With the usual activations (`plain`) all steps are one operation.
  Gru {units, bias, activation, gateActivation, init, initValueScale, recurrentInit, recurrentScale, goBackwards, late, plain} = {
    input = FromInput {3 * units, bias, init, initValueScale}
    H = ParameterTensor {3 * units : units, init=recurrentInit, initValueScale=recurrentScale}
    bh = ParameterTensor {3 * units, init='fixedValue', value=0}
    fused (x) = new ComputationNode {
      operation = 'GRU'
      inputs = if late && IsArray (bias) then input.apply (x) : H : bh else input.apply (x) : H
      backwards = goBackwards
      defaultHiddenActivation = 0
      resetAfter = late
    }
    part (x, k) = Slice (k * units, (k + 1) * units, x)
    after (x) = {
      fromInput = input.apply (x)
      before = Delayed (units, h, goBackwards)
      fromBefore = if IsArray (bias) then H * before + bh else H * before
      z = gateActivation (part (fromInput, 0) + part (fromBefore, 0))
      r = gateActivation (part (fromInput, 1) + part (fromBefore, 1))
      candidate = activation (part (fromInput, 2) + r .* part (fromBefore, 2))
      h = z .* before + (1 - z) .* candidate
    }.h
    rows (k) = Slice (k * units, (k + 1) * units, H)
    directly (x) = {
      fromInput = input.apply (x)
      before = Delayed (units, h, goBackwards)
      z = gateActivation (part (fromInput, 0) + rows (0) * before)
      r = gateActivation (part (fromInput, 1) + rows (1) * before)
      candidate = activation (part (fromInput, 2) + rows (2) * (r .* before))
      h = z .* before + (1 - z) .* candidate
    }.h
    apply (x) = if plain then fused (x) else if late then after (x) else directly (x)
  }.apply

  Simple {units, bias, activation, init, initValueScale, recurrentInit, recurrentScale, goBackwards} = {
    input = FromInput {units, bias, init, initValueScale}
    H = ParameterTensor {units : units, init=recurrentInit, initValueScale=recurrentScale}
    apply (x) = {
      h = activation (input.apply (x) + H * Delayed (units, h, goBackwards))
    }.h
  }.apply
}
)BS";

// The networks of SimpleNetworkBuilder in the network language. Nodes and their order are the original's: initial
// weights and the names of unnamed nodes (AutoName0, ...) depend on the order, so records are evaluated in theirs.
extern constexpr std::string_view simple_library = R"BS(
_SimpleNetwork (o) = _InOrder ({
  feedForward = o.type == 'SIMPLENET'
  n = Length (o.sizes) - 2    # hidden layers
  size (k) = o.sizes[k]
  lookup = if o.order > 0 then 1 else 0
  width = size (lookup) * Max (o.order, 1)    # of what the first layer behind the lookup table reads

  node (operation, inputs) = new ComputationNode { }
  input (name, dims, sparse) = _Named (name, new ComputationNode { operation = 'InputValue' })
  random (name, rows, cols) = _Named (name, new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : cols
    init = if o.uniform then 'uniform' else 'gaussian'; initValueScale = o.scale
  })
  constant (name, rows, value) = _Named (name, new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : 1; init = 'fixedValue'
  })
  past (dims, inputs, timeStep) = new ComputationNode { operation = 'PastValue'; defaultHiddenActivation = o.activity }
  typeOf (k) = o.types[Min (k, Length (o.types) - 1)]    # of hidden layer k; the last type repeats
  nonlinear (k, x) = if typeOf (k) == 'None' then x else node (typeOf (k), x)
  drop (x) = if o.dropout then node ('Dropout', x) else x
  dropAs (x) = if o.dropout then _Named ('Drop' + x.name, node ('Dropout', x)) else x
  named (name, x) = if feedForward then _Named (name, x) else x

  features = input ('features', size (0), o.sparse)
  mean () = named ('MeanOfFeatures', node ('Mean', features))
  deviation () = named ('InvStdOfFeatures', node ('InvStdDev', features))
  x0 = if !o.normalize then features
       else named ('MVNormalizedFeatures', node ('PerDimMeanVarNormalization', features : mean () : deviation ()))
  lookedUp () = _InOrder ({
    E = random ('E0', size (1), size (0) / o.order)
    y = drop (_Named ('LookupTable', node ('LookupTable', E : x0)))
  }).y

  # W x + b, with the original's names
  dense (k, x) = _InOrder ({
    W = random ('W' + Format (k), size (k + 1), size (k))
    b = constant ('B' + Format (k), size (k + 1), 0)
    product = _Named (W.name + '*' + x.name, W * x)
    sum = _Named (if k == n then 'HLast' else product.name + '+' + b.name, product + b)
    y = if k == n then sum else dropAs (_Named ('H' + Format (k + 1), nonlinear (k, sum)))
  }).y

  # U x + W h(t-1) if it loops, otherwise U x + b
  layer (i, x, loops, randomBias, typeAs) = _InOrder ({
    U = random ('U' + Format (i), size (i + 1), size (i))
    W = if loops then random ('W' + Format (i), size (i + 1), size (i + 1))
        else if randomBias then random ('B' + Format (i), size (i + 1), 1)
        else constant ('B' + Format (i), size (i + 1), 0)
    before = if loops then past (size (i + 1), h, 1) else None
    h = if loops then nonlinear (typeAs, U * x + W * before) else nonlinear (i, U * x + W)
  }).h

  # With peepholes. Each use of the last step is a delay of its own.
  lstm (i, in, out, x) = _InOrder ({
    weight (name, cols) = random (name + Format (i), out, cols)
    bias (name, value) = constant (name + Format (i), out, value)
    XO = weight ('WXO', in); XI = weight ('WXI', in); XF = weight ('WXF', in); XC = weight ('WXC', in)
    bo = bias ('bo', o.outputBias); bc = bias ('bc', 0); bi = bias ('bi', o.inputBias); bf = bias ('bf', o.forgetBias)
    HI = weight ('WHI', out); CI = weight ('WCI', 1); HF = weight ('WHF', out); CF = weight ('WCF', 1)
    HO = weight ('WHO', out); CO = weight ('WCO', 1); HC = weight ('WHC', out)
    lastH () = past (out, h, 1)
    lastC () = past (out, cell, 1)
    gate (X, b, H, C, state) = _InOrder ({
      before = lastH (); c = state
      fromX = X * x + b; fromH = H * before; fromC = node ('DiagTimes', C : c)
      y = nonlinear (0, fromX + fromH + fromC)
    }).y
    candidate () = node ('Tanh', XC * x + (HC * lastH () + bc))
    fresh = if o.constInputGate then candidate () else gate (XI, bi, HI, CI, lastC ()) .* candidate ()
    kept = if o.constForgetGate then lastC () else gate (XF, bf, HF, CF, lastC ()) .* lastC ()
    cell = kept + fresh
    squashed = node ('Tanh', cell)
    h = if o.constOutputGate then squashed else gate (XO, bo, HO, CO, cell) .* squashed
    y = drop (h)
  }).y

  bilinear (i, x, loops) = _InOrder ({
    U = random ('U' + Format (i), size (i + 1), if i == lookup then width else size (i))
    below = U * x
    R = if loops then random ('R' + Format (i + 1), size (i + 1), size (i + 1)) else None
    before = if loops then past (size (i + 1), z, 1) else None
    z = if loops then R * before + below else below
    b = constant ('bi' + Format (i), size (i + 1), 0)
    y = drop (z + b)
  }).y

  lastWeight () = random ('W' + Format (n), size (n + 1), size (n))
  compared (prefix, criterion, labels, z) = _Named (prefix + criterion, node (criterion,
    labels : (if criterion == 'Logistic' then named (prefix + 'LogisticProb', node ('Sigmoid', z)) else z)))
  # Criterion and evaluation of recurrent networks are one node where they are the same.
  scored (scores, sparse) = _InOrder ({
    labels = input ('labels', size (n + 1), sparse)
    z = scores
    criteria = compared ('', o.criterion, labels, z)
    evaluations = if o.evaluation == o.criterion && !feedForward then criteria
                  else compared ('Eval', o.evaluation, labels, z)
  })
  # A column of W for each word.
  scoredByClass (x) = _InOrder ({
    W = random ('W' + Format (n), size (n), size (n + 1))
    labels = input ('labels', 4, false)
    classes = random ('WeightForClassPostProb', o.classes, size (n))
    scores = _Named ('ClassPostProb', classes * x)
    criteria = _Named ('TrainNodeClassBasedCrossEntropy', node (o.criterion, labels : x : W : scores))
    evaluations = criteria
  })
  likelihood (z, labels) =
    _Named ('ScaledLogLikelihood', z - _Named ('LogOfPrior', node ('Log', named ('Prior', node ('Mean', labels)))))
  posterior (z) = _Named ('PosteriorProb', node ('Softmax', z))

  # Each network has `outputs`, and in `result` its labels, criteria and evaluations.
  Feed () = {
    x = dropAs (x0)
    h[k:0..n] = dense (k, if k == 0 then x else h[k-1])
    result = scored (h[n], false)
    outputs = if o.prior then likelihood (h[n], result.labels) else h[n]
    softmax = posterior (h[n])
  }
  Rnn () = {
    h[i:0..n-1] = drop (layer (i, if i == 0 then x0 else h[i-1], o.loops[i], false, 0))
    W = lastWeight ()
    result = scored (W * h[n-1], false)
    criterion = _Named ('criterion', result.criteria)
    evaluation = if o.evaluation == o.criterion then criterion else _Named ('eval', result.evaluations)
    outputs = _Named ('outputs', W * h[n-1])
  }
  ClassRnn () = {
    h[i:0..n-1] = drop (layer (i, if i == 0 then x0 else h[i-1], o.loops[i], true, 0))
    result = scoredByClass (h[n-1])
    outputs = result.criteria
  }
  lstms () = _InOrder ({
    x = if lookup == 1 then lookedUp () else x0
    h[i:lookup..n-1] = if i == lookup then lstm (0, width, size (lookup + 1), x)
      else drop (if o.loops[i] then lstm (i, size (i), size (i + 1), h[i-1]) else layer (i, h[i-1], false, false, 0))
  }).h[n-1]
  Lstm () = {
    h = lstms ()
    W = lastWeight ()
    result = scored (W * h, false)
    z = _Named ('outputs', W * h)
    outputs = if o.prior then likelihood (z, result.labels) else z
    softmax = posterior (z)
  }
  ClassLstm () = {
    x = lstms ()
    extra = if o.type == 'CLSTM' then input ('binaryFeature', o.extra, false) else None
    A = if o.type == 'CLSTM' then random ('AuxTrans0', size (n), o.extra) else None
    h = if o.type != 'CLSTM' then x
        else _Named ('PlusGlobalBias', x + _Named ('TimesToGetGlobalBias', nonlinear (n, A * extra)))
    result = scoredByClass (h)
    outputs = _Named ('outputs', node ('TransposeTimes', result.W : h))
    softmax = posterior (outputs)
  }
  LogBilinear () = {
    x = if lookup == 1 then lookedUp () else x0
    sums[k:0..o.averaged] = if k == 0 then x else _InOrder ({
      earlier = _Named ('pastValue' + Format (k), past (width, x, k))
      D = random ('DD' + Format (k), width, width)
      y = sums[k-1] + D * earlier
    }).y
    first = drop (sums[o.averaged])
    h[i:lookup..n-1] = bilinear (i, if i == lookup then first else h[i-1], o.loops[i])
    W = lastWeight ()
    result = scored (W * h[n-1], false)
    outputs = _Named ('outputs', W * h[n-1])
  }
  # The first hidden layer reads the word and the four before it.
  NeuralProb () = {
    b = constant ('bi0', size (1), 0)
    weight (name) = random (name, size (1), size (0))
    W2 = weight ('WXI2'); W3 = weight ('WXI3'); W4 = weight ('WXI4'); W1 = weight ('WXI1'); W0 = weight ('WXI')
    before (k, W, sum) = W * past (size (0), x0, k) + sum
    s0 = W0 * x0; s1 = before (1, W1, s0); s2 = before (2, W2, s1); s3 = before (3, W3, s2); s4 = before (4, W4, s3)
    first = drop (node ('Tanh', s4) + b)
    h[i:0..n-1] = if i == 0 then first else drop (layer (i, h[i-1], o.loops[i], false, i))
    W = lastWeight ()
    result = scored (W * h[n-1], true)
    outputs = W * h[n-1]
  }
  net = _InOrder (
    if feedForward then Feed () else if o.type == 'SIMPLERNN' then Rnn () else if o.type == 'CLASSLM' then ClassRnn ()
    else if o.type == 'LSTM' then Lstm () else if o.type == 'LBLM' then LogBilinear ()
    else if o.type == 'NPLM' then NeuralProb () else ClassLstm ())
  featureNodes = if o.type == 'CLSTM' then features : net.extra else features
})
)BS";

// Functions of the older network language (NDL) that differ from their namesakes in BrainScript: the order of their
// arguments, their defaults, the layout of images. ndl_functions.cpp names those that are the same.
extern constexpr std::string_view ndl_library = R"BS(
_Unused (why) = None    # the default of an argument that has no effect, and the reason

_NdlImageDims (w, h, c, images, imageLayout) =
  if images == 1 then _ImageDims (w, h, c, imageLayout) else _ImageDims (w, h, c, imageLayout) : images

_Ndl = {
  InputValue (dims, cols=1, dynamicAxis='') =  ## an input: a stream of the reader, found by the name of the definition
    new ComputationNode { }
  Input = InputValue
  SparseInputValue (dims, cols=1, dynamicAxis='') = new ComputationNode { operation = 'InputValue'; sparse = true }
  SparseInput = SparseInputValue
  ImageInput (width, height, channels, numImages=1, imageLayout='HWC', dynamicAxis='') = new ComputationNode {
    operation = 'InputValue'; dims = _NdlImageDims (width, height, channels, numImages, imageLayout) }
  Image = ImageInput
  SparseImageInput (width, height, channels, numImages=1, imageLayout='HWC', dynamicAxis='') = new ComputationNode {
    operation = 'InputValue'; sparse = true; dims = _NdlImageDims (width, height, channels, numImages, imageLayout) }
  SparseImage = SparseImageInput

  LearnableParameter (rows, cols=1, needGradient=true, learningRateMultiplier=1, init='uniform', value=0,
      initValueScale=1, initFromFilePath='', initOnCPUOnly=false, randomSeed=-1, initFromLiteral='',
      kernelWidth=_Unused ('bilinear filters are as wide as the parameter'),
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {  ## a trained matrix
    dims = rows : cols; initFilterRank = if init == 'bilinear' then 2 else 0 }
  Parameter = LearnableParameter
  ParameterTensor (dims, needGradient=true, learningRateMultiplier=1, init='uniform', value=0,
      initValueScale=1, initFromFilePath='', initOnCPUOnly=false, randomSeed=-1, initFromLiteral='',
      kernelWidth=_Unused ('bilinear filters are as wide as the parameter'),
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {
    operation = 'LearnableParameter'; initFilterRank = if init == 'bilinear' then 2 else 0 }
  ImageParameter (width, height, channels, numImages=1, imageLayout='HWC', needGradient=true, learningRateMultiplier=1,
      init='uniform', value=0, initValueScale=1, initFromFilePath='', initOnCPUOnly=false, randomSeed=-1,
      initFromLiteral='', kernelWidth=_Unused ('bilinear filters are as wide as the parameter'),
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {  ## a trained tensor in the shape of an image
    operation = 'LearnableParameter'; initFilterRank = if init == 'bilinear' then 2 else 0
    dims = _NdlImageDims (width, height, channels, numImages, imageLayout) }
  Constant (value, rows=1, cols=1) = new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : cols; init = 'fixedValue'; learningRateMultiplier = 0 }
  Const = Constant
  _Scalar (value) = new ComputationNode {
    operation = 'LearnableParameter'; dims = 1; init = 'fixedValue'; learningRateMultiplier = 0 }

  RowElementTimes (x, y) = new ComputationNode { operation = 'ElementTimes'; inputs = x : y }
  ColumnElementTimes = RowElementTimes
  ColumnwiseCrossProduct = KhatriRaoProduct
  If (condition, then_, otherwise) = new ComputationNode { inputs = condition : then_ : otherwise }
  Cos = Cosine
  Parallel = RowStack
  PerDimMVNorm = PerDimMeanVarNormalization
  PerDimMVDeNorm = PerDimMeanVarDeNormalization
  CEWithSM = CrossEntropyWithSoftmax
  SE = SquareError
  ClassCrossEntropyWithSoftmax = ClassBasedCrossEntropyWithSoftmax
  CBCEWithSM = ClassBasedCrossEntropyWithSoftmax
  L1Reg = MatrixL1Reg
  L2Reg = MatrixL2Reg
  CosDist = CosDistance
  CosDistanceWithNegativeSamples (a, b, shift, negatives) = new ComputationNode { inputs = a : b }
  CosWithNegSamples = CosDistanceWithNegativeSamples
  Transpose (x) = new ComputationNode { operation = 'TransposeDimensions'; inputs = x; axis1 = 1; axis2 = 2 }

  PastValue (rows, input, timeStep=1, defaultHiddenActivation=0.1) = new ComputationNode { inputs = input; dims = rows }
  Delay = PastValue
  FutureValue (rows, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { inputs = input; dims = rows }
  # The older form; cols was the number of samples.
  _PastValueOfCols (rows, cols, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'PastValue'; inputs = input; dims = rows }
  _FutureValueOfCols (rows, cols, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'FutureValue'; inputs = input; dims = rows }

  Convolution (W, x, kernelWidth, kernelHeight, outputChannels, horizontalSubsample, verticalSubsample,
      zeroPadding=false, maxTempMemSizeInSamples=_Unused ('no temporary matrix is made'), imageLayout='HWC') =
    new ComputationNode {
      inputs = W : x; kernelDims = kernelWidth : kernelHeight; mapDims = outputChannels
      stride = horizontalSubsample : verticalSubsample; autoPadding = zeroPadding }
  Convolve = Convolution
  # With a list for the kernel: any number of axes.
  _ConvolutionOfAxes (W, x, kernelDims, mapDims=0, stride=1, sharing=true, autoPadding=true, lowerPad=0, upperPad=0,
      transpose=false, maxTempMemSizeInSamples=_Unused ('no temporary matrix is made'), imageLayout='CHW',
      outputShape=None) = new ComputationNode { operation = 'Convolution'; inputs = W : x }
  MaxPooling (x, windowWidth, windowHeight, horizontalSubsample, verticalSubsample, imageLayout='HWC') =
    new ComputationNode {
      operation = 'Pooling'; inputs = x; poolingType = 'max'; kernelDims = windowWidth : windowHeight
      stride = horizontalSubsample : verticalSubsample; autoPadding = false }
  AveragePooling (x, windowWidth, windowHeight, horizontalSubsample, verticalSubsample, imageLayout='HWC') =
    new ComputationNode {
      operation = 'Pooling'; inputs = x; poolingType = 'average'; kernelDims = windowWidth : windowHeight
      stride = horizontalSubsample : verticalSubsample; autoPadding = false }
  Pooling (x, poolingType='max', kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW',
      ceilOutDim=false, includePad=false) =
    new ComputationNode { inputs = x }
  BatchNormalization (x, scale, bias, runMean, runVariance, runCount=_Unused ('the node itself counts its samples'),
      spatial=false, normalizationTimeConstant=0, blendTimeConstant=0, epsilon=0.00001, useCntkEngine=true,
      disableRegularization=false, imageLayout='HWC', synchronized=false, eval=false,
      engine=_Unused ('the device decides which one is used'),
      expAvgFactor=_Unused ('normalizationTimeConstant says how fast the running statistics move')) =
    # With eval=true the running statistics are used in training too, and kept.
    if eval then new ComputationNode {
      inputs = x : scale : bias : runMean : runVariance
      normalizationTimeConstant = 1#INF; blendTimeConstant = 1#INF }
    else new ComputationNode {
      inputs = x : scale : bias : runMean : runVariance }
}
)BS";

}  // namespace tutti::brainscript
