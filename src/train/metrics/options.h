// SPDX-License-Identifier: Apache-2.0
// options.h -- the block metrics of SGD: files for the values of the log.
#pragma once

#include <string>

#include "tutti/config.h"

namespace tutti {

struct MetricsOptions {
  std::string jsonl;         // a file; "" = none
  std::string tensor_board;  // a folder; "" = none
  bool any() const { return !jsonl.empty() || !tensor_board.empty(); }
  void describe(config::Fields&);
};

// Why a file or folder could not be written there; "" if it could. Creates nothing.
std::string why_unwritable(const std::string& path, bool folder);

}  // namespace tutti
