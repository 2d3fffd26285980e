// SPDX-License-Identifier: Apache-2.0
// segment_replay.h -- segments of a program whose calls of the backend are the same whenever sizes and places are:
// captured when they come the second time, repeated from then on. Without a backend that records, everything is done as
// always.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "graph/kernel.h"
#include "tutti/graph_capture.h"

namespace tutti::graph {

// Whether an operation makes the same calls with the same numbers in every step of the same sizes, and does nothing on
// the host that the next step looks at.
bool repeats(const Instruction&);

class SegmentReplay {
 public:
  void use(GraphCapture& capture) { capture_ = &capture; }
  // Before the forward pass: with which sizes and places the segments of this pass and its backward pass run.
  void begin(const Run&);
  // Does `work`, the segment with that number, or repeats it. Chunks are announced behind it then.
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
  std::vector<std::unique_ptr<Shape>> shapes_;  // the last ones that came, first
  Shape* now_ = nullptr;
  std::vector<std::uint64_t> key_;
};

}  // namespace tutti::graph
