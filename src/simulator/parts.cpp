// SPDX-License-Identifier: Apache-2.0
#include "simulator/parts.h"

#include <algorithm>
#include <cmath>

namespace tutti::simulator {

double values_of(const Parameters& layout) {
  std::size_t values = 0;
  for (const Slice& s : layout.slices) values += s.size();
  return static_cast<double>(values);
}

StepCost step_of(const Parts& parts, double samples) {
  const auto& all = parts.steps;
  samples = std::max(1.0, samples);
  if (all.size() == 1) {
    StepCost only = all[0];
    const double times = samples / static_cast<double>(std::max<std::int64_t>(1, only.samples));
    only.samples = static_cast<std::int64_t>(samples), only.seconds *= times;
    for (double& ready : only.ready) ready *= times;
    return only;
  }
  std::size_t above = 1;
  while (above + 1 < all.size() && static_cast<double>(all[above].samples) < samples) ++above;
  const StepCost &a = all[above - 1], &b = all[above];
  const double place = (samples - static_cast<double>(a.samples)) /
                       static_cast<double>(std::max<std::int64_t>(1, b.samples - a.samples));
  const auto between = [&](double at_a, double at_b) { return std::max(0.0, at_a + place * (at_b - at_a)); };
  StepCost step{static_cast<std::int64_t>(samples), between(a.seconds, b.seconds), {}};
  for (std::size_t i = 0; i < a.ready.size(); ++i) step.ready.push_back(between(a.ready[i], b.ready[i]));
  return step;
}

double parts_of(double bytes) { return std::ceil(bytes / kLargestPart); }

CodecOptions coding(const std::string& name) {
  if (name == "float16") return {.bits = 16, .format = NumberFormat::half};
  return {.bits = std::stoi(name)};
}

}  // namespace tutti::simulator
