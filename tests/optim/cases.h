// SPDX-License-Identifier: Apache-2.0
// cases.h -- every rule, and what stands before and behind it.
#pragma once

#include <vector>

#include "optim/optimizer_options.h"

namespace tutti::testing {

struct Case {
  const char* name;
  OptimizerOptions options;
};

inline std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, auto change) {
    OptimizerOptions o;
    change(o);
    all.push_back({name, o});
  };
  using O = OptimizerOptions;
  add("momentum", [](O&) {});
  add("nesterov", [](O& o) { o.nesterov = true; });
  add("truncation", [](O& o) { o.clipping_per_sample = 0.02; });
  add("norm", [](O& o) { o.clipping_per_sample = 0.05, o.clip_by_truncation = false; });
  add("l2", [](O& o) { o.l2 = 0.01; });
  add("l1", [](O& o) { o.l1 = 0.3; });
  add("noise", [](O& o) { o.noise = 0.1; });
  add("all", [](O& o) { o.clipping_per_sample = 0.02, o.l2 = 0.01, o.l1 = 0.3, o.noise = 0.1, o.nesterov = true; });
  for (const bool norm : {false, true}) {
    add("adagrad", [&](O& o) { o.rule = UpdateRule::adagrad, o.norm_with_average = norm; });
    add("rmsProp", [&](O& o) { o.rule = UpdateRule::rms_prop, o.norm_with_average = norm; });
    add("rmsProp, all",
        [&](O& o) { o.rule = UpdateRule::rms_prop, o.norm_with_average = norm, o.l2 = 0.01, o.l1 = 0.3; });
    add("adagrad, all", [&](O& o) {
      o.rule = UpdateRule::adagrad, o.norm_with_average = norm;
      o.clipping_per_sample = 0.02, o.l2 = 0.01, o.l1 = 0.3, o.noise = 0.1;
    });
    add("adagrad, norm", [&](O& o) {
      o.rule = UpdateRule::adagrad, o.norm_with_average = norm;
      o.clipping_per_sample = 0.05, o.clip_by_truncation = false, o.l2 = 0.01;
    });
  }
  add("fsAdagrad", [](O& o) { o.rule = UpdateRule::fs_adagrad, o.variance_time_constant = 100; });
  add("adam", [](O& o) { o.rule = UpdateRule::adam; });
  add("adam, all", [](O& o) { o.rule = UpdateRule::adam, o.clipping_per_sample = 0.02, o.l2 = 0.01, o.l1 = 0.3; });
  add("global norm", [](O& o) { o.global_norm_per_sample = 0.3, o.l2 = 0.01; });
  add("adamW", [](O& o) { o.rule = UpdateRule::adam_w, o.weight_decay = 0.1; });
  add("adamW, all", [](O& o) {
    o.rule = UpdateRule::adam_w, o.weight_decay = 0.1;
    o.clipping_per_sample = 0.02, o.l2 = 0.01, o.l1 = 0.3, o.noise = 0.1;
  });
  add("adamW, global norm",
      [](O& o) { o.rule = UpdateRule::adam_w, o.weight_decay = 0.1, o.global_norm_per_sample = 0.3; });
  add("lamb", [](O& o) { o.rule = UpdateRule::lamb, o.weight_decay = 0.01; });
  add("lamb, all", [](O& o) {
    o.rule = UpdateRule::lamb, o.weight_decay = 0.01;
    o.clipping_per_sample = 0.05, o.clip_by_truncation = false, o.l2 = 0.01, o.l1 = 0.3, o.noise = 0.1;
  });
  add("lamb, global norm",
      [](O& o) { o.rule = UpdateRule::lamb, o.weight_decay = 0, o.global_norm_per_sample = 0.3; });
  add("lars", [](O& o) { o.rule = UpdateRule::lars, o.weight_decay = 0.01; });
  add("lars, all", [](O& o) {
    o.rule = UpdateRule::lars, o.weight_decay = 0.01, o.trust_coefficient = 0.1;
    o.clipping_per_sample = 0.02, o.l2 = 0.01, o.l1 = 0.3;
  });
  add("oneBitAdam, warming up",
      [](O& o) { o.rule = UpdateRule::one_bit_adam, o.warmup_samples = 1000000, o.l2 = 0.01, o.l1 = 0.3; });
  add("rmsPropTextbook", [](O& o) { o.rule = UpdateRule::rms_prop_textbook; });
  return all;
}

}  // namespace tutti::testing
