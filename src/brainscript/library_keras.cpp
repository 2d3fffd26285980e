// SPDX-License-Identifier: Apache-2.0
// The part of the standard library that networks from Keras files are written in: what the layers of this language do
// in another way (initial states of 0, biases of gates, activations with parameters).
#include "brainscript/library.h"

namespace tutti::brainscript {

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
    apply (x) = BatchNormalization (x, scale, bias, runMean, runVariance, spatial, normalizationTimeConstant=timeConstant,
                                    epsilon=epsilon, useCntkEngine=false, synchronized=synchronized)
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

}  // namespace tutti::brainscript
