// SPDX-License-Identifier: Apache-2.0
#include "train/grad_scaler.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tutti {

std::optional<GradScaler> GradScaler::parse(const std::string& text) {
  GradScaler scale;
  if (text == "auto") {
    scale.value_ = first, scale.seeks_ = true;
    return scale;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, scale.value_);
  int exponent = 0;
  const bool power = error == std::errc{} && stop == end && std::frexp(scale.value_, &exponent) == 0.5;
  if (!power || scale.value_ < 1 || scale.value_ > most) return {};
  return scale;
}

bool GradScaler::skips_step(bool finite) {
  if (!seeks_) return false;
  if (finite) {
    if (++good_steps_ < steps_until_doubled) return false;
    good_steps_ = 0;
    value_ = std::min(2 * value_, most);
    return false;
  }
  good_steps_ = 0;
  if (value_ == 1) return false;
  value_ /= 2;
  return true;
}

// A run with another scale or type may resume from a file of a run with automatic scaling, and the other way round.
void GradScaler::archive(Archive& a, const std::string& prefix) {
  const std::string of_value = prefix + "lossScale.value";
  if (a.loading() ? !a.has(of_value) : !seeks_) return;
  double value = value_;
  std::int64_t good_steps = good_steps_;
  a(of_value, value);
  a(prefix + "lossScale.goodSteps", good_steps);
  if (seeks_) value_ = value, good_steps_ = good_steps;
}

}  // namespace tutti
