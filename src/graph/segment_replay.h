// SPDX-License-Identifier: Apache-2.0
// segment_replay.h -- segments of a program whose device calls are the same for equal sizes and addresses: captured the
// second time they run, replayed from then on. Does nothing without a backend that can capture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "graph/kernel.h"
#include "tutti/graph_capture.h"

namespace tutti::graph {

class SegmentReplay {
 public:
  void use(GraphCapture& capture) { capture_ = &capture; }
  // Call before the forward pass, with the sizes and addresses of this pass and its backward pass.
  void begin(const Run&);
  // Runs `work`, segment number `segment`, or replays it. Chunks are announced afterwards.
  template <class Work>
  void run(std::size_t segment, Run& run, const Work& work) {
    if (!capture_ || !now_ || now_->seen < 2 || !repeat(segment, run, std::cref(work))) work();
  }

 private:
  struct Segment {
    std::unique_ptr<CapturedGraph> captured;
    std::vector<std::size_t> chunks;  // that it announces
    bool refused = false;             // it cannot be captured
  };
  struct Shape {
    std::vector<std::uint64_t> key;
    std::int64_t seen = 0;
    std::vector<Segment> segments;
  };
  bool repeat(std::size_t segment, Run&, const std::function<void()>& work);
  void record(Segment&, Run&, const std::function<void()>& work);

  GraphCapture* capture_ = nullptr;
  std::vector<std::unique_ptr<Shape>> shapes_;  // the last ones used, first
  Shape* now_ = nullptr;
  std::vector<std::uint64_t> key_;
};

}  // namespace tutti::graph
