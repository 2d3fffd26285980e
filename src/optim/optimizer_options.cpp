// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer_options.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <utility>

namespace tutti {

namespace {

void check_ranges(config::Fields& f, const OptimizerOptions& o) {
  using Values = std::initializer_list<std::pair<const char*, double>>;
  const auto check = [&](const Values& values, const auto& holds, const char* rule) {
    for (const auto& [key, v] : values)
      if (!holds(v)) f.problem(key, fmt::format("{} must {}", key, rule));
  };
  check(
      {{"gaussianNoiseInjectStd", o.noise}, {"L1RegWeight", o.l1}, {"L2RegWeight", o.l2}},
      [](double v) { return v >= 0; }, "not be negative");
  check(
      {{"weightDecay", o.weight_decay}}, [](double v) { return v >= 0 && std::isfinite(v); }, "be a number, 0 or more");
  if (!(o.global_norm_per_sample > 0))
    f.problem("clippingGlobalNormPerSample", "clippingGlobalNormPerSample must be positive",
              "remove the key to disable clipping");
  else if (std::isfinite(o.global_norm_per_sample) && std::isfinite(o.clipping_per_sample))
    f.problem("clippingGlobalNormPerSample",
              "both clippingThresholdPerSample and clippingGlobalNormPerSample are given", "keep one of the two");
  if (!(o.clipping_per_sample > 0))
    f.problem("clippingThresholdPerSample", "clippingThresholdPerSample must be positive",
              "remove the key to disable clipping");
  check(
      {{"rms_gamma", o.rms_gamma}, {"beta1", o.beta1}, {"beta2", o.beta2}, {"decay", o.decay}},
      [](double v) { return v >= 0 && v < 1; }, "lie in [0, 1)");
  check(
      {{"epsilon", o.epsilon},
       {"varianceTimeConstant", o.variance_time_constant},
       {"fsAdagradTargetAvDenom", o.target_average},
       {"trustCoefficient", o.trust_coefficient},
       {"rms_wgt_inc", o.rms_increase},
       {"rms_wgt_dec", o.rms_decrease},
       {"rms_wgt_max", o.rms_max},
       {"rms_wgt_min", o.rms_min}},
      [](double v) { return v > 0 && std::isfinite(v); }, "be positive");
  if (o.rms_min > o.rms_max)
    f.problem("rms_wgt_min", "rms_wgt_min must not be greater than rms_wgt_max", "swap the two values");
}

void check_decay(config::Fields& f, const OptimizerOptions& o) {
  const bool decays = o.rule == UpdateRule::adam_w || o.rule == UpdateRule::lamb || o.rule == UpdateRule::lars;
  if (decays && !f.given("weightDecay"))
    f.problem("gradUpdateType", "adamW, lamb and lars need weightDecay",
              "add weightDecay = 0.01 (adamW, lamb) or 0.0001 (lars), or 0 for none");
  if (!decays && f.given("weightDecay"))
    f.problem("weightDecay", "weightDecay has an effect with gradUpdateType = adamW, lamb or lars only",
              "use L2RegWeight, or one of these rules");
  if (o.rule != UpdateRule::lars && f.given("trustCoefficient"))
    f.problem("trustCoefficient", "trustCoefficient has an effect with gradUpdateType = lars only",
              "remove trustCoefficient, or set gradUpdateType = lars");
}

void check_one_bit(config::Fields& f, const OptimizerOptions& o) {
  if (o.rule != UpdateRule::one_bit_adam) {
    if (o.warmup_samples != 0)
      f.problem("warmupSamples", "warmupSamples has an effect with gradUpdateType = oneBitAdam only",
                "remove warmupSamples, or set gradUpdateType = oneBitAdam");
    return;
  }
  if (!f.given("warmupSamples"))
    f.problem("gradUpdateType", "oneBitAdam needs warmupSamples: after so many samples it freezes its variance",
              "set warmupSamples to between an eighth and a quarter of all training samples");
  else if (o.warmup_samples < 1)
    f.problem("warmupSamples", "warmupSamples must be at least 1: without a variance no weight changes");
  if (std::isfinite(o.clipping_per_sample) || std::isfinite(o.global_norm_per_sample))
    f.problem(std::isfinite(o.clipping_per_sample) ? "clippingThresholdPerSample" : "clippingGlobalNormPerSample",
              "oneBitAdam cannot clip gradients: after its warm-up the ranks exchange momentum, and no rank has the "
              "summed gradient",
              "remove the limit, or set gradUpdateType = adam");
}

}  // namespace

void OptimizerOptions::describe(config::Fields& f) {
  // CNTK has no such keys; further out they are variables of the user.
  for (const char* key : {"weightDecay", "trustCoefficient", "warmupSamples", "decay", "beta1", "beta2", "epsilon"})
    f.inherit_nothing(key);
  f.choice<UpdateRule>("gradUpdateType", rule,
                       {{"none", UpdateRule::sgd},
                        {"normal", UpdateRule::sgd},
                        {"simple", UpdateRule::sgd},
                        {"adagrad", UpdateRule::adagrad},
                        {"fsAdagrad", UpdateRule::fs_adagrad},
                        {"rmsProp", UpdateRule::rms_prop},
                        {"adam", UpdateRule::adam},
                        {"rmsPropTextbook", UpdateRule::rms_prop_textbook},
                        {"adamW", UpdateRule::adam_w},
                        {"lamb", UpdateRule::lamb},
                        {"lars", UpdateRule::lars},
                        {"oneBitAdam", UpdateRule::one_bit_adam}},
                       "update rule; none is SGD with unit-gain momentum");
  f("useNAG", nesterov, "use Nesterov momentum (with gradUpdateType = none)");
  f("normWithAveMultiplier", norm_with_average,
    "adagrad, rmsProp: divide each step by the mean multiplier of its parameter");
  f("gaussianNoiseInjectStd", noise, "standard deviation of the Gaussian noise added to every weight in every update");
  f("L2RegWeight", l2, "per sample; adds L2RegWeight * W to the gradient");
  f("L1RegWeight", l1, "per sample; moves weights towards 0");
  f("clippingThresholdPerSample", clipping_per_sample,
    "largest gradient per sample; the limit is this times the samples of the minibatch");
  f("gradientClippingWithTruncation", clip_by_truncation,
    "true limits each element; false scales the gradient of a parameter down to a norm");
  f("clippingGlobalNormPerSample", global_norm_per_sample,
    "largest norm per sample of all gradients together; the limit is this times the samples of the minibatch");
  f("weightDecay", weight_decay, "adamW, lamb, lars: decay of the weights, times the learning rate of the minibatch");
  f("trustCoefficient", trust_coefficient, "lars: step of a parameter relative to its norm, times the learning rate");
  f("varianceTimeConstant", variance_time_constant, "fsAdagrad: samples over which squared gradients are averaged");
  f("fsAdagradTargetAvDenom", target_average, "fsAdagrad: target size of a normalised gradient");
  f("rms_gamma", rms_gamma, "rmsProp: decay of the squared gradient per minibatch");
  f("rms_wgt_inc", rms_increase, "rmsProp: step factor while the gradient keeps its sign");
  f("rms_wgt_dec", rms_decrease, "rmsProp: step factor when the gradient changes its sign");
  f("rms_wgt_max", rms_max, "rmsProp: largest step");
  f("rms_wgt_min", rms_min, "rmsProp: smallest step");
  f("beta1", beta1, "all kinds of Adam, lamb: decay of the mean gradient per minibatch");
  f("beta2", beta2, "all kinds of Adam, lamb: decay of the squared mean gradient per minibatch");
  f("decay", decay, "rmsPropTextbook: decay of the squared mean gradient per minibatch");
  f("epsilon", epsilon, "all kinds of Adam, lamb, rmsPropTextbook: added to the denominator");
  f("warmupSamples", warmup_samples,
    "oneBitAdam: samples over all ranks after which the variance is frozen and the ranks exchange momentum");
  check_ranges(f, *this);
  check_decay(f, *this);
  check_one_bit(f, *this);
}

}  // namespace tutti
