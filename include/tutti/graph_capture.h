// SPDX-License-Identifier: Apache-2.0
// graph_capture.h -- what a backend may be able to do as well: note a run of calls once, and make them again at the
// price of one call. Asked for by dynamic_cast.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace tutti {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  // Makes the calls, behind what is in the queue. False, and nothing is done, when memory has been given back since the
  // capture that they may use: record anew.
  virtual bool launch() = 0;
};

class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  // The calls of the backend in `work` are noted instead of made. Null when one of them cannot be noted, such as those
  // that wait for the device or bring values of the host.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) = 0;
  // What the device had against the last capture; empty if nothing, or if a call cannot be noted.
  virtual std::string obstacle() const { return {}; }
};

}  // namespace tutti
