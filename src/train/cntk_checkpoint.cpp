// SPDX-License-Identifier: Apache-2.0
#include "train/cntk_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// CNTK keeps one matrix for each trained parameter. Its width tells the rule: once that of the parameter for SGD (the
// momentum) and adagrad (the squares), twice for fsAdagrad (squares, momentum), three or four times for rmsProp
// (squares, signs, steps, and scratch memory on GPUs). Before its first update a rule has a matrix of zeros, once as
// wide.
class OptimizerState final : public ByteArchive {
 public:
  OptimizerState(const ResumePoint& point, const cntk::Checkpoint& c, const graph::Graph& graph)
      : path_(point.checkpoint), checkpoint_(c) {
    const auto trained = cntk::trained_parameters(graph);
    if (trained.size() != c.gradients.size())
      throw Error(fmt::format("'{}' has the state of {} parameters, '{}' has {} to train", path_, c.gradients.size(),
                              point.model, trained.size()));
    for (std::size_t i = 0; i < trained.size(); ++i) place_[trained[i]] = i;
    turned_ = cntk::filters_with_maps_first(graph);
  }

  bool loading() const override { return true; }
  bool has(std::string_view name) const override { return !name.starts_with("average/"); }
  std::size_t text_size(std::string_view, const std::string& now) override { return now.size(); }
  void entry(std::string_view name, EntryType type, std::span<std::byte> to) override {
    if (name == "rule") {
      rule_.assign(reinterpret_cast<const char*>(to.data()), to.size());  // the run's; read_state() tests it
    } else if (type == EntryType::floats) {
      const std::size_t slash = name.find('/');
      read_state(name.substr(0, slash), std::string(name.substr(slash + 1)),
                 {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
    } else if (name == "has momentum") {
      to[0] = std::byte{1};
    } else if (name == "smoothed count") {
      const double count = checkpoint_.counts.empty() ? 0 : std::ranges::max(checkpoint_.counts);
      std::memcpy(to.data(), &count, sizeof(count));
    } else if (name != "updates") {  // a count that only noise depends on
      refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(fmt::format("the state of the optimizer in '{}' is not that of gradUpdateType = {}", path_, rule_));
  }

  void read_state(std::string_view state, const std::string& parameter, std::span<float> to) {
    const auto found = place_.find(parameter);
    if (found == place_.end()) throw Error(fmt::format("'{}' has no state for '{}'", path_, parameter));
    const std::vector<float>& all = *checkpoint_.gradients[found->second].values;
    if (to.empty() || all.size() % to.size() != 0)
      throw Error(fmt::format("'{}' has {} values for '{}' instead of a multiple of {}", path_, all.size(), parameter,
                              to.size()));
    const std::size_t width = all.size() / to.size();
    std::ranges::fill(to, 0.0f);
    const auto part = [&](std::size_t k) { copy_part(all, k, parameter, to); };
    if (rule_ == "none" || rule_ == "adagrad") {
      width == 1 ? part(0) : refuse();
    } else if (rule_ == "fsAdagrad" && width <= 2) {
      if (width == 2) part(state == "squares" ? 0 : 1);
    } else if (rule_ == "rmsProp" && (width == 1 || width == 3 || width == 4)) {
      if (width == 1) return;
      part(state == "squares" ? 0 : state == "signs" ? 1 : 2);
      // The last three signs as digits of base 3: negative, zero, positive.
      if (state == "signs")
        for (float& v : to) v = std::fmod(v, 3.0f) - 1;
    } else {
      refuse();
    }
  }

  void copy_part(const std::vector<float>& all, std::size_t k, const std::string& parameter, std::span<float> to) {
    const auto part = std::span(all).subspan(k * to.size(), to.size());
    const auto turned = turned_.find(parameter);
    if (turned == turned_.end()) return (void)std::ranges::copy(part, to.begin());
    std::ranges::copy(cntk::with_maps_last({part.begin(), part.end()}, turned->second), to.begin());
  }

  const std::string path_;
  const cntk::Checkpoint& checkpoint_;
  std::map<std::string, std::size_t> place_;
  std::map<std::string, cntk::MapsFirst> turned_;
  std::string rule_;
};

}  // namespace

bool has_cntk_state(const ResumePoint& point, Communicator& comm) {
  std::uint8_t found = 0;
  on_rank_0(comm, [&] { found = !point.checkpoint.empty() && cntk::is_checkpoint(point.checkpoint); });
  comm.broadcast(0, writable_bytes(found));
  return found != 0;
}

CheckpointState load_cntk_state(const ResumePoint& point, const Visit& optimizer, Communicator& comm) {
  cntk::Checkpoint stored;
  std::unique_ptr<OptimizerState> source;
  on_rank_0(comm, [&] {
    stored = cntk::read_checkpoint(point.checkpoint);
    source = std::make_unique<OptimizerState>(point, stored, load_graph(point.model));
    log::line(fmt::format("Checkpoint of CNTK '{}': {} samples seen; the state of the optimizer is taken over.",
                          point.checkpoint, stored.total_samples));
    if (stored.block_momentum)
      log::warning(
          fmt::format("'{}': the state of block momentum is not taken over; it begins at 0", point.checkpoint));
  });
  std::array numbers{stored.learning_rate, stored.previous_criterion};
  std::array counts{stored.total_samples, stored.minibatch_size};
  comm.broadcast(0, std::as_writable_bytes(std::span(numbers)));
  comm.broadcast(0, std::as_writable_bytes(std::span(counts)));
  CheckpointState state;
  state.epoch = point.epoch;
  state.learning_rate = numbers[0];
  state.adjust.previous_criterion = numbers[1];
  state.adjust.learning_rate = numbers[0];
  state.adjust.rates = {numbers[0]};
  state.total_samples_seen = counts[0];
  state.minibatch_size = state.adjust.minibatch_size = counts[1];
  broadcast_state(comm, source.get(), optimizer);
  return state;
}

}  // namespace tutti
