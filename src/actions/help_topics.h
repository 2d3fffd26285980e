// SPDX-License-Identifier: Apache-2.0
// help_topics.h -- the option blocks that help=NAME explains, and their keys.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/config.h"

namespace tutti::actions {

struct Topic {
  std::string name, help;
  std::string place;  // how a setting of the block is written on the command line, {} for "key=value"
  std::function<void(config::Fields&)> describe;
};
const std::vector<Topic>& topics();

// A key of a block: its place and its help.
struct KeyHelp {
  std::string key;
  std::string block;  // "DataParallelSGD"
  std::string text;   // "Train=[SGD=[...gradientBits=...]]" and the line of the block's help, on lines
};
std::vector<KeyHelp> all_keys();

}  // namespace tutti::actions
