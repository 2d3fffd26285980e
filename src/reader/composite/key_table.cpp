// SPDX-License-Identifier: Apache-2.0
// Keys stay in their files: a hash finds the sequence, and its key is then compared.
#include "reader/composite/key_table.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <tuple>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

std::uint64_t hash_of(const std::string& key) { return XXH3_64bits(key.data(), key.size()); }

bool is_number(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

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

}  // namespace tutti::reader
