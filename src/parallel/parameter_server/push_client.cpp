// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/push_client.h"

#include <utility>

namespace tutti {

PushWorker::PushWorker(const Kind& kind, Parameters& live, const Codec& codec, std::size_t largest_run)
    : kind_(kind),
      live_(live),
      codec_(codec),
      kernels_(weight_kernels_for(live.weights.memory())),
      delta_(largest_run, live.weights),
      common_(largest_run, live.weights) {
  const std::size_t n = live.size();
  if (!kind.gradients || codec.lossy()) base_ = FloatBuffer(n, live.weights);
  if (codec.lossy() && kind.shifted) known_ = FloatBuffer(n, live.weights);
  if (codec.lossy()) residual_ = FloatBuffer(n, live.weights);
  if (kind.accrues) accrued_ = FloatBuffer(n, live.weights);
}

void PushWorker::begin() {
  copy(live_.weights.data(), base_.data(), base_.size());
  copy(live_.weights.data(), known_.data(), known_.size());
  has_accrued_ = false;
}

void PushWorker::accrue() {
  const float* const gradients = live_.gradients.data();
  if (std::exchange(has_accrued_, true))
    kernels_.run(weights::Add{gradients, accrued_.data()}, accrued_.size());
  else
    copy(gradients, accrued_.data(), accrued_.size());
}

const float* PushWorker::take_accrued() {
  if (!std::exchange(has_accrued_, false)) kernels_.run(weights::Clear{accrued_.data()}, accrued_.size());
  return accrued_.data();
}

void PushWorker::write(const ServerShardRun& run, const PushHead& head, float factor, const float* gradients,
                       std::byte* message) {
  float* const residual = residual_.size() > 0 ? residual_.data() + run.offset : nullptr;
  const float* value = kind_.gradients ? gradients + run.offset : delta_.data();
  if (!kind_.gradients) {
    const float* const w = live_.weights.data() + run.offset;
    float* const base = base_.data() + run.offset;
    if (head.replaces)
      value = w;
    else
      kernels_.run(weights::Offer{base, w, delta_.data(), factor}, run.size());
    if (!head.fetches) copy(w, base, run.size());
  }
  codec_.encode(run.rows, run.columns, value, residual, message);
}

// As values, or as differences from the last ones.
const float* PushWorker::common(const ServerShardRun& run, const std::byte* message) {
  if (!codec_.lossy()) {
    codec_.decode(run.rows, run.columns, message, common_.data());
    return common_.data();
  }
  float* const known = (known_.size() > 0 ? known_ : base_).data() + run.offset;
  codec_.decode_add(run.rows, run.columns, message, known);
  return known;
}

void PushWorker::take(const ServerShardRun& run, const std::byte* message) {
  const float* const now = common(run, message);
  copy(now, live_.weights.data() + run.offset, run.size());
  if (base_.size() > 0 && base_.data() + run.offset != now) copy(now, base_.data() + run.offset, run.size());
}

void PushWorker::turn(const ServerShardRun& run, const PushHead& head, float factor, const float* gradients,
                      const std::byte* in, std::byte* out) {
  const float* const now = in ? common(run, in) : nullptr;
  write(run, head, factor, gradients, out);
  float* const w = live_.weights.data() + run.offset;
  if (kind_.gradients) {
    if (now) copy(now, w, run.size());
    return;
  }
  // The residual that the servers have not received stays.
  if (now) kernels_.run(weights::Difference{now, delta_.data(), w}, run.size());
  copy(w, base_.data() + run.offset, run.size());
}

}  // namespace tutti
