// SPDX-License-Identifier: Apache-2.0
// Functions of the older network language (NDL) that differ from their namesakes in BrainScript: the order of their
// arguments, their defaults, the layout of images. ndl_functions.cpp names those that are the same.
#include "brainscript/library.h"

namespace tutti::brainscript {

extern constexpr std::string_view ndl_library = R"BS(
_Unused (why) = None    # the default of an argument that has no effect, and the reason

_NdlImageDims (w, h, c, images, imageLayout) =
  if images == 1 then _ImageDims (w, h, c, imageLayout) else _ImageDims (w, h, c, imageLayout) : images

_Ndl = {
  InputValue (dims, cols=1, dynamicAxis='') = new ComputationNode { operation = 'InputValue' }
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
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : cols; initFilterRank = if init == 'bilinear' then 2 else 0 }
  Parameter = LearnableParameter
  ParameterTensor (dims, needGradient=true, learningRateMultiplier=1, init='uniform', value=0,
      initValueScale=1, initFromFilePath='', initOnCPUOnly=false, randomSeed=-1, initFromLiteral='',
      kernelWidth=_Unused ('bilinear filters are as wide as the parameter'),
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {
    operation = 'LearnableParameter'; initFilterRank = if init == 'bilinear' then 2 else 0 }
  ImageParameter (width, height, channels, numImages=1, imageLayout='HWC', needGradient=true, learningRateMultiplier=1,
      init='uniform', value=0, initValueScale=1, initFromFilePath='', initOnCPUOnly=false, randomSeed=-1,
      initFromLiteral='', kernelWidth=_Unused ('bilinear filters are as wide as the parameter'),
      kernelHeight=_Unused ('bilinear filters are as high as the parameter')) = new ComputationNode {
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
  If (condition, then_, otherwise) = new ComputationNode { operation = 'If'; inputs = condition : then_ : otherwise }
  Cos = Cosine
  PerDimMVNorm = PerDimMeanVarNormalization
  PerDimMVDeNorm = PerDimMeanVarDeNormalization
  CEWithSM = CrossEntropyWithSoftmax
  SE = SquareError
  ClassCrossEntropyWithSoftmax = ClassBasedCrossEntropyWithSoftmax
  CBCEWithSM = ClassBasedCrossEntropyWithSoftmax
  L1Reg = MatrixL1Reg
  L2Reg = MatrixL2Reg
  CosDist = CosDistance
  CosDistanceWithNegativeSamples (a, b, shift, negatives) =
    new ComputationNode { operation = 'CosDistanceWithNegativeSamples'; inputs = a : b }
  CosWithNegSamples = CosDistanceWithNegativeSamples
  Transpose (x) = new ComputationNode { operation = 'TransposeDimensions'; inputs = x; axis1 = 1; axis2 = 2 }

  PastValue (rows, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'PastValue'; inputs = input; dims = rows }
  Delay = PastValue
  FutureValue (rows, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'FutureValue'; inputs = input; dims = rows }
  # The older form; cols was the number of samples.
  _PastValueOfCols (rows, cols, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'PastValue'; inputs = input; dims = rows }
  _FutureValueOfCols (rows, cols, input, timeStep=1, defaultHiddenActivation=0.1) =
    new ComputationNode { operation = 'FutureValue'; inputs = input; dims = rows }

  Convolution (W, x, kernelWidth, kernelHeight, outputChannels, horizontalSubsample, verticalSubsample,
      zeroPadding=false, maxTempMemSizeInSamples=_Unused ('no temporary matrix is made'), imageLayout='HWC') =
    new ComputationNode {
      operation = 'Convolution'; inputs = W : x; kernelDims = kernelWidth : kernelHeight; mapDims = outputChannels
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
  Pooling (x, poolingType='max', kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW') =
    new ComputationNode { operation = 'Pooling'; inputs = x }
  BatchNormalization (x, scale, bias, runMean, runVariance, spatial=false, normalizationTimeConstant=0,
      blendTimeConstant=0, epsilon=0.00001, useCntkEngine=true, imageLayout='HWC', synchronized=false, eval=false,
      engine=_Unused ('the device decides which one is used'),
      expAvgFactor=_Unused ('normalizationTimeConstant says how fast the running statistics move')) =
    # With eval=true the running statistics are used in training too, and kept.
    if eval then new ComputationNode {
      operation = 'BatchNormalization'; inputs = x : scale : bias : runMean : runVariance
      normalizationTimeConstant = 1#INF; blendTimeConstant = 1#INF }
    else new ComputationNode {
      operation = 'BatchNormalization'; inputs = x : scale : bias : runMean : runVariance }
}
)BS";
}  // namespace tutti::brainscript
