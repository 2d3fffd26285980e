// SPDX-License-Identifier: Apache-2.0
#include "actions/training_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "actions/method_trials.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "parallel/advice.h"
#include "train/checkpointing.h"

namespace tutti::actions {
namespace {

std::string exchange_text(const Training& t) {
  const std::string& text = t.parallel->method.traits.text;
  if (t.warm_start.parallel_throughout(0) || t.warm_start.epoch == WarmStart::never) return text;
  std::string place = fmt::format("epoch {}", t.warm_start.epoch + 1);
  if (t.warm_start.sample > 0) place = fmt::format("sample {} of {}", t.warm_start.sample, place);
  return fmt::format("{} before {}, then {}", t.warm_up->method.traits.text, place, text);
}

// "0.01 per sample", or what the first and the last epoch have. "" if all rates are searched for.
std::string rate_text(const SgdOptions& sgd) {
  if (sgd.listed_learning_rates() == 0) return "learning rate searched for";
  const std::string factor = sgd.learning_rate_schedule ? ", with " + sgd.learning_rate_schedule->text() : "";
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(sgd.max_epochs - 1, 0));
  const double from = sgd.learning_rate_per_sample(0), to = sgd.learning_rate_per_sample(last);
  return (from == to ? fmt::format("learning rate {:g} per sample", from)
                     : fmt::format("learning rate {:g} per sample in epoch 1, {:g} in epoch {}", from, to, last + 1)) +
         factor;
}

// "learning rate 0.01 per sample; 4 epochs of 10000 samples, 100 steps of 100 samples each, 400 steps in all". Steps
// are counted with the minibatch size of each epoch, samples of sequences as the reader counts them.
std::string schedule_text(const Training& t) {
  const std::int64_t samples = t.sgd.epoch_size > 0 ? t.sgd.epoch_size : t.reader->sweep_samples();
  const auto steps = [&](std::int64_t epoch) {
    const std::int64_t size = t.sgd.update_size(t.sgd.minibatch_size.at(static_cast<std::size_t>(epoch)));
    return (samples + size - 1) / size;
  };
  const auto listed = static_cast<std::int64_t>(t.sgd.minibatch_size.size());  // later epochs are like the last one
  std::int64_t all = 0;
  for (std::int64_t e = 0; e < std::min(listed, t.sgd.max_epochs); ++e) all += steps(e);
  if (t.sgd.max_epochs > listed) all += (t.sgd.max_epochs - listed) * steps(listed);
  return fmt::format("{}; {} epochs of {} samples, {} steps of {} samples each at first, {} steps in all",
                     rate_text(t.sgd), t.sgd.max_epochs, samples, steps(0),
                     t.sgd.update_size(t.sgd.minibatch_size.at(0)), all);
}

// Collective.
void note_unchecked_messages(const ActionContext& context, const Training& t) {
  const auto& parallel = t.sgd.parallel;
  const bool flips = parallel.exchanges() && parallel.fault_hook && parallel.fault_hook->flip_message;
  const ChecksummedMessages checked = t.sgd.faults.message_checksums;
  if (t.world->size() == 1 || (checked == ChecksummedMessages::none && !flips)) return;
  const auto hosts = hosts_of(*t.world);
  const bool one_host = std::ranges::count(hosts, hosts.front()) == t.world->size();
  std::string why;
  if (!parallel.exchanges())
    why = fmt::format("with parallelizationMethod = {}", name_of(parallel.method));
  else if (checked == ChecksummedMessages::between_hosts && one_host)
    why = "on one host";
  if (!why.empty() && checked != ChecksummedMessages::none)
    context.notice(fmt::format("messageChecksums has no effect {}", why));
  if (flips && (!why.empty() || checked == ChecksummedMessages::none))
    context.notice("faultHook: flipMessage has no effect: no message carries a checksum. fix: messageChecksums = all");
}

// `auto` may take the methods of some blocks, so these are no mistake whatever it has chosen.
std::vector<std::string> unused_by_auto(const ActionContext& context, ParallelTrainOptions options) {
  for (const Candidate& c : candidates_of_auto(context.command.block("SGD"), context.world->size(), options.auto_allow))
    std::erase_if(options.unused_blocks,
                  [method = std::string_view(c.method)](const auto& block) { return method.starts_with(block); });
  options.automatic = true;
  return unused_settings(options);
}

void note_uncompared_weights(const ActionContext& context, const Training& t) {
  const auto& parallel = t.sgd.parallel;
  const bool alike_in_groups = parallel.groups.any() && parallel.inside().sums_gradients();
  if (t.sgd.faults.verify_replicas == 0 || alike_in_groups) return;
  const char* const method = name_of(parallel.method);
  if (!parallel.exchanges() || parallel.traits().at_servers || !parallel.keeps_step())
    context.notice(fmt::format(
        "verifyReplicas has no effect with {}: there are no equal copies of the weights to compare", method));
  else if (!parallel.sums_gradients())
    context.notice(fmt::format(
        "verifyReplicas compares the weights of the last exchange with {}: corruption on one rank that the next "
        "exchange spreads is not found",
        method));
}

// Those of ParallelTrain, and others that need it.
void note_unused_parallel(const ActionContext& context, const Training& t) {
  const auto& parallel = t.sgd.parallel;
  const char* const method = name_of(parallel.method);
  for (std::string& line : t.choice.method.empty() ? unused_settings(parallel) : unused_by_auto(context, parallel))
    context.notice(std::move(line));
  if (!parallel.auto_allow.empty() && !parallel.automatic && t.choice.method.empty())
    context.notice("autoAllow has no effect without parallelizationMethod = auto");
  note_uncompared_weights(context, t);
  if (parallel.exchanges() && parallel.start_epoch > t.sgd.max_epochs)
    context.notice(fmt::format("parallelizationStartEpoch = {} comes after the last epoch, {}: {} never begins",
                               parallel.start_epoch, t.sgd.max_epochs, method));
  note_unchecked_messages(context, t);
}

}  // namespace

