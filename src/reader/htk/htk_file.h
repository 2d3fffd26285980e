// SPDX-License-Identifier: Apache-2.0
// htk_file.h -- HTK feature files: a header of 12 bytes and frames of numbers, all big-endian; one or many utterances
// per file.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>

#include "reader/mapped_file.h"

namespace tutti::reader {

struct HtkHeader {
  std::uint32_t frames = 0;
  std::uint32_t dim = 0;      // numbers per frame
  bool compressed = false;    // 16-bit numbers with a scale and an offset per row
  std::uint64_t data_at = 0;  // of the first frame
  std::uint64_t frame_bytes = 0;
};

// Reads and checks the header against the size of the file. Throws Error.
HtkHeader read_htk_header(const std::string& path);

// The largest number of values per frame that a header can hold.
constexpr std::int64_t most_htk_numbers = 32767 / 4;

// Writes frames of `dim` numbers, ten milliseconds each, of kind USER. Throws Error.
void write_htk_file(const std::string& path, std::size_t dim, std::span<const float> values);

// Reads frames of files and keeps a few files open.
class HtkFiles {
 public:
  // Frames [first, first + count) as floats; throws Error if they cannot be read or are not finite.
  void read(const std::string& path, const HtkHeader&, std::uint64_t first, std::uint64_t count, float* out);

 private:
  struct Open {
    explicit Open(const std::string& p) : path(p), file(p) {}
    std::string path;
    Descriptor file;
  };
  int open(const std::string& path);
  void read_compressed(const std::string& path, int fd, const HtkHeader&, std::uint64_t first, std::uint64_t count,
                       float* out);
  std::list<Open> open_;  // the one used last in front
  std::string scratch_;
};

}  // namespace tutti::reader
