// SPDX-License-Identifier: Apache-2.0
// Walking and seeking in the endless sequence of sweeps.
#include "reader/order_cursor.h"

#include "tutti/error.h"

namespace tutti::reader {

void OrderCursor::seek(std::int64_t position) {
  sweep_ = position / index_.samples();
  const std::int64_t offset = position % index_.samples();
  order_.set_sweep(sweep_);
  std::int64_t at = 0;
  if (index_.single_samples()) {
    place_ = static_cast<std::uint32_t>(offset);
    at = offset;
  } else {
    for (place_ = 0; at < offset; ++place_) at += index_.samples_of(order_[place_]);
  }
  position_ = sweep_ * index_.samples() + at;
}

void OrderCursor::next_sweep() {
  ++sweep_;
  place_ = 0;
  order_.set_sweep(sweep_);
}

std::uint32_t OrderCursor::take() {
  const std::uint32_t sequence = order_[place_++];
  position_ += index_.samples_of(sequence);
  return sequence;
}

OrderCursor::EpochRange OrderCursor::epoch(const EpochPlan& plan) const {
  const std::int64_t samples = plan.samples > 0 ? plan.samples : index_.samples();
  EpochRange s;
  if (__builtin_mul_overflow(plan.epoch, samples, &s.begin) || __builtin_add_overflow(s.begin, samples, &s.end))
    throw Error("reading: epochSize times the number of epochs is beyond all counting");
  return s;
}

}  // namespace tutti::reader
