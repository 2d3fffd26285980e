// SPDX-License-Identifier: Apache-2.0
// hdf5_chunks.h -- checks chunks before they are read. A damaged chunk can unpack to fewer bytes than its size; libhdf5
// 1.10 reads past the end of it, and training continues with garbage.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::reader {

class Hdf5Chunks {
 public:
  // Of an open dataset, which outlives this object. `axes` is its shape.
  Hdf5Chunks(hid_t set, std::vector<hsize_t> axes);

  // What is wrong with the chunks of rows [first, first + rows), or "". Chunks with filters other than deflate, shuffle
  // and fletcher32 are not measured.
  std::string damage(hsize_t first, hsize_t rows);

 private:
  std::string damage_of_plain_chunks() const;
  bool stored_plain(const std::vector<hsize_t>& place) const;
  std::string damage_at(const std::vector<hsize_t>& place);
  std::string damage_of(std::uint32_t skipped_filters) const;

  hid_t set_;
  std::vector<hsize_t> axes_, sides_;                  // no sides: not stored in chunks
  hsize_t bytes_ = 0;                                  // of a chunk, unpacked
  std::vector<H5Z_filter_t> filters_;                  // in the order of writing
  bool plain_edges_ = false;                           // chunks that reach beyond the dataset have no filters
  std::map<std::vector<hsize_t>, std::string> known_;  // what is wrong with a chunk, by its place
  std::string damage_of_plain_;                        // of all chunks, if they have no filters
  std::vector<unsigned char> packed_;
};

}  // namespace tutti::reader
