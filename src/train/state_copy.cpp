// SPDX-License-Identifier: Apache-2.0
#include "train/state_copy.h"

#include <algorithm>

#include "train/checkpointing.h"

namespace tutti {
namespace {

void archive_all(Training& t, MemoryState& values) {
  const Parameters& p = t.network->parameters();
  values("weights", std::span<float>(const_cast<float*>(p.weights.data()), p.size()));
  for (auto& s : t.network->state()) values("network/" + s.name, s.values);
  archive_exchange_state(t, values);
  t.grad_scaler.archive(values);
  t.optimizer->archive(values);
}

}  // namespace

void MemoryState::operator()(std::string_view name, std::span<float> v) {
  if (loading_) {
    const auto& kept = std::get<std::vector<float>>(values_.at(std::string(name)));
    std::copy(kept.begin(), kept.end(), v.begin());
  } else {
    values_[std::string(name)] = std::vector<float>(v.begin(), v.end());
  }
}

StateCopy copy_state(Training& t) {
  StateCopy copy;
  copy.progress = t.progress;
  const CommonWeights common(*t.parallel->method.weights);
  archive_all(t, copy.values);
  return copy;
}

void restore_state(Training& t, StateCopy& copy) {
  t.progress = copy.progress;
  copy.values.rewind(true);
  archive_all(t, copy.values);
}

}  // namespace tutti
