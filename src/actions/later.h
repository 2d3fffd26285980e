// SPDX-License-Identifier: Apache-2.0
// later.h -- an action that needs a file written by an earlier action of the same run: it is created when its turn
// comes.
#pragma once

#include "actions/action.h"

namespace tutti::actions {

using ActionMaker = std::function<std::unique_ptr<Action>(const ActionContext&)>;

// The answers of Action for a training that is not created yet.
struct LaterTraining {
  std::string model;  // empty: no training
  bool resumes = false;
};

// `settings`: the lines known already; the missing file is added.
std::unique_ptr<Action> make_later(const ActionContext&, ActionMaker, std::string settings, std::string file,
                                   LaterTraining training = {});

}  // namespace tutti::actions
