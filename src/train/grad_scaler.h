// SPDX-License-Identifier: Apache-2.0
// grad_scaler.h -- by what the criterion is multiplied before its gradients are computed in float16, so that small ones
// are not lost, and large ones do not overflow: as large as it may be, found by trying. Always a power of two, so that
// dividing the gradients by it is exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/archive.h"

namespace tutti {

class GradScaler {
 public:
  static constexpr double first = 65536, most = 16777216;
  static constexpr std::int64_t steps_until_doubled = 2000;

  // "auto", or a power of two from 1 to `most`; nothing if the text is neither.
  static std::optional<GradScaler> parse(const std::string& text);

  GradScaler() = default;  // 1, for ever
  double value() const { return value_; }
  // Whether steps whose gradients are not finite are skipped.
  bool seeks() const { return seeks_; }
  // Behind a backward pass. Half the scale, and true, when its step is to be skipped; twice the scale after enough
  // steps that were not. With a scale of 1 no step is skipped: a smaller one would not help.
  bool skips_step(bool finite);
  void archive(Archive&, const std::string& prefix = {});  // of the names of its entries

 private:
  double value_ = 1;
  bool seeks_ = false;
  std::int64_t good_steps_ = 0;  // since the scale was changed
};

}  // namespace tutti
