// SPDX-License-Identifier: Apache-2.0
// finding.h -- one line of `trainer doctor`.
#pragma once

#include <string>
#include <vector>

namespace tutti::doctor {

enum class Level { ok, warning, failure };

struct Finding {
  Level level = Level::ok;
  std::string subject;   // "shared memory"
  std::string text;      // what was found
  std::string fix = {};  // what to do about it; empty if ok
};
using Findings = std::vector<Finding>;

std::string to_string(const Finding&);  // "warning  shared memory   ...; fix: ..."
// How ranks report to the command that started them: a line of output with a mark that no other line has.
std::string to_record(const Finding&);
bool from_record(const std::string& line, Finding&);

}  // namespace tutti::doctor
