// SPDX-License-Identifier: Apache-2.0
// train_action.h -- action = "train" (semantics 14.1).
#pragma once

#include "actions/action.h"
#include "tutti/backend.h"

namespace tutti::actions {

struct TrainOptions {
  std::string model_path;
  bool make_mode = true;
  std::int64_t trace_level = 0;
  ComputeType compute_type = ComputeType::float32;
  std::string loss_scale = "auto";
  bool cuda_graphs = true;
  void describe(config::Fields&);
};
std::unique_ptr<Action> make_train_action(const ActionContext&);

}  // namespace tutti::actions
