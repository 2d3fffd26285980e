// SPDX-License-Identifier: Apache-2.0
// request.h -- what `trainer doctor` is asked about, and how its ranks are told.
#pragma once

#include <string>
#include <vector>

#include "doctor/data.h"
#include "doctor/finding.h"
#include "launch/options.h"

namespace tutti::doctor {

struct Request {
  launch::Options launch;
  bool has_config = false;
  std::vector<DataItem> data;  // what the config's readers name; ranks look at the first kMostItems
  std::string output = ".";    // the folder of the model
  std::string directory;       // where the command was started
};

// The words after "doctor": those of `trainer launch`, then a configuration or nothing. Throws Error and ConfigError.
Request read_request(const std::vector<std::string>& words);
// The words of a rank, and back.
std::vector<std::string> to_words(const Request&);
Request from_words(const std::vector<std::string>& words);

// What can be seen from the host on which the command was started, before there are ranks.
void look_at_this_host(const Request&, Findings&);
bool look_at_hosts(const Request&, Findings&);  // names and connections; false if ranks could not start

// The command of a rank: looks at its host, measures the links, and rank 0 prints the findings as records.
int run_rank(int argc, char** argv);

}  // namespace tutti::doctor
