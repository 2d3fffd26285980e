// SPDX-License-Identifier: Apache-2.0
// record.h -- the values of a log line, for programs: one record per line of the log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

struct MetricsRecord {
  std::string event;         // start, interval, epoch, validation, checkpoint, end
  std::int64_t samples = 0;  // position in the run: samples of all epochs so far. Never decreases within a run
  std::vector<std::pair<std::string, std::int64_t>> place = {};  // epoch, epochs, minibatch; epochs count from 1
  std::vector<std::pair<std::string, std::string>> texts = {};
  struct Result {
    std::string name;
    double mean = 0, count = 0;
    bool error_rate = false;  // printed as a percentage
    bool larger_is_better = false;
  };
  std::vector<Result> results = {};                                     // criterion first
  std::vector<std::pair<std::string, double>> measures = {};            // seconds, bytes, rates
  std::vector<std::pair<std::string, std::vector<double>>> ranks = {};  // the same by rank
};

}  // namespace tutti
