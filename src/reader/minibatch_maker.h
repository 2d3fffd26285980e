// SPDX-License-Identifier: Apache-2.0
// minibatch_maker.h -- one global order over one source: what the readers of all formats are made of.
#pragma once

#include <memory>
#include <optional>

#include "reader/minibatch_walker.h"
#include "reader/sequence_source.h"
#include "reader/share.h"

namespace tutti::reader {

class MinibatchMaker {
 public:
  MinibatchMaker(std::unique_ptr<SequenceSource> source, Randomization randomization)
      : source_(std::move(source)), randomization_(randomization) {}
  const std::vector<StreamInfo>& streams() const { return source_->streams(); }
  std::int64_t sweep_samples() { return source_->index().samples(); }
  void start(const EpochPlan&);
  bool make(Share&);  // the next minibatch; false at the end of the epoch

 private:
  std::unique_ptr<SequenceSource> source_;
  Randomization randomization_;
  std::optional<MinibatchWalker> walker_;  // once the index is known
  Step step_;
};

}  // namespace tutti::reader
