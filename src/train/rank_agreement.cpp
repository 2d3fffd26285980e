// SPDX-License-Identifier: Apache-2.0
#include "train/rank_agreement.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/agreement.h"
#include "train/rank_state.h"
#include "train/training.h"

namespace tutti {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;  // "SGD.ParallelTrain.transport", its value

Settings settings_in(std::string_view text) {
  constexpr std::string_view opens = " = [", is = " = ";
  Settings all;
  std::vector<std::size_t> lengths;  // of `path`, outside of each open block
  std::string path;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    if (line.ends_with(opens)) {
      lengths.push_back(path.size());
      path += std::string(line.substr(0, line.size() - opens.size())) + '.';
    } else if (line == "]" && !lengths.empty()) {
      path.resize(lengths.back()), lengths.pop_back();
    } else if (const std::size_t at = line.find(is); at != line.npos) {
      all.emplace_back(path + std::string(line.substr(0, at)), line.substr(at + is.size()));
    }
  }
  return all;
}

const std::string* find(const Settings& settings, const std::string& key) {
  const auto at = std::ranges::find(settings, key, &Settings::value_type::first);
  return at == settings.end() ? nullptr : &at->second;
}

// "SGD.maxEpochs is 2 on rank 0 and 3 on rank 1".
std::string describe(const std::string& key, const std::string* first, const std::string* other, int rank) {
  const auto on = [](const std::string* value, int r) {
    return value ? fmt::format("{} on rank {}", *value, r) : fmt::format("not set on rank {}", r);
  };
  return fmt::format("{} is {} and {}", key, on(first, 0), on(other, rank));
}

// "" if there is none. Equal on all ranks. Collective.
std::string find_difference(Communicator& comm, const std::string& settings) {
  const auto hashes = from_all(comm, XXH3_64bits(settings.data(), settings.size()));
  const auto other = std::ranges::find_if(hashes, [&](const auto& hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return {};
  const int rank = static_cast<int>(other - hashes.begin());
  const auto text_of = [&](int r) {
    std::string text = settings;
    broadcast_text(comm, text, r);
    return text;
  };
  const Settings first = settings_in(text_of(0)), of_other = settings_in(text_of(rank));
  for (const auto& [key, value] : first)
    if (const std::string* const theirs = find(of_other, key); !theirs || *theirs != value)
      return describe(key, &value, theirs, comm.world_rank(rank));
  for (const auto& [key, value] : of_other)
    if (!find(first, key)) return describe(key, nullptr, &value, comm.world_rank(rank));
  return fmt::format("rank {} lists them in another order", comm.world_rank(rank));
}

void require_same(Communicator& comm, const std::string& text, const char* what, const char* fix) {
  if (const std::string difference = find_difference(comm, text); !difference.empty())
    throw ConfigError({}, fmt::format("the ranks have different {}: {}", what, difference), fix);
}

}  // namespace

void require_same_settings(Communicator& comm, const std::string& settings) {
  require_same(comm, settings, "settings", "start all ranks with the same config and the same command-line arguments");
}

void require_same_sgd(Communicator& comm, SgdOptions sgd) {
  sgd.model_path.clear(), sgd.trace_level = 0;
  for (std::string* const path : {&sgd.timeline, &sgd.metrics.jsonl, &sgd.metrics.tensor_board})
    if (!path->empty()) *path = "given";  // whether there is one decides what is gathered
  require_same_settings(comm, config::dump_fields("SGD", [&](config::Fields& f) { sgd.describe(f); }));
}

void require_same_training(const Training& t) {
  std::string text = fmt::format("the number of samples of reader = {}\n", t.reader->sweep_samples());
  if (t.cv_reader) text += fmt::format("the number of samples of cvReader = {}\n", t.cv_reader->sweep_samples());
  for (const Slice& s : t.network->parameters().slices) {
    text += fmt::format("the shape of '{0}' = {1}\n", s.name, to_string(s.shard ? s.shard->whole : s.shape));
    text += fmt::format("the placement of '{0}' = {1}\n", s.name,
                        !s.shard          ? "replicate"
                        : s.shard->single ? "single"
                                          : fmt::format("shard along axis {}", s.shard->axis));
  }
  require_same(*t.world, text, "networks or data",
               "use the same config and data on every host; with ModelParallel auto, name the placement of each layer");
}

}  // namespace tutti
