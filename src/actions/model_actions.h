// SPDX-License-Identifier: Apache-2.0
// model_actions.h -- the actions that make a new model from a model: edit (a description that loads one, or an editing
// script, edit_action.cpp) and bnstat (recomputes the statistics of batch normalisation).
#pragma once

#include "actions/action.h"

namespace tutti::actions {

struct EditOptions {
  std::string output_model_path, edit_path, ndl_macros;
  void describe(config::Fields&);
};
struct BatchStatisticsOptions {
  std::string model_path, new_model_path;
  config::Schedule<std::int64_t> minibatch_size = 256;
  std::int64_t iterations_per_node = 30;
  std::int64_t trace_level = 0;
  void describe(config::Fields&);
};

std::unique_ptr<Action> make_edit_action(const ActionContext&);
// action = edit with editPath.
std::unique_ptr<Action> make_edit_script_action(const ActionContext&);
std::unique_ptr<Action> make_batch_statistics_action(const ActionContext&);

}  // namespace tutti::actions
