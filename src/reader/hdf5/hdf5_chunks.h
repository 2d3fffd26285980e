// SPDX-License-Identifier: Apache-2.0
// hdf5_chunks.h -- libhdf5 believes a chunk of a damaged file: where it unpacks to less than its size, version 1.10
// goes on reading behind it, and training goes on with other numbers. So each chunk is measured before it is read
// first.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tutti::reader {

class Hdf5Chunks {
 public:
  // Of an open dataset, which outlives this object. `axes` is its shape.
  Hdf5Chunks(hid_t set, std::vector<hsize_t> axes);

  // What is wrong with the chunks of rows [first, first + rows), or "". A chunk that filters other than deflate,
  // shuffle and fletcher32 have made is not measured.
  std::string damage(hsize_t first, hsize_t rows);

 private:
  std::string damage_at(const std::vector<hsize_t>& place);
  std::string damage_of(std::uint32_t skipped_filters) const;

  hid_t set_;
  std::vector<hsize_t> axes_, sides_;  // no sides: not stored in chunks
  hsize_t bytes_ = 0;                  // of a chunk, unpacked
  std::vector<H5Z_filter_t> filters_;  // in the order of writing
  std::set<std::vector<hsize_t>> good_;
  std::vector<unsigned char> packed_;
};

}  // namespace tutti::reader
