// SPDX-License-Identifier: Apache-2.0
// The join is built once. Reading requests the sequences from each part and combines the streams.
#include "reader/composite/composite_source.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <tuple>

namespace tutti::reader {
namespace {

constexpr std::uint32_t none = SequenceIndex::most_sequences;

std::string name_of(std::size_t part, const SequenceSource& source) {
  return fmt::format("deserializer {} (stream '{}')", part + 1, source.streams().front().name);
}

std::uint64_t hash_of(const std::string& key) { return XXH3_64bits(key.data(), key.size()); }

// Whether its sequences are single frames: then the last one ends an utterance, and has a key_behind().
bool has_frames(SequenceSource& source) { return !source.key_behind(source.index().sequences() - 1).empty(); }

// Also 7#1, a frame of 7.
bool is_number(std::string_view key) {
  const auto digits = [](std::string_view s) {
    return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::size_t frame = key.find('#');
  return digits(key.substr(0, frame)) && (frame == key.npos || digits(key.substr(frame + 1)));
}

}  // namespace

// Keys stay in their files: a hash finds the sequence, and its key is then compared.
std::string KeyTable::canonical(std::string key, bool numeric) {
  if (!numeric) return key;
  const std::size_t first = key.find_first_not_of('0');
  return first == std::string::npos ? key.substr(0, 1) : key.substr(first);
}

KeyTable::KeyTable(SequenceSource& source, bool numeric) : source_(source), numeric_(numeric) {
  const std::uint32_t n = source.index().sequences();
  places_.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string key = source.key(i);
    if (numeric && !is_number(key))
      throw Error(
          fmt::format("{}: the key '{}' is no number, but useNumericSequenceKeys = true", source.place(i), key));
    places_.push_back({hash_of(canonical(key, numeric)), i});
  }
  const auto order = [](const Place& a, const Place& b) {
    return std::tie(a.hash, a.sequence) < std::tie(b.hash, b.sequence);
  };
  if (!std::is_sorted(places_.begin(), places_.end(), order)) std::sort(places_.begin(), places_.end(), order);
  for (std::size_t i = 1; i < places_.size(); ++i)
    if (places_[i].hash == places_[i - 1].hash)
      if (const auto first = find(canonical(source.key(places_[i].sequence), numeric));
          first && *first != places_[i].sequence)
        twice_.push_back({*first, places_[i].sequence});
}

std::optional<std::uint32_t> KeyTable::find(const std::string& key) {
  const std::uint64_t hash = hash_of(key);
  auto at = std::lower_bound(places_.begin(), places_.end(), hash,
                             [](const Place& p, std::uint64_t h) { return p.hash < h; });
  for (; at != places_.end() && at->hash == hash; ++at)
    if (canonical(source_.key(at->sequence), numeric_) == key) return at->sequence;
  return std::nullopt;
}

CompositeSource::CompositeSource(std::vector<std::unique_ptr<SequenceSource>> sources, bool numeric_keys,
                                 std::int64_t max_errors)
    : numeric_keys_(numeric_keys), budget_("the files of the CompositeDataReader", max_errors, 1) {
  for (auto& s : sources) {
    infos_.insert(infos_.end(), s->streams().begin(), s->streams().end());
    Share share(s->streams());
    parts_.push_back({std::move(s), {}, std::move(share), {}});
  }
}

const SequenceIndex& CompositeSource::index() {
  if (index_) return *index_;
  for (auto& part : parts_) part.source->index();
  std::vector<std::vector<std::uint32_t>> matches(parts_.size());
  for (std::size_t p = 1; p < parts_.size(); ++p)
    if (!keys_agree(p)) matches[p] = match(p);
  join(std::move(matches));
  add_up();
  return *index_;
}

// Files made by one program list the same sequences in the same order as a rule.
bool CompositeSource::keys_agree(std::size_t p) const {
  SequenceSource &first = *parts_[0].source, &other = *parts_[p].source;
  const std::uint32_t n = first.index().sequences();
  if (other.index().sequences() != n) return false;
  const auto key = [&](SequenceSource& source, std::uint32_t i) {
    return KeyTable::canonical(source.key(i), numeric_keys_);
  };
  std::string last;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string mine = key(first, i);
    if (mine != key(other, i) || (i > 0 && mine == last)) return false;
    last = mine;
  }
  return !KeyTable(other, numeric_keys_).twice().size();
}

// For each sequence of the first part the one of part p with the same key.
std::vector<std::uint32_t> CompositeSource::match(std::size_t p) {
  SequenceSource &first = *parts_[0].source, &other = *parts_[p].source;
  KeyTable table(other, numeric_keys_);
  for (const auto& t : table.twice()) {
    const std::string first_place = other.place(t.first), place = other.place(t.second), key = other.key(t.second);
    if (place == first_place)
      budget_.fault(fmt::format("{}: the image '{}' has several views (cropType = multiview10)", place, key),
                    "only the first deserializer can have several views: make it the first; one view is used");
    else
      budget_.fault(fmt::format("{}: the key '{}' stands at {} already", place, key, first_place),
                    "keys must be unique in all but the first deserializer; the first sequence is used");
  }
  std::vector<std::uint32_t> match(first.index().sequences(), none);
  for (std::uint32_t i = 0; i < match.size(); ++i) {
    const std::string key = first.key(i);
    if (const auto found = table.find(KeyTable::canonical(key, numeric_keys_))) {
      match[i] = *found;
      continue;
    }
    budget_.fault(fmt::format("{}: {} has no sequence with the key '{}'", first.place(i), name_of(p, other), key),
                  "every deserializer must have all sequences of the first one; incomplete sequences are skipped");
  }
  drop_shorter(p, table, match);
  return match;
}

