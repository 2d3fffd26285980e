// SPDX-License-Identifier: Apache-2.0
#include "train/bad_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "base/activity.h"
#include "comm/agreement.h"
#include "reader/minibatch_walker.h"

namespace tutti {
namespace {

// A batch of the sequences [from, to) of another one.
class Part {
 public:
  Part(const Batch& whole, const std::vector<StreamInfo>& streams, std::size_t from, std::size_t to) {
    begins_.resize(whole.streams.size());
    columns_.resize(whole.streams.size());
    for (std::size_t s = 0; s < whole.streams.size(); ++s) add(whole.streams[s], streams[s], s, from, to);
    std::vector<std::int64_t> lengths;
    for (std::size_t q = from; q < to; ++q) {
      std::int64_t longest = 0;
      for (const StreamData& d : whole.streams)
        longest = std::max(longest, d.sequence_begin[q + 1] - d.sequence_begin[q]);
      lengths.push_back(longest);
      batch_.samples += longest;
    }
    batch_.sequences = static_cast<std::int64_t>(to - from);
    batch_.columns = batch_.global_columns = reader::Packing().columns(lengths);
    batch_.global_samples = batch_.samples;
    batch_.position = whole.position, batch_.minibatch = whole.minibatch;
    if (!whole.sequence_positions.empty())
      batch_.sequence_positions = whole.sequence_positions.subspan(from, to - from);
  }
  const Batch& batch() const { return batch_; }

 private:
  void add(const StreamData& d, const StreamInfo& info, std::size_t s, std::size_t from, std::size_t to) {
    const auto first = static_cast<std::size_t>(d.sequence_begin[from]),
               end = static_cast<std::size_t>(d.sequence_begin[to]);
    StreamData part;
    part.columns = end - first;
    for (std::size_t q = from; q <= to; ++q) begins_[s].push_back(d.sequence_begin[q] - d.sequence_begin[from]);
    part.sequence_begin = begins_[s];
    if (info.sparse) {
      for (std::size_t c = first; c <= end; ++c) columns_[s].push_back(d.column_begin[c] - d.column_begin[first]);
      const auto at = static_cast<std::size_t>(d.column_begin[first]), n = static_cast<std::size_t>(columns_[s].back());
      part.column_begin = columns_[s];
      part.values = d.values.subspan(at, n), part.indices = d.indices.subspan(at, n);
    } else {
      part.dense = d.dense.subspan(first * info.dim, part.columns * info.dim);
    }
    batch_.streams.push_back(part);
  }

  std::vector<std::vector<std::int64_t>> begins_, columns_;  // by stream
  Batch batch_;
};

bool is_bad(Network& network, const Batch& batch) {
  const auto finite = [](std::span<const float> v) {
    return std::ranges::all_of(v, [](float x) { return std::isfinite(x); });
  };
  const bool number = std::isfinite(network.evaluate(batch).criterion);  // on all ranks, if they compute together
  return !number ||
         !std::ranges::all_of(batch.streams, [&](const StreamData& d) { return finite(d.dense) && finite(d.values); });
}

// Whether the sequences [from, to) of the share are bad.
using IsBad = std::function<bool(std::size_t from, std::size_t to)>;

std::optional<std::size_t> search(const Batch& batch, const IsBad& bad) {
  if (!batch.fragments.empty() || batch.sequences == 0) return {};
  const auto sequences = static_cast<std::size_t>(batch.sequences);
  std::size_t from = 0, to = sequences;
  while (to - from > 1) {
    const std::size_t middle = from + (to - from) / 2;
    bad(from, middle) ? to = middle : from = middle;
  }
  if (!bad(from, to)) return {};
  // With NaN weights every sample is bad.
  const std::size_t other = from == 0 ? sequences - 1 : 0;
  if (sequences > 2 && bad(other, other + 1) && bad(sequences / 2, sequences / 2 + 1)) return {};
  return from;
}

std::string text_of(Reader& reader, const Batch& batch, std::size_t sequence, const std::string& whose) {
  std::string text = fmt::format("sample {} of the {} of {}", sequence + 1, batch.sequences, whose);
  if (sequence < batch.sequence_numbers.size()) text += ", " + reader.place(batch.sequence_numbers[sequence]);
  return text;
}

// The text of the first rank that has one.
std::string first_text(Communicator& ranks, std::string mine) {
  const std::vector<std::size_t> sizes = from_all(ranks, mine.size());
  const auto first = std::ranges::find_if(sizes, [](std::size_t size) { return size > 0; });
  if (first == sizes.end()) return {};
  mine.resize(*first);
  ranks.broadcast(static_cast<int>(first - sizes.begin()), std::as_writable_bytes(std::span(mine)));
  return mine;
}

// The share of one rank after the other is searched; the others take part without samples.
std::string find_together(Network& network, Reader& reader, const Batch& batch, Communicator& ranks) {
  const Part none(batch, reader.streams(), 0, 0);
  const auto evaluate = [&](const Batch& part) {
    made_progress();
    return !all_agree(ranks, !is_bad(network, part));
  };
  const auto goes_on = [&](int searching, bool on) {
    ranks.broadcast(searching, std::as_writable_bytes(std::span(&on, 1)));
    return on;
  };
  std::string text;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r != ranks.rank()) {
      while (goes_on(r, false)) evaluate(none.batch());
      continue;
    }
    const auto found = search(batch, [&](std::size_t from, std::size_t to) {
      goes_on(r, true);
      return evaluate(Part(batch, reader.streams(), from, to).batch());
    });
    goes_on(r, false);
    if (found) text = text_of(reader, batch, *found, fmt::format("rank {}", ranks.world_rank(r)));
  }
  return first_text(ranks, text);
}

}  // namespace

std::string find_bad_sample(Network& network, Reader& reader, const Batch& batch, Communicator* layer_ranks) {
  if (layer_ranks) return find_together(network, reader, batch, *layer_ranks);
  const auto found = search(batch, [&](std::size_t from, std::size_t to) {
    made_progress();
    return is_bad(network, Part(batch, reader.streams(), from, to).batch());
  });
  return found ? text_of(reader, batch, *found, "this rank") : "";
}

}  // namespace tutti
