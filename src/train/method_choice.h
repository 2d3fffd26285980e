// SPDX-License-Identifier: Apache-2.0
// method_choice.h -- what parallelizationMethod = auto has chosen, kept in the checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/archive.h"

namespace tutti {

struct MethodChoice {
  std::string method;             // "DataParallelSGD in 32 bits"; empty: the config names the method
  std::string reason;             // for the log
  double samples_per_second = 0;  // of all ranks, as timed; 0 = not timed
  std::int64_t ranks = 0;         // that were timed

  // A choice that was not timed is not kept.
  void archive(Archive& a) {
    if (a.loading() ? !a.has("auto/method") : samples_per_second == 0) return;
    a("auto/method", method);
    a("auto/samples per second", samples_per_second);
    a("auto/ranks", ranks);
  }
};

}  // namespace tutti
