// SPDX-License-Identifier: Apache-2.0
// The part of the standard library that image networks use: convolution, pooling, normalisation.
// Lists in attributes (kernelDims, stride, ...) name the axes of the image first: width, height, ..., channels last.
#include <string_view>

namespace tutti::brainscript {

extern constexpr std::string_view image_library = R"BS(
# ---- operations on images

Convolution (weightNode, inputValueNode, kernelDims, mapDims=0, stride=1, sharing=true, autoPadding=true, lowerPad=0, upperPad=0,
             transpose=false, deconv=false, imageLayout='CHW', maxTempMemSizeInSamples=0, groups=1, outputShape=None,
             dilation=1, tag='') =  ## convolution of an image with the filters of weightNode
  _Convolution (_Undilated (dilation, weightNode), inputValueNode, kernelDims, mapDims, stride, sharing, autoPadding,
                lowerPad, upperPad, transpose || deconv, outputShape, imageLayout, maxTempMemSizeInSamples, groups, tag)
ConvolutionTranspose (weightNode, inputValueNode, kernelDims, mapDims=0, stride=1, sharing=true, autoPadding=true, lowerPad=0, upperPad=0,
                      outputShape=None, dilation=1, imageLayout='CHW', maxTempMemSizeInSamples=0, tag='') =
  _Convolution (_Undilated (dilation, weightNode), inputValueNode, kernelDims, mapDims, stride, sharing, autoPadding,
                lowerPad, upperPad, true, outputShape, imageLayout, maxTempMemSizeInSamples, 1, tag)
_Convolution (weightNode, inputValueNode, kernelDims, mapDims, stride, sharing, autoPadding, lowerPad, upperPad, transpose,
              outputShape, imageLayout, maxTempMemSizeInSamples, groups, tag) =
  new ComputationNode { operation = 'Convolution'; inputs = weightNode : inputValueNode }
_Undilated (dilation, x) =
  if _AllOnes (dilation) then x else Fail ("dilation is not part of this version", "leave it out, or give 1")
_AllOnes (a) = if !IsArray (a) then a == 1 else if Length (a) == 0 then true else a[0] == 1 && _AllOnes (a << 1)
Pooling (input, poolKind, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, ceilOutDim=false,
         includePad=false, imageLayout='CHW', tag='') =  ## the largest or mean value of each window
  new ComputationNode { inputs = input; poolingType = poolKind }
MaxPooling (input, windowWidth, windowHeight, horizontalSubsample, verticalSubsample, imageLayout='CHW', tag='') =  ## the largest value of each window
  Pooling (input, 'max', windowWidth : windowHeight, stride=(horizontalSubsample : verticalSubsample),
           autoPadding=false, imageLayout=imageLayout, tag=tag)
AveragePooling (input, windowWidth, windowHeight, horizontalSubsample, verticalSubsample, imageLayout='CHW', tag='') =  ## the mean of each window
  Pooling (input, 'average', windowWidth : windowHeight, stride=(horizontalSubsample : verticalSubsample),
           autoPadding=false, imageLayout=imageLayout, tag=tag)
MaxUnpooling (unpoolInput, poolInput, kernelDims, stride=1, autoPadding=true, lowerPad=0, upperPad=0, imageLayout='CHW', tag='') =  ## puts values back to the places that MaxPooling took them from
  new ComputationNode { inputs = unpoolInput : poolInput; poolingType = 'max' }
ROIPooling (input, ROIs, shape, spatialScale=None, tag='') =  ## the largest value of each cell of regions of an image
  new ComputationNode { inputs = input : ROIs }
# The node itself counts its samples, so runCount has no effect. CNTK 1 has no runCount: its sixth argument is spatial,
# true or false, and those that follow come one place earlier, too. A blend time constant counts samples, so a number
# below 1 in its place is epsilon.
BatchNormalization (input, scale, bias, runMean, runVariance, runCount=None, spatial=false, normalizationTimeConstant=0,
                    blendTimeConstant=0, epsilon=0.00001, useCntkEngine=true, disableRegularization=false,
                    imageLayout='CHW', synchronized=false, tag='') =  ## normalises by mean and variance of the minibatch
  if !IsBool (runCount)
  then _BatchNormalization (input, scale, bias, runMean, runVariance, spatial, normalizationTimeConstant, blendTimeConstant,
                            epsilon, useCntkEngine, disableRegularization, imageLayout, synchronized, tag)
  else if IsBool (spatial)
  then _BatchNormalization (input, scale, bias, runMean, runVariance, spatial || runCount, normalizationTimeConstant,
                            blendTimeConstant, epsilon, useCntkEngine, disableRegularization, imageLayout, synchronized, tag)
  else _BatchNormalization (input, scale, bias, runMean, runVariance, runCount, spatial,
                            if blendTimeConstant < 1 then normalizationTimeConstant else blendTimeConstant,
                            if IsBool (epsilon) || 0 < blendTimeConstant && blendTimeConstant < 1 then blendTimeConstant else epsilon,
                            if IsBool (epsilon) then epsilon else useCntkEngine,
                            disableRegularization, imageLayout, synchronized, tag)
_BatchNormalization (input, scale, bias, runMean, runVariance, spatial, normalizationTimeConstant, blendTimeConstant,
                     epsilon, useCntkEngine, disableRegularization, imageLayout, synchronized, tag) =
  new ComputationNode { operation = 'BatchNormalization'; inputs = input : scale : bias : runMean : runVariance }
LocalResponseNormalization (x, depthRadius, bias, alpha, beta, tag='') =  ## divides by the activity of neighbouring channels
  new ComputationNode { inputs = x }

# ---- layers

ConvolutionalLayer {numOutputChannels, filterShape, bias=true, activation=(x => x), init='glorotUniform', initValueScale=1,
                    initBias=0, stride=1, pad=false, lowerPad=0, upperPad=0, maxTempMemSizeInSamples=0, groups=1,
                    dilation=1} = {  ## convolution with bias and activation
  rank = Length (filterShape)
  W = ParameterTensor {filterShape : Inferred : numOutputChannels, init=init, initValueScale=initValueScale,
                       initFilterRank=rank, initOutputRank=-1}
  b = ParameterTensor {Repeat (rank, 1) : numOutputChannels, init='fixedValue', value=initBias}
  maps (x) = Convolution (W, x, filterShape, mapDims=numOutputChannels, stride=stride, sharing=true, autoPadding=pad,
                          lowerPad=lowerPad, upperPad=upperPad, maxTempMemSizeInSamples=maxTempMemSizeInSamples,
                          groups=groups, dilation=dilation)
  apply (x) = activation (if bias then maps (x) + b else maps (x))
}.apply

DeconvLayer {numOutputChannels, filterShape, numInputChannels, bias=true, activation=(x => x), init='glorotUniform',
             initValueScale=0.001, initBias=0, stride=1, sharing=true, autoPadding=false, lowerPad=0, upperPad=0,
             maxTempMemSizeInSamples=0} = {  ## transposed convolution with bias and activation
  rank = Length (filterShape)
  W = ParameterTensor {filterShape : numOutputChannels : numInputChannels, init=init, initValueScale=initValueScale,
                       initFilterRank=rank, initOutputRank=-1}
  b = ParameterTensor {Repeat (rank, 1) : numOutputChannels, init='fixedValue', value=initBias}
  maps (x) = Convolution (W, x, filterShape : numOutputChannels, mapDims=numInputChannels, stride=stride, sharing=sharing,
                          autoPadding=autoPadding, lowerPad=lowerPad, upperPad=upperPad, deconv=true,
                          maxTempMemSizeInSamples=maxTempMemSizeInSamples)
  apply (x) = activation (if bias then maps (x) + b else maps (x))
}.apply

ConvolutionTransposeLayer {numOutputChannels, filterShape, numInputChannels, bias=true, activation=(x => x), init='glorotUniform',
                           initValueScale=0.001, initBias=0, stride=1, pad=false, lowerPad=0, upperPad=0, outputShape=None,
                           maxTempMemSizeInSamples=0, dilation=1} = {
  W = ParameterTensor {filterShape : numOutputChannels : numInputChannels, init=init, initValueScale=initValueScale,
                       initOutputRank=(if init == 'orthogonal' then -1 else 1)}
  b = ParameterTensor {Repeat (Length (filterShape), 1) : numOutputChannels, init='fixedValue', value=initBias}
  maps (x) = ConvolutionTranspose (W, x, filterShape : numOutputChannels, mapDims=numInputChannels, stride=stride, autoPadding=pad,
                                   lowerPad=lowerPad, upperPad=upperPad, outputShape=outputShape,
                                   maxTempMemSizeInSamples=maxTempMemSizeInSamples, dilation=dilation)
  apply (x) = activation (if bias then maps (x) + b else maps (x))
}.apply

MaxPoolingLayer {filterShape, stride=1, pad=false, lowerPad=0, upperPad=0, ceilOutDim=false} = {  ## the largest value of each window
  apply (x) = Pooling (x, 'max', filterShape, stride=stride, autoPadding=pad, lowerPad=lowerPad, upperPad=upperPad,
                       ceilOutDim=ceilOutDim)
}.apply
AveragePoolingLayer {filterShape, stride=1, pad=false, lowerPad=0, upperPad=0, ceilOutDim=false, includePad=false} = {  ## the mean of each window
  apply (x) = Pooling (x, 'average', filterShape, stride=stride, autoPadding=pad, lowerPad=lowerPad, upperPad=upperPad,
                       ceilOutDim=ceilOutDim, includePad=includePad)
}.apply
# Enlarges an image by linear interpolation: a transposed convolution whose filters are not trained.
BilinearUpsamplingLayer {numChannels, kernelSize, stride} = {  ## enlarges an image by linear interpolation
  W = ParameterTensor {kernelSize : kernelSize : numChannels : numChannels, init='bilinear', learningRateMultiplier=0}
  apply (x) = ConvolutionTranspose (W, x, kernelSize : kernelSize : numChannels, mapDims=numChannels, stride=stride,
                                    autoPadding=false)
}.apply
MaxUnpoolingLayer {filterShape, stride=1, pad=false, lowerPad=0, upperPad=0} = {  ## puts values back to the places that a pooling took them from
  apply (unpoolInput, poolInput) =
    MaxUnpooling (unpoolInput, poolInput, filterShape, stride=stride, autoPadding=pad, lowerPad=lowerPad, upperPad=upperPad)
}.apply
# One window over the whole image, a value for each channel.
GlobalMaxPoolingLayer {} = {  ## the largest value of each channel
  apply (x) = Pooling (x, 'max', _ImageAxes (x.dims), autoPadding=false)
}.apply
GlobalAveragePoolingLayer {} = {  ## the mean of each channel
  apply (x) = Pooling (x, 'average', _ImageAxes (x.dims), autoPadding=false)
}.apply
_ImageAxes (dims) =
  if Length (dims) < 2 then Fail ("the input needs axes of an image and, last, one of channels")
  else array[0..Length (dims)-2] (i => dims[i])

# The time constant counts samples. synchronized: statistics of the whole minibatch instead of each rank's share. With spatialRank=2 there is one mean for each channel of an image, with 0 one for each element.
BatchNormalizationLayer {spatialRank=0, initialScale=1, normalizationTimeConstant=5000, blendTimeConstant=0, epsilon=0.00001,
                         useCntkEngine=false, disableRegularization=false, synchronized=false} = {  ## normalises by mean and variance of the minibatch, then scales and shifts
  shape = if spatialRank == 0 then Inferred else Repeat (spatialRank, 1) : Inferred
  scale = ParameterTensor {shape, init='fixedValue', value=initialScale}
  bias = ParameterTensor {shape, init='fixedValue', value=0}
  runMean = ParameterTensor {shape, init='fixedValue', value=0, learningRateMultiplier=0}
  runVariance = ParameterTensor {shape, init='fixedValue', value=0, learningRateMultiplier=0}
  apply (x) = BatchNormalization (x, scale, bias, runMean, runVariance, spatial=(spatialRank > 0),
                                  normalizationTimeConstant=normalizationTimeConstant, blendTimeConstant=blendTimeConstant,
                                  epsilon=epsilon, useCntkEngine=useCntkEngine,
                                  disableRegularization=disableRegularization, synchronized=synchronized)
}.apply

# x / (k + alpha/(2n+1) * sum of the squares of n channels on both sides and the channel itself) ** beta
LocalResponseNormalizationLayer {k, n, alpha, beta} = {  ## divides by the activity of n channels on both sides
  apply (x) = LocalResponseNormalization (x, n, k, alpha / (2 * n + 1), beta)
}.apply
)BS";

}  // namespace tutti::brainscript
