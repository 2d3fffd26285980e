// SPDX-License-Identifier: Apache-2.0
// links.h -- clocks, and the latency and bandwidth between every two hosts.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"
#include "tutti/communicator.h"

namespace tutti::doctor {

struct LinkEnd {
  std::string host;
  int rank = 0;  // the rank that measures for the host
};

// Collective over all ranks; rank 0, which must be the first end, gets the findings.
void look_at_clocks(Communicator&, const std::vector<LinkEnd>&, Findings&);
void look_at_links(Communicator&, const std::vector<LinkEnd>&, Findings&);

struct Link {
  std::size_t a = 0, b = 0;  // ends
  double latency = 0;        // seconds, one way
  double bandwidth = 0;      // bytes per second, one way
};
// The findings about measured links: slow ones, and those much slower than most.
void judge_links(const std::vector<LinkEnd>&, const std::vector<Link>&, Findings&);

}  // namespace tutti::doctor
