// SPDX-License-Identifier: Apache-2.0
// Ranges of columns of whole sequences.
#include "reader/fragment_cutter.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

void append_columns(const StreamBuffer& from, std::int64_t begin, std::int64_t end, StreamBuffer& to) {
  const auto b = static_cast<std::size_t>(begin), e = static_cast<std::size_t>(end);
  if (from.info.sparse) {
    for (std::size_t c = b; c < e; ++c) {
      const auto first = static_cast<std::size_t>(from.column_begin[c]),
                 behind = static_cast<std::size_t>(from.column_begin[c + 1]);
      to.values.append(from.values.data() + first, behind - first);
      to.indices.append(from.indices.data() + first, behind - first);
      to.end_sparse();
    }
  } else {
    to.dense.append(from.dense.data() + b * from.info.dim, (e - b) * from.info.dim);
    to.columns += e - b;
  }
}

}  // namespace

std::shared_ptr<Share> FragmentCutter::spare(const SequenceSource& source) {
  for (const auto& share : pool_)
    if (share.use_count() == 1) {
      share->clear();
      return share;
    }
  pool_.push_back(std::make_shared<Share>(source.streams()));
  return pool_.back();
}

void FragmentCutter::fetch(SequenceSource& source, const std::vector<Segment>& segments) {
  wanted_.clear();
  for (const Segment& p : segments)
    if (!held_.contains(p.sequence)) wanted_.push_back(p.sequence);
  if (wanted_.empty()) return;
  const std::shared_ptr<Share> share = spare(source);
  source.read(wanted_, *share);
  std::size_t number = 0;
  for (const std::uint32_t s : wanted_) {
    const auto& left_out = share->left_out();
    if (std::find(left_out.begin(), left_out.end(), s) != left_out.end()) {
      held_[s] = {};
    } else {
      held_[s] = {share, number++};
    }
  }
}

void FragmentCutter::append(SequenceSource& source, const Held& held, const Segment& segment, Share& share) {
  for (std::size_t s = 0; s < share.streams().size(); ++s) {
    const StreamBuffer& from = (*held.from)[s];
    const std::int64_t begin = from.sequence_begin[held.number], columns = from.sequence_begin[held.number + 1] - begin;
    if (columns < segment.end || (segment.ends && columns > segment.end))
      throw Error(
          fmt::format("reading for truncated back-propagation: {} has {} samples of stream '{}', fewer or more than of "
                      "another one; sequences can only be cut where every stream has a sample at each step",
                      source.place(segment.sequence), columns, from.info.name));
    append_columns(from, begin + segment.begin, begin + segment.end, share[s]);
  }
  share.end_sequence(segment.end - segment.begin);
  share.add_fragment({segment.lane, segment.begin == 0, segment.ends});
  share.positions().push_back(segment.position);
}

void FragmentCutter::read(SequenceSource& source, const std::vector<Segment>& segments, Share& share) {
  fetch(source, segments);
  for (const Segment& p : segments) {
    const auto held = held_.find(p.sequence);
    if (held->second.from) {
      append(source, held->second, p, share);
    } else if (p.begin == 0) {
      share.left_out().push_back(p.sequence);
    }
    if (p.ends) held_.erase(held);
  }
}

}  // namespace tutti::reader
