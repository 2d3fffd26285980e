// SPDX-License-Identifier: Apache-2.0
// minibatch_maker.h -- one global order over one source: what the readers of all formats are made of.
#pragma once

#include <memory>
#include <optional>

#include "reader/fragment_cutter.h"
#include "reader/minibatch_walker.h"
#include "reader/sequence_source.h"
#include "reader/share.h"

namespace tutti::reader {

class MinibatchMaker {
 public:
  MinibatchMaker(std::unique_ptr<SequenceSource> source, Randomization randomization, Truncation truncation = {},
                 std::int64_t most_sequences = 0)
      : source_(std::move(source)),
        randomization_(randomization),
        truncation_(truncation),
        most_sequences_(most_sequences) {}
  const std::vector<StreamInfo>& streams() const { return source_->streams(); }
  std::int64_t sweep_samples() { return source_->index().samples(); }
  std::string place(std::uint32_t sequence) { return source_->place(sequence); }
  bool takes_work_units() const { return !truncated(); }
  void start(const EpochPlan&);
  bool make(Share&);  // the next minibatch; false at the end of the epoch

 private:
  bool truncated() const { return truncation_.length > 0 || truncation_.lanes > 0; }
  bool make_truncated(Share&);

  std::unique_ptr<SequenceSource> source_;
  Randomization randomization_;
  Truncation truncation_;
  std::int64_t most_sequences_;
  std::optional<MinibatchWalker> walker_;  // one of the two, once the index is known
  std::optional<LaneWalker> lanes_;
  FragmentCutter cutter_;
  Step step_;
  LaneStep lane_step_;
};

// A Reader that makes each minibatch on request, without reading ahead; for tests and one-off passes.
class DirectReader final : public Reader {
 public:
  explicit DirectReader(MinibatchMaker maker) : maker_(std::move(maker)), share_(maker_.streams()) {}
  const std::vector<StreamInfo>& streams() const override { return maker_.streams(); }
  std::int64_t sweep_samples() override { return maker_.sweep_samples(); }
  void start_epoch(const EpochPlan& plan) override { maker_.start(plan); }
  std::string place(std::uint32_t sequence) override { return maker_.place(sequence); }
  bool takes_work_units() const override { return maker_.takes_work_units(); }
  const Batch* next() override { return maker_.make(share_) ? &share_.finish() : nullptr; }

 private:
  MinibatchMaker maker_;
  Share share_;
};

}  // namespace tutti::reader
