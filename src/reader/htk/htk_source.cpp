// SPDX-License-Identifier: Apache-2.0
// Joins the streams, and delivers the frames of an utterance as a sequence or as single samples.
#include "reader/htk/htk_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/log.h"

namespace tutti::reader {
namespace {

constexpr std::int64_t chunk_frames = 90'000;  // a quarter of an hour

}  // namespace

HtkSource::HtkSource(HtkReaderOptions options)
    : options_(std::move(options)), budget_("the HTK data", options_.max_errors, options_.trace_level) {
  for (const auto& [name, o] : options_.features) infos_.push_back({name, static_cast<std::size_t>(o.dim), false});
  for (const auto& [name, o] : options_.labels) infos_.push_back({name, static_cast<std::size_t>(o.dim), o.sparse});
}

const SequenceIndex& HtkSource::index() {
  if (!streams_.empty()) return index_;
  std::vector<std::unique_ptr<UtteranceStream>> streams;
  for (const auto& [name, o] : options_.features) streams.push_back(std::make_unique<HtkFeatures>(name, o, budget_));
  for (const auto& [name, o] : options_.labels) streams.push_back(std::make_unique<HtkLabels>(name, o, budget_));
  streams_ = std::move(streams);
  // The first stream defines the utterances and their order.
  while (primary_ + 1 < streams_.size() && streams_[primary_]->expands()) ++primary_;
  for (std::size_t u = 0; u < streams_[primary_]->utterances(); ++u) join(u, primary_);
  if (too_long_ > 0)
    log::warning(
        fmt::format("maxUtteranceLength = {} leaves out {} of {} utterances, which have more frames. fix: a "
                    "larger maxUtteranceLength keeps them",
                    options_.longest, too_long_, streams_[primary_]->utterances()));
  budget_.summarize(dropped_ + streams_[primary_]->dropped_names());
  if (utterances_.empty()) throw ConfigError({}, "the HTK data have no usable utterance", "see docs/readers/speech.md");
  add_to_index();
  std::uint64_t bytes = 0;
  for (const auto& s : streams_) bytes += s->bytes();
  if (bytes <= static_cast<std::uint64_t>(options_.keep_bytes))
    for (auto& s : streams_) s->keep();
  return index_;
}

void HtkSource::join(std::size_t u, std::size_t primary) {
  const UtteranceStream& first = *streams_[primary];
  Joined j;
  j.frames = first.frames(u);
  if (!options_.frame_mode && options_.longest > 0 && j.frames > options_.longest) {
    ++too_long_;
    return;
  }
  if (first.find(first.key(u)) != u) {  // another one of the same name, counted when it was read
    ++dropped_;
    return;
  }
  for (const auto& s : streams_) {
    const std::size_t other = s.get() == &first ? u : s->find(first.key(u));
    std::string wrong;
    if (other == UtteranceStream::none && s->dropped(first.key(u))) {  // counted when it was read
      ++dropped_;
      return;
    }
    if (other == UtteranceStream::none) {
      wrong = fmt::format("the utterance '{}' ({}) is missing in stream '{}'", first.key(u), first.place(u),
                          s->info().name);
    } else if (!s->expands() && s->frames(other) != j.frames) {
      wrong =
          fmt::format("the utterance '{}' has {} frames in stream '{}' ({}), but {} in stream '{}' ({})", first.key(u),
                      j.frames, first.info().name, first.place(u), s->frames(other), s->info().name, s->place(other));
    }
    if (!wrong.empty()) {
      ++dropped_;
      budget_.fault(std::move(wrong), "correct the lists, or allow for it with maxErrors");
      return;
    }
    j.parts.push_back(static_cast<std::uint32_t>(other));
  }
  utterances_.push_back(std::move(j));
}

void HtkSource::add_to_index() {
  std::int64_t in_chunk = chunk_frames;
  for (Joined& j : utterances_) {
    if (in_chunk >= chunk_frames) {
      index_.begin_chunk();
      in_chunk = 0;
    }
    in_chunk += j.frames;
    j.first = index_.sequences();
    if (std::uint64_t{j.first} + j.frames >= SequenceIndex::most_sequences)
      throw Error("reading the HTK data: too many frames for one data set");
    if (options_.frame_mode) {
      for (std::uint32_t t = 0; t < j.frames; ++t) index_.add(1);
    } else {
      index_.add(j.frames);
    }
  }
}

std::pair<std::size_t, std::uint32_t> HtkSource::find(std::uint32_t sequence) const {
  if (!options_.frame_mode) return {sequence, 0};
  const auto after = std::upper_bound(utterances_.begin(), utterances_.end(), sequence,
                                      [](std::uint32_t s, const Joined& j) { return s < j.first; });
  const auto u = static_cast<std::size_t>(after - utterances_.begin()) - 1;
  return {u, sequence - utterances_[u].first};
}

std::string HtkSource::key(std::uint32_t sequence) {
  const auto [u, frame] = find(sequence);
  const std::string name(streams_[primary_]->key(utterances_[u].parts[primary_]));
  return options_.frame_mode ? key_of_frame(name, frame) : name;
}

std::string HtkSource::key_behind(std::uint32_t sequence) {
  const auto [u, frame] = find(sequence);
  if (!options_.frame_mode || frame + 1 < utterances_[u].frames) return {};
  return key_of_frame(std::string(streams_[primary_]->key(utterances_[u].parts[primary_])), frame + 1);
}

std::string HtkSource::place(std::uint32_t sequence) {
  const auto [u, frame] = find(sequence);
  const std::string at = streams_[primary_]->place(utterances_[u].parts[primary_]);
  return options_.frame_mode ? fmt::format("{} frame {}", at, frame) : at;
}

// All streams or none.
bool HtkSource::append(std::size_t u, std::uint32_t first, std::uint32_t count, Share& share) {
  if (damaged_.contains(u)) return false;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const std::size_t before = share[s].columns;
    try {
      streams_[s]->append(utterances_[u].parts[s], first, count, share[s]);
    } catch (const Error& e) {
      share[s].shrink_columns(before);
      while (s-- > 0) share[s].shrink_columns(share[s].columns - count);
      damaged_.insert(u);
      budget_.fault_here({{}, e.what(), "correct the file, or remove the utterance"});
      return false;
    }
  }
  return true;
}

void HtkSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t sequence : sequences) {
    const auto [u, frame] = find(sequence);
    const std::uint32_t frames = options_.frame_mode ? 1 : utterances_[u].frames;
    if (append(u, frame, frames, share)) {
      share.end_sequence(frames);
    } else {
      share.left_out().push_back(sequence);
    }
  }
}

}  // namespace tutti::reader