void note_unused_settings(const ActionContext& context, const Training& t) {
  if (context.parallel) note_unused_parallel(context, t);
  const config::Record block = context.command.block("SGD");
  const auto of_nodes = [&](const char* operation, const char* key, bool is_set) {
    if (is_set && block.has_own(key) &&
        std::ranges::count(t.network->graph().nodes, operation, &graph::Node::operation) == 0)
      context.notice(fmt::format("'{}' in SGD has no effect: the network has no {} node", key, operation));
  };
  const auto any = [](const config::Schedule<double>& s) {
    return std::ranges::any_of(s.values, [](double v) { return v != 0; });
  };
  constexpr const char* norm = "BatchNormalization";
  of_nodes("Dropout", "dropoutRate", any(t.sgd.dropout_rate));
  of_nodes(norm, "batchNormalizationTimeConstant", any(t.sgd.normalization_time_constant));
  of_nodes(norm, "batchNormalizationBlendTimeConstant", any(t.sgd.normalization_blend_time_constant));
  of_nodes(norm, "disableRegInBatchNormalization", t.sgd.no_regularization_in_normalization);
}

std::string settings_text(const Training& t) {
  std::string text = fmt::format(
      "  model      {}\n  network    {}\n  optimizer  {}\n  schedule   {}\n  exchange   {}\n  threads    {}",
      t.model_path, t.network->describe(), t.optimizer->describe(), schedule_text(t), exchange_text(t), t.threads);
  if (!t.choice.method.empty()) text += fmt::format("\n  auto       {}, {}", t.choice.method, t.choice.reason);
  if (!t.kernels.summary.empty()) text += "\n  products   " + t.kernels.summary;
  if (t.average) text += fmt::format("\n  average    of the weights, decay {:g}", t.sgd.weight_average);
  if (const std::uint64_t copy = memory_is_only_planned() ? checkpoint_memory(t) : 0; copy > 0)
    text += fmt::format("\n  checkpoint {} more of memory, on rank 0, for the copy that is written in the background",
                        bytes_text(static_cast<double>(copy)));
  if (!t.placement.empty()) text += "\n" + t.placement;
  return text;
}

void make_metrics(const ActionContext& context, Training& t) {
  if (t.world->rank() != 0) return;
  const MetricsOptions& o = t.sgd.metrics;
  const auto check_path = [&](const config::Record& block, const char* key, const std::string& path, bool folder) {
    if (path.empty()) return;
    if (const std::string why = why_unwritable(path, folder); !why.empty())
      context.problem(block.value(key).where, fmt::format("{}: {}", key, why),
                      folder ? "name a folder that can be written" : "name a file that can be written");
    // Event files are named by the model.
    else if (!folder && context.metrics_files &&
             context.metrics_files->try_emplace(same_file(path), t.command).first->second != t.command)
      context.problem(block.value(key).where,
                      fmt::format("{}: another command of this run also writes '{}'", key, path),
                      "name another file in one of them");
  };
  if (context.command.is_block("SGD")) {
    const config::Record sgd = context.command.block("SGD");
    check_path(sgd, "timeline", t.sgd.timeline, false);
    if (o.any()) check_path(sgd.block("metrics"), "jsonl", o.jsonl, false);
    if (o.any()) check_path(sgd.block("metrics"), "tensorBoard", o.tensor_board, true);
  }
  if (o.any()) t.metrics = std::make_unique<Metrics>(o, t.model_path);
}

}  // namespace tutti::actions
