// SPDX-License-Identifier: Apache-2.0
// later.h -- an action that needs a file which an earlier action of the same run writes: it is made in its turn.
#pragma once

#include "actions/action.h"

namespace tutti::actions {

using ActionMaker = std::function<std::unique_ptr<Action>(const ActionContext&)>;

// What Action says of a training that is not made yet.
struct LaterTraining {
  std::string model;  // empty: no training
  bool resumes = false;
};

// `settings` are the lines known already; the file that the action waits for is added.
std::unique_ptr<Action> make_later(const ActionContext&, ActionMaker, std::string settings, std::string file,
                                   LaterTraining training = {});

}  // namespace tutti::actions
