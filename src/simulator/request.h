// SPDX-License-Identifier: Apache-2.0
// request.h -- the words of `trainer simulate` before the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::simulator {

struct Link {
  std::string name;      // as written
  double bandwidth = 0;  // bits per second; infinite for "none"
};

struct Request {
  std::vector<int> ranks = {2, 4, 8, 16};
  std::vector<Link> links;
  double latency = 0;  // seconds
  int shared_cores = 0;
  std::int64_t per_rank = 0;        // samples of a rank in a minibatch; 0 = the config's minibatch is divided
  std::string json;                 // file; "" = none
  std::vector<std::string> own;     // the words that were read
  std::vector<std::string> others;  // those of trainer launch, and the configuration
};
// Throws Error with what is wrong and a fix.
Request parse_request(const std::vector<std::string>& words);

}  // namespace tutti::simulator
