// SPDX-License-Identifier: Apache-2.0
// grad_scaler.h -- the factor on the criterion with float16 gradients, which keeps small gradients from underflowing.
// It is adapted to be as large as possible without overflow. Always a power of two, so that dividing by it is exact.
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

  // "auto", or a power of two from 1 to `most`; nullopt for any other text.
  static std::optional<GradScaler> parse(const std::string& text);

  GradScaler() = default;  // always 1
  double value() const { return value_; }
  // Whether steps with gradients that are not finite are skipped.
  bool seeks() const { return seeks_; }
  // Call after a backward pass. Halves the scale and returns true if the step must be skipped; doubles it after enough
  // good steps. With a scale of 1 no step is skipped, because a smaller scale would not help.
  bool skips_step(bool finite);
  void archive(Archive&, const std::string& prefix = {});  // with a prefix for the names of its entries

 private:
  double value_ = 1;
  bool seeks_ = false;
  std::int64_t good_steps_ = 0;  // since the scale was changed
};

}  // namespace tutti
