// SPDX-License-Identifier: Apache-2.0
#include "graph/segment_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "tutti/log.h"

namespace tutti::graph {
namespace {

// Collects chunks that are announced before anything is computed.
class Notes final : public GradientSink {
 public:
  explicit Notes(std::vector<std::size_t>& chunks) : chunks_(chunks) {}
  bool follows_device() const override { return true; }
  void chunk_ready(std::size_t chunk) override { chunks_.push_back(chunk); }

 private:
  std::vector<std::size_t>& chunks_;
};

}  // namespace

void SegmentReplay::begin(const Run& run) {
  if (!capture_) return;
  key_.assign(run.columns.begin(), run.columns.end());
  for (const auto* places : {&run.values, &run.gradients, &run.work})
    for (const float* p : *places) key_.push_back(reinterpret_cast<std::uintptr_t>(p));
  key_.push_back(std::uint64_t{run.first_part} | std::uint64_t{run.last_part} << 1 |
                 std::uint64_t{std::bit_cast<std::uint32_t>(run.gradient_scale)} << 2);
  key_.push_back(std::bit_cast<std::uint64_t>(run.dropout_rate));
  key_.push_back(run.fragments.empty());
  for (std::size_t axis = 0; axis < run.sequences.size(); ++axis)
    if (const SequenceTable& table = run.sequences[axis]; table.columns() == run.columns[axis])
      for (std::size_t t = 0; t < table.steps(); ++t) key_.push_back(table.width(t));
  auto known = std::find_if(shapes_.begin(), shapes_.end(), [&](const auto& s) { return s->key == key_; });
  if (known == shapes_.end()) {
    if (shapes_.size() < most_shapes) shapes_.push_back(std::make_unique<Shape>());
    known = shapes_.end() - 1;
    (*known)->segments.clear(), (*known)->seen = 0;
    (*known)->key = key_;
  }
  std::rotate(shapes_.begin(), known, known + 1);
  now_ = shapes_.front().get();
  ++now_->seen;
}

bool SegmentReplay::repeat(std::size_t number, Run& run, const std::function<void()>& work) {
  if (now_->segments.size() <= number) now_->segments.resize(number + 1);
  Segment& s = now_->segments[number];
  if (s.refused) return false;
  const bool fresh = !s.captured;
  if (fresh) record(s, run, work);
  if (!s.captured || !s.captured->launch()) {
    // Freed memory may have to be allocated again by calls that cannot be captured, so this time the calls are made.
    s.captured.reset();
    s.refused = fresh;
    if (const std::string obstacle = fresh ? capture_->obstacle() : ""; !obstacle.empty())
      log::warning_of_rank(fmt::format(
          "part of each step is launched call by call because it cannot be captured in a CUDA graph: {}", obstacle));
    return false;
  }
  if (!s.chunks.empty()) run.sink->chunks_ready(s.chunks);
  return true;
}

void SegmentReplay::record(Segment& s, Run& run, const std::function<void()>& work) {
  s.chunks.clear();
  Notes notes(s.chunks);
  GradientSink* const sink = run.sink ? std::exchange(run.sink, &notes) : nullptr;
  s.captured = capture_->capture(work);
  run.sink = sink;
}

}  // namespace tutti::graph
