// SPDX-License-Identifier: Apache-2.0
// data.h -- the files that the readers of a configuration name, and whether all hosts have the same ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "tutti/config.h"

namespace tutti::doctor {

struct DataItem {
  // What a file names in turn: nothing, a path per line (fileList, mlfFileList), utterances (scpFile), images (a map).
  enum class Kind : char { file = 'f', list = 'l', script = 's', map = 'm' };
  Kind kind = Kind::file;
  std::string path;         // absolute; of a map also a folder of images
  std::string prefix = {};  // prefixPathInSCP
};
constexpr std::size_t kMostItems = 256;

// Adds what the block of a reader and the blocks in it name.
void add_data(const config::Record& reader, std::vector<DataItem>&);

// Of one item on one host; plain data, as it travels.
struct Fingerprint {
  std::uint64_t content = 0;  // of the bytes of a file, of the names in a folder; 0 = not readable
  std::uint64_t sizes = 0;    // of files in a folder, or named by a list
  std::int64_t named = 0;     // files in a folder, or lines of a list
  std::int64_t compared = 0;  // files that `sizes` covers; 0 if the folder has too many files
  std::int64_t missing = 0;   // of these
  std::int32_t folder = 0;    // 1: the item is one
  std::array<char, 160> first_missing{};
};
Fingerprint fingerprint(const DataItem&);
// The parts of a file: equal files give equal numbers, and a large file takes no time. 0 = not readable.
std::uint64_t content_hash(const std::string& path, std::size_t bytes_per_part);

struct HostData {
  std::string host;
  std::span<const Fingerprint> items;
};
Findings compare_data(const std::vector<DataItem>&, const std::vector<HostData>&);

}  // namespace tutti::doctor
