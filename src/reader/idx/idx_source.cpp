// SPDX-License-Identifier: Apache-2.0
// Checks that the files belong together, and delivers their items.
#include "reader/idx/idx_source.h"

#include <fmt/format.h>

#include "reader/stream_dims.h"

namespace tutti::reader {

IdxSource::IdxSource(std::vector<IdxStream> streams) {
  std::uint64_t items = 0;
  for (auto& s : streams) {
    const IdxHeader h = read_idx_header(s.path);
    if (streams_.empty()) items = h.items();
    if (h.items() != items)
      throw Error(
          fmt::format("reading the IDX file '{}': it has {} items, but '{}' has {}; they do not belong together",
                      s.path, h.items(), streams_.front().path, items));
    streams_.push_back({std::move(s), false});
    Item& stream = streams_.back();
    check_stream(stream, h);
    infos_.push_back(
        {stream.name, stream.classes ? static_cast<std::size_t>(stream.dim) : h.item_size(), stream.sparse});
  }
  if (items >= SequenceIndex::most_sequences) throw Error("reading the IDX files: too many items");
}

void IdxSource::check_stream(Item& s, const IdxHeader& h) {
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("reading the IDX file '{}' for stream '{}': {}", s.path, s.name, why));
  };
  if (s.scale == 0) s.scale = h.type == IdxType::u8 ? 1.0 / 255 : 1.0;
  s.classes = h.item_size() == 1 && s.dim > 1;
  if (s.classes && (h.type == IdxType::f32 || h.type == IdxType::f64))
    fail(fmt::format("labelDim = {} asks for class numbers, but the file holds fractions", s.dim));
  if (!s.classes && s.dim > 0 && static_cast<std::uint64_t>(s.dim) != h.item_size())
    fail(fmt::format("each item has {} numbers, but the block says {}; are the files swapped?", h.item_size(), s.dim));
  if (!s.classes && s.sparse) fail("only a stream of classes can be sparse; set labelDim, or leave format out");
}

const SequenceIndex& IdxSource::index() {
  if (!arrays_.empty()) return index_;
  std::vector<IdxArray> arrays;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    arrays.push_back(read_idx(streams_[s].path));
    const IdxHeader& h = arrays.back().header;
    if (h.items() != arrays.front().header.items() || (!streams_[s].classes && h.item_size() != infos_[s].dim))
      throw Error(fmt::format("reading the IDX file '{}': it was changed while in use", streams_[s].path));
    if (streams_[s].classes) check_classes(streams_[s], arrays.back());
  }
  arrays_ = std::move(arrays);
  index_ = SequenceIndex::uniform(static_cast<std::uint32_t>(arrays_.front().header.items()));
  return index_;
}

void IdxSource::check_classes(const Item& s, const IdxArray& array) {
  for (std::size_t i = 0; i < array.header.items(); ++i)
    if (const std::int64_t label = array.integer(i); label < 0 || label >= s.dim)
      throw ConfigError({},
                        fmt::format("reading the IDX file '{}': the label of item {} is {}, outside 0 to {}", s.path, i,
                                    label, s.dim - 1),
                        dim_fix("labelDim", label, s.name));
}

void IdxSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const IdxArray& array = arrays_[s];
    const std::size_t size = array.header.item_size();
    for (const std::uint32_t i : sequences) {
      if (streams_[s].classes) {
        share[s].add_one_hot(static_cast<std::size_t>(array.integer(i)));
      } else {
        array.convert(i * size, size, static_cast<float>(streams_[s].scale), share[s].add_dense());
      }
    }
  }
  share.end_single_samples(sequences.size());
}

}  // namespace tutti::reader
