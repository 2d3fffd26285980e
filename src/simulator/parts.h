// SPDX-License-Identifier: Apache-2.0
// parts.h -- what the models of `trainer simulate` know: what a host needs for the parts of a step, and the cluster
// that is simulated. measure.h fills Parts in; tests write them by hand.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti::simulator {

// Seconds per value.
struct CodecCost {
  double encode = 0, decode = 0, add = 0;  // add: decode to a sum
};

// A step of one rank that trains alone on so many samples.
struct StepCost {
  std::int64_t samples = 0;
  double seconds = 0;         // reading, forward, backward; without updates
  std::vector<double> ready;  // by chunk: seconds from the beginning of the step to its announcement
};

// A message between two hosts, of at most kLargestPart bytes.
struct MessageCost {
  double per_message = 0, per_byte = 0;  // seconds of a core, half of them at either end
  double latency = 0;                    // seconds from one program to the other, without the link's own
};

struct Parts {
  Parameters layout;                        // slices and chunks, without memory; no sparse gradients
  std::vector<StepCost> steps;              // by ascending samples, one at least
  double update = 0;                        // seconds per value: the optimizer
  double pass = 0;                          // seconds per value: w <- f (p - w), a pass over the weights
  std::map<std::string, CodecCost> codecs;  // by the names of coding()
  MessageCost message;
};

// Values, of all slices.
double values_of(const Parameters& layout);

// Between the measured numbers of samples, and beyond them, on a straight line; where one number was measured, in
// proportion. A step has one sample at least.
StepCost step_of(const Parts&, double samples);

struct Cluster {
  int ranks = 1;                                               // one per host
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second of messages, in either direction
  double latency = 0;                                          // seconds, one way
  // All ranks share so many cores; 0 = each has its own. A group of ranks may have less than one core.
  double shared_cores = 0;

  // Ranks that compute on one core.
  double ranks_per_core() const { return shared_cores > 0 && ranks > shared_cores ? ranks / shared_cores : 1; }
};

// The share of an Ethernet link that is left for messages: 1448 of 1514 bytes, as Linux counts them.
constexpr double kPayload = 1448.0 / 1514.0;

// The program sends longer messages to other hosts in parts of this size (src/comm/mpi.cpp).
constexpr double kLargestPart = 61440;
double parts_of(double bytes);  // 0 for 0 bytes

// A number format on the link: "32", "16" (levels), "float16", "4", "1".
CodecOptions coding(const std::string& name);

}  // namespace tutti::simulator
