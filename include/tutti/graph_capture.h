// SPDX-License-Identifier: Apache-2.0
// graph_capture.h -- an optional interface of backends: captures a sequence of calls once and replays it for the price
// of one call, as a CUDA graph. Query it with dynamic_cast.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace tutti {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  // Enqueues the captured calls. Returns false and does nothing if memory that they may use has been freed since the
  // capture; capture again then.
  virtual bool launch() = 0;
};

class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  // Captures the backend calls of `work` without executing them. Returns null if one of them cannot be captured, such
  // as a call that waits for the device or reads host memory.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) = 0;
  // Why the last capture failed; empty if it succeeded or if a call cannot be captured at all.
  virtual std::string obstacle() const { return {}; }
};

}  // namespace tutti
