// SPDX-License-Identifier: Apache-2.0
// scp_list.h -- script files: lists of utterances, [logical.name=]file[firstFrame,lastFrame].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reader/fault_budget.h"

namespace tutti::reader {

struct ScpEntry {
  std::string key;   // the logical name, else the file's, without extension
  std::string path;  // of the file
  std::optional<std::pair<std::uint32_t, std::uint32_t>> frames;  // first and last
  std::size_t line = 0;
  std::string text;  // of the line, for messages
};

// `prefix` is prepended to relative paths; without one, "..." at the start of a path is the directory of the list.
// Skips and counts bad lines. Throws Error if the file cannot be read.
std::vector<ScpEntry> read_scp(const std::string& path, const std::string& prefix, FaultBudget&);

// The name of an utterance: the path without its extension.
std::string without_extension(const std::string& path);

}  // namespace tutti::reader
