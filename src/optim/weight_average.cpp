// SPDX-License-Identifier: Apache-2.0
#include "optim/weight_average.h"

#include <algorithm>

namespace tutti {

void WeightAverage::bind(Parameters& p) {
  p_ = &p;
  k_ = &optim::kernels_for(p.weights.memory());
  other_ = FloatBuffer(p.size(), p.weights);
}

void WeightAverage::restart() {
  p_->weights.memory().synchronize();
  std::copy_n(p_->weights.data(), p_->size(), other_.data());
  updates_ = 0;
}

void WeightAverage::update() {
  const auto n = static_cast<double>(updates_++);
  const double keep = std::min(decay_, (1 + n) / (10 + n));
  k_->run(optim::MoveTowards{other_.data(), p_->weights.data(), static_cast<float>(1 - keep)}, p_->size());
}

void WeightAverage::swap() {
  p_->weights.memory().synchronize();
  std::swap_ranges(p_->weights.data(), p_->weights.data() + p_->size(), other_.data());
}

void WeightAverage::archive(Archive& a) {
  p_->weights.memory().synchronize();
  a("average/updates", updates_);
  for (const Slice& s : p_->slices) a("average/" + s.name, other_.span().subspan(s.offset, s.size()));
}

}  // namespace tutti
