// SPDX-License-Identifier: Apache-2.0
// direct_reader.h -- a Reader that makes each minibatch on request, without reading ahead; for tests and one-off
// passes.
#pragma once

#include "reader/minibatch_maker.h"

namespace tutti::reader {

class DirectReader final : public Reader {
 public:
  explicit DirectReader(MinibatchMaker maker) : maker_(std::move(maker)), share_(maker_.streams()) {}
  const std::vector<StreamInfo>& streams() const override { return maker_.streams(); }
  std::int64_t sweep_samples() override { return maker_.sweep_samples(); }
  void start_epoch(const EpochPlan& plan) override { maker_.start(plan); }
  bool takes_work_units() const override { return maker_.takes_work_units(); }
  const Batch* next() override { return maker_.make(share_) ? &share_.finish() : nullptr; }

 private:
  MinibatchMaker maker_;
  Share share_;
};

}  // namespace tutti::reader
