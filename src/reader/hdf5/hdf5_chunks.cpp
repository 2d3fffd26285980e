// SPDX-License-Identifier: Apache-2.0
#include "reader/hdf5/hdf5_chunks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "reader/hdf5/hdf5_handle.h"

namespace tutti::reader {
namespace {

constexpr hsize_t checksum_bytes = 4;

// The size of a zlib stream when unpacked, or a little more than `most`; nothing if it is damaged.
std::optional<hsize_t> inflated_size(std::span<const unsigned char> packed, hsize_t most) {
  std::array<unsigned char, 1 << 16> window;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return std::nullopt;
  stream.next_in = const_cast<unsigned char*>(packed.data());  // only read
  stream.avail_in = static_cast<uInt>(packed.size());
  int status = Z_OK;
  while (status == Z_OK && stream.total_out <= most) {
    stream.next_out = window.data();
    stream.avail_out = window.size();
    status = inflate(&stream, Z_NO_FLUSH);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END && status != Z_OK) return std::nullopt;
  return stream.total_out;
}

}  // namespace

Hdf5Chunks::Hdf5Chunks(hid_t set, std::vector<hsize_t> axes) : set_(set), axes_(std::move(axes)) {
  const ListHandle made(H5Dget_create_plist(set));
  if (H5Pget_layout(made.get()) != H5D_CHUNKED) return;
  sides_.resize(axes_.size());
  if (H5Pget_chunk(made.get(), static_cast<int>(sides_.size()), sides_.data()) < 0 ||
      std::ranges::count(sides_, 0U) > 0) {
    sides_.clear();  // the library reports it
    return;
  }
  const TypeHandle type(H5Dget_type(set));
  bytes_ = H5Tget_size(type.get());
  for (const hsize_t side : sides_) bytes_ *= side;
  for (int i = 0; i < H5Pget_nfilters(made.get()); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    filters_.push_back(
        H5Pget_filter2(made.get(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr));
  }
  unsigned how = 0;
  plain_edges_ = H5Pget_chunk_opts(made.get(), &how) >= 0 && (how & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  if (filters_.empty()) damage_of_plain_ = damage_of_plain_chunks();
}

std::string Hdf5Chunks::damage(hsize_t first, hsize_t rows) {
  if (sides_.empty() || rows == 0) return {};
  if (filters_.empty()) return damage_of_plain_;
  std::vector<hsize_t> place(axes_.size(), 0);
  for (place[0] = first / sides_[0] * sides_[0]; place[0] < first + rows; place[0] += sides_[0]) {
    // All chunks of these rows, the last axis fastest.
    for (std::size_t axis = 1; axis > 0;) {
      if (std::string why = damage_at(place); !why.empty()) return why;
      for (axis = axes_.size() - 1; axis > 0; --axis) {
        place[axis] += sides_[axis];
        if (place[axis] < axes_[axis]) break;
        place[axis] = 0;
      }
    }
  }
  return {};
}

// The library takes the sizes of chunks without filters from the file as well; their sum must be what they should be.
std::string Hdf5Chunks::damage_of_plain_chunks() const {
  hsize_t chunks = 0;
  if (H5Dget_num_chunks(set_, H5S_ALL, &chunks) < 0) return {};
  const hsize_t stored = H5Dget_storage_size(set_);
  if (stored == chunks * bytes_) return {};
  return fmt::format("is stored in {} chunks of {} bytes, but in {} bytes: it is damaged", chunks, bytes_, stored);
}

bool Hdf5Chunks::stored_plain(const std::vector<hsize_t>& place) const {
  if (!plain_edges_) return false;
  for (std::size_t a = 0; a < place.size(); ++a)
    if (place[a] + sides_[a] > axes_[a]) return true;
  return false;
}

// What the library refuses here it refuses to read as well, with its reason.
std::string Hdf5Chunks::damage_at(const std::vector<hsize_t>& place) {
  if (const auto known = known_.find(place); known != known_.end()) return known->second;
  hsize_t stored = 0;
  std::uint32_t skipped = 0;
  std::string why;
  if (H5Dget_chunk_storage_size(set_, place.data(), &stored) < 0) return {};
  if (stored > 0 && !stored_plain(place)) {  // a chunk of no bytes was never written
    packed_.resize(stored);
    if (H5Dread_chunk(set_, H5P_DEFAULT, place.data(), &skipped, packed_.data()) < 0) return {};
    if (why = damage_of(skipped); !why.empty())
      why = fmt::format("has a damaged chunk, at {}: {}", fmt::join(place, ","), why);
  }
  return known_[place] = why;
}

std::string Hdf5Chunks::damage_of(std::uint32_t skipped_filters) const {
  hsize_t size = packed_.size();
  bool inflated = false;
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (i < 32 && (skipped_filters >> i & 1) != 0) continue;
    switch (filters_[i]) {
      case H5Z_FILTER_SHUFFLE:
        break;
      case H5Z_FILTER_FLETCHER32:
        if (size < checksum_bytes) return "it is shorter than its checksum";
        size -= checksum_bytes;
        break;
      case H5Z_FILTER_DEFLATE: {
        if (inflated) return {};  // twice: not measured
        inflated = true;
        const auto unpacked = inflated_size({packed_.data(), size}, bytes_ + checksum_bytes * filters_.size());
        if (!unpacked) return "it does not unpack";
        size = *unpacked;
        break;
      }
      default:
        return {};
    }
  }
  return size == bytes_ ? "" : fmt::format("it unpacks to {} bytes, not {}", size, bytes_);
}

}  // namespace tutti::reader
