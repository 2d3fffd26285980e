// SPDX-License-Identifier: Apache-2.0
// test_actions.h -- the actions that evaluate models: test = eval, and cv.
#pragma once

#include "actions/action.h"
#include "tutti/backend.h"

namespace tutti::actions {

// Larger minibatches would only need more memory: the products are large enough.
constexpr std::int64_t largest_evaluation_part = 1024;

struct EvaluateOptions {
  ComputeType compute_type = ComputeType::float32;
  std::string model_path;
  config::Schedule<std::int64_t> minibatch_size = 40960;
  std::int64_t epoch_size = 0;
  std::vector<std::string> eval_node_names;
  std::int64_t num_mbs_to_show_result = 100, first_mbs_to_show_result = 0;
  std::int64_t trace_level = 0;
  bool distributed_reading = true;
  void describe(config::Fields&);
};
struct CvOptions : EvaluateOptions {
  config::Schedule<std::int64_t> interval;
  std::int64_t sleep_time = 0;
  void describe(config::Fields&);
};

std::unique_ptr<Action> make_test_action(const ActionContext&);
std::unique_ptr<Action> make_cv_action(const ActionContext&);

}  // namespace tutti::actions
