// SPDX-License-Identifier: Apache-2.0
// The state of each rank when the number of ranks has changed since a checkpoint was written.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "train/rank_state.h"
#include "tutti/error.h"

namespace tutti {

std::string rank_prefix(int rank) { return fmt::format("rank {}/", rank); }

namespace {

// A name may follow the prefixes of enclosing methods.
std::size_t find_kind(std::string_view name, std::string_view kind) {
  for (std::size_t at = name.find(kind); at != name.npos; at = name.find(kind, at + 1))
    if (at == 0 || name[at - 1] == '/') return at;
  return name.npos;
}

std::vector<std::byte> read_whole(const ContainerReader& reader, const Entry& e) {
  std::vector<std::byte> bytes(e.bytes);
  reader.read(e, 0, bytes);
  return bytes;
}

class Reshard {
 public:
  Reshard(const ContainerReader& reader, int old_ranks, int ranks, int rank, const GiveEntry& give)
      : reader_(reader), old_ranks_(old_ranks), ranks_(ranks), rank_(rank), give_(give) {}

  void run() {
    const std::string from = rank_prefix(rank_ % old_ranks_);
    for (const auto& [path, entry] : reader_.entries())
      if (path.starts_with(from)) spread(path.substr(from.size()), entry);
  }

 private:
  void spread(const std::string& name, const Entry& entry) {
    if (ranks_ == old_ranks_) return give_(name, entry.type, read_whole(reader_, entry));
    if (find_kind(name, "same/") != name.npos) return;
    const bool is_new = rank_ >= old_ranks_;
    if (find_kind(name, "owned/") != name.npos) return give_sum(name, name, 0, 1);
    const std::size_t summed = find_kind(name, "owed/");
    const bool alone = find_kind(name, "own/") != name.npos || find_kind(name, "gone/") != name.npos;
    if (is_new && (summed != name.npos || alone)) return;
    give_(name, entry.type, read_whole(reader_, entry));
    if (summed == name.npos || rank_ + ranks_ >= old_ranks_) return;
    give_sum(name, name.substr(0, summed) + inherited_name(name.substr(summed + std::string_view("owed/").size())),
             rank_ + ranks_, ranks_);
  }

  // The ranks first, first + step, ...
  void give_sum(const std::string& name, const std::string& as, int first, int step) {
    std::optional<std::vector<float>> sum;
    for (int r = first; r < old_ranks_; r += step) {
      const auto found = reader_.entries().find(rank_prefix(r) + name);
      if (found == reader_.entries().end()) continue;
      std::vector<float> part(found->second.bytes / sizeof(float));
      reader_.read(found->second, 0, std::as_writable_bytes(std::span(part)));
      if (!sum) sum.emplace(part.size());
      if (sum->size() != part.size())
        throw Error(fmt::format("the checkpoint's ranks disagree about the size of '{}'", name));
      for (std::size_t i = 0; i < part.size(); ++i) (*sum)[i] += part[i];
    }
    if (sum) give_(as, EntryType::floats, std::as_bytes(std::span(*sum)));
  }

  const ContainerReader& reader_;
  const int old_ranks_, ranks_, rank_;
  const GiveEntry& give_;
};

}  // namespace

void reshard(const ContainerReader& reader, int old_ranks, int ranks, int rank, const GiveEntry& give) {
  Reshard(reader, old_ranks, ranks, rank, give).run();
}

std::set<std::string> gone_with_ranks(const ContainerReader& reader, int old_ranks, int ranks) {
  constexpr std::string_view kind = "gone/";
  std::set<std::string> what;
  for (int r = ranks; r < old_ranks; ++r) {
    const std::string prefix = rank_prefix(r);
    for (const auto& [path, entry] : reader.entries()) {
      if (!path.starts_with(prefix) || entry.type != EntryType::boolean) continue;
      const std::string name = path.substr(prefix.size());
      const std::size_t at = find_kind(name, kind);
      if (at != name.npos && read_whole(reader, entry)[0] != std::byte{0}) what.insert(name.substr(at + kind.size()));
    }
  }
  return what;
}

bool holds_exchange_values(const ContainerReader& reader) {
  return std::ranges::any_of(reader.entries(), [&](const auto& entry) {
    const auto& [path, e] = entry;
    if (!path.starts_with("rank ") && !path.starts_with("exchange/")) return false;
    if (e.type == EntryType::number) return !path.ends_with("lossScale.value");
    if (e.type != EntryType::floats) return false;
    return std::ranges::any_of(read_whole(reader, e), [](std::byte b) { return b != std::byte{0}; });
  });
}

}  // namespace tutti