// Drops sequences that have more frames in part p than in the first one; a whole sequence counts as one frame.
void CompositeSource::drop_shorter(std::size_t p, KeyTable& table, std::vector<std::uint32_t>& match) {
  SequenceSource &first = *parts_[0].source, &other = *parts_[p].source;
  const bool frames = has_frames(first);
  if (!frames && !has_frames(other)) return;
  for (std::uint32_t i = 0; i < match.size(); ++i) {
    const std::string behind = frames ? first.key_behind(i) : key_of_frame(first.key(i), 1);
    const auto further = behind.empty() ? std::nullopt : table.find(KeyTable::canonical(behind, numeric_keys_));
    if (!further) continue;
    budget_.fault(
        fmt::format("{}: this is the {} frame of its utterance, but {} has a further one, '{}' ({})", first.place(i),
                    frames ? "last" : "only", name_of(p, other), behind, other.place(*further)),
        "an utterance has as many frames in every deserializer; others are skipped");
    match[i] = none;
    for (std::uint32_t j = i; frames && j > 0 && first.key_behind(j - 1).empty(); --j) match[j - 1] = none;
  }
}

void CompositeSource::join(std::vector<std::vector<std::uint32_t>> matches) {
  const std::uint32_t n = parts_[0].source->index().sequences();
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < n; ++i)
    if (std::none_of(matches.begin(), matches.end(), [&](const auto& m) { return !m.empty() && m[i] == none; }))
      kept.push_back(i);
  if (kept.empty())
    throw ConfigError({}, "CompositeDataReader: no sequence of the first deserializer is in all others",
                      fmt::format("the first one's keys are like '{}', those of {} like '{}'", parts_[0].source->key(0),
                                  name_of(1, *parts_[1].source), parts_[1].source->key(0)));
  const bool all = kept.size() == n;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (matches[p].empty() && all) continue;
    auto& of = parts_[p].sequence_of;
    for (const std::uint32_t i : kept) of.push_back(matches[p].empty() ? i : matches[p][i]);
  }
  if (!all) parts_[0].sequence_of = std::move(kept);
}

// The joined index keeps the chunks of the first part; a sequence is as long as its longest stream.
void CompositeSource::add_up() {
  const SequenceIndex& first = parts_[0].source->index();
  const auto& of = parts_[0].sequence_of;
  SequenceIndex index;
  std::uint32_t sequence = 0;
  const std::uint32_t n = of.empty() ? first.sequences() : static_cast<std::uint32_t>(of.size());
  for (const auto& chunk : first.chunks()) {
    const std::uint64_t end = std::uint64_t{chunk.first} + chunk.sequences;
    bool begun = false;
    for (; sequence < n && in_part(0, sequence) < end; ++sequence) {
      if (!begun) index.begin_chunk();
      begun = true;
      std::int64_t samples = 0;
      for (std::size_t p = 0; p < parts_.size(); ++p)
        samples = std::max(samples, parts_[p].source->index().samples_of(in_part(p, sequence)));
      index.add(static_cast<std::uint32_t>(samples));
    }
  }
  index_ = std::move(index);
}

void CompositeSource::begin_epoch() {
  for (auto& part : parts_) part.source->begin_epoch();
}

void CompositeSource::begin_sweep(std::int64_t sweep) {
  for (auto& part : parts_) part.source->begin_sweep(sweep);
}

void CompositeSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  // A part that skips a sequence will skip it again, so the second round contains none of them.
  do {
    kept_.clear();
    for (const std::uint32_t s : sequences)
      if (damaged_.empty() || !damaged_.contains(s)) kept_.push_back(s);
  } while (!read_parts());
  std::size_t stream = 0;
  for (auto& part : parts_) {
    share.append(stream, part.share);
    stream += part.source->streams().size();
  }
  std::int64_t samples = 0;
  for (const std::uint32_t s : kept_) samples += index_->samples_of(s);
  share.count(static_cast<std::int64_t>(kept_.size()), samples);
  if (kept_.size() == sequences.size()) return;
  for (const std::uint32_t s : sequences)
    if (damaged_.contains(s)) share.left_out().push_back(s);
}

bool CompositeSource::read_parts() {
  bool whole = true;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    part.wanted.clear();
    for (const std::uint32_t s : kept_) part.wanted.push_back(in_part(p, s));
    part.share.clear();
    part.source->read(part.wanted, part.share);
    if (part.share.left_out().empty()) continue;
    note_left_out(p);
    whole = false;
  }
  return whole;
}

void CompositeSource::note_left_out(std::size_t p) {
  const auto& left_out = parts_[p].share.left_out();
  const std::unordered_set<std::uint32_t> gone(left_out.begin(), left_out.end());
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (gone.contains(parts_[p].wanted[i])) damaged_.insert(kept_[i]);
}

}  // namespace tutti::reader
