// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer_options.h"

#include <cmath>

namespace tutti {

namespace {

void check_adaptive_ranges(config::Fields& f, const OptimizerOptions& o) {
  const auto fraction = [&](const char* key, double v) {
    if (!(v >= 0 && v < 1)) f.problem(key, std::string(key) + " must lie in [0, 1)");
  };
  const auto positive = [&](const char* key, double v) {
    if (!(v > 0 && std::isfinite(v))) f.problem(key, std::string(key) + " must be positive");
  };
  fraction("rms_gamma", o.rms_gamma);
  fraction("beta1", o.beta1);
  fraction("beta2", o.beta2);
  fraction("decay", o.decay);
  positive("epsilon", o.epsilon);
  positive("varianceTimeConstant", o.variance_time_constant);
  positive("fsAdagradTargetAvDenom", o.target_average);
  positive("rms_wgt_inc", o.rms_increase);
  positive("rms_wgt_dec", o.rms_decrease);
  positive("rms_wgt_max", o.rms_max);
  positive("rms_wgt_min", o.rms_min);
  if (o.rms_min > o.rms_max)
    f.problem("rms_wgt_min", "rms_wgt_min is greater than rms_wgt_max", "exchange the two values");
}

void check_ranges(config::Fields& f, const OptimizerOptions& o) {
  const auto not_negative = [&](const char* key, double v) {
    if (!(v >= 0)) f.problem(key, std::string(key) + " must not be negative");
  };
  not_negative("gaussianNoiseInjectStd", o.noise);
  not_negative("L1RegWeight", o.l1);
  not_negative("L2RegWeight", o.l2);
  if (!(o.clipping_per_sample > 0))
    f.problem("clippingThresholdPerSample", "clippingThresholdPerSample must be positive",
              "leave the key out for no clipping");
}

void check_one_bit(config::Fields& f, const OptimizerOptions& o) {
  if (o.rule != UpdateRule::one_bit_adam) {
    if (o.warmup_samples != 0)
      f.problem("warmupSamples", "warmupSamples belongs to gradUpdateType = oneBitAdam",
                "leave the key out, or choose that rule");
    return;
  }
  if (!f.given("warmupSamples"))
    f.problem("gradUpdateType", "oneBitAdam has to be told when its variance is to stand still",
              "add warmupSamples = ..., an eighth to a quarter of all samples of the training");
  else if (o.warmup_samples < 1)
    f.problem("warmupSamples", "warmupSamples must be at least 1: without a variance no weight would move");
  if (std::isfinite(o.clipping_per_sample))
    f.problem("clippingThresholdPerSample",
              "oneBitAdam cannot clip: behind its warm-up momentum is summed, and no gradient is seen by anybody",
              "leave clippingThresholdPerSample out, or use gradUpdateType = adam");
}

}  // namespace

void OptimizerOptions::describe(config::Fields& f) {
  f.choice<UpdateRule>("gradUpdateType", rule,
                       {{"none", UpdateRule::sgd},
                        {"normal", UpdateRule::sgd},
                        {"simple", UpdateRule::sgd},
                        {"adagrad", UpdateRule::adagrad},
                        {"fsAdagrad", UpdateRule::fs_adagrad},
                        {"rmsProp", UpdateRule::rms_prop},
                        {"adam", UpdateRule::adam},
                        {"rmsPropTextbook", UpdateRule::rms_prop_textbook},
                        {"oneBitAdam", UpdateRule::one_bit_adam}},
                       "update rule; none is SGD with unit-gain momentum");
  f("useNAG", nesterov, "Nesterov momentum (gradUpdateType none)");
  f("normWithAveMultiplier", norm_with_average, "adagrad, rmsProp: divide by the parameter's mean multiplier");
  f("gaussianNoiseInjectStd", noise, "standard deviation of noise added to every weight at every update");
  f("L2RegWeight", l2, "per sample; adds L2RegWeight * W to the gradient");
  f("L1RegWeight", l1, "per sample; moves weights towards 0");
  f("clippingThresholdPerSample", clipping_per_sample,
    "limit of the summed gradient, times the samples of the minibatch");
  f("gradientClippingWithTruncation", clip_by_truncation, "limit every element; false rescales a parameter's norm");
  f("varianceTimeConstant", variance_time_constant, "fsAdagrad: samples over which squared gradients are averaged");
  f("fsAdagradTargetAvDenom", target_average, "fsAdagrad: size of a normalised gradient");
  f("rms_gamma", rms_gamma, "rmsProp: decay of the squared gradient per minibatch");
  f("rms_wgt_inc", rms_increase, "rmsProp: step factor while the sign stays");
  f("rms_wgt_dec", rms_decrease, "rmsProp: step factor when the sign changes");
  f("rms_wgt_max", rms_max, "rmsProp: largest step");
  f("rms_wgt_min", rms_min, "rmsProp: smallest step");
  f("beta1", beta1, "adam, oneBitAdam: decay of the mean gradient per minibatch");
  f("beta2", beta2, "adam, oneBitAdam: decay of the squared mean gradient per minibatch");
  f("decay", decay, "rmsPropTextbook: decay of the squared mean gradient per minibatch");
  f("epsilon", epsilon, "adam, oneBitAdam, rmsPropTextbook: added to the denominator");
  f("warmupSamples", warmup_samples,
    "oneBitAdam: samples over all ranks after which the variance stands still and momentum travels");
  check_ranges(f, *this);
  check_adaptive_ranges(f, *this);
  check_one_bit(f, *this);
}

}  // namespace tutti
