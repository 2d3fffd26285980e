// SPDX-License-Identifier: Apache-2.0
#include "actions/training_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/memory.h"
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

}  // namespace

std::string settings_text(const Training& t) {
  std::string text = fmt::format(
      "  model      {}\n  network    {}\n  optimizer  {}\n  schedule   {}\n  exchange   {}\n  threads    {}",
      t.model_path, t.network->describe(), t.optimizer->describe(), schedule_text(t), exchange_text(t), t.threads);
  if (!t.choice.method.empty()) text += fmt::format("\n  auto       {}, {}", t.choice.method, t.choice.reason);
  if (t.average) text += fmt::format("\n  average    of the weights, decay {:g}", t.sgd.weight_average);
  if (memory_is_only_planned())
    text += fmt::format("\n  checkpoint {} more of memory, on rank 0, for the copy that is written in the background",
                        bytes_text(static_cast<double>(checkpoint_memory(t))));
  if (!t.placement.empty()) text += "\n" + t.placement;
  return text;
}

void make_metrics(const ActionContext& context, Training& t) {
  if (t.world->rank() == 0 && !t.sgd.timeline.empty())
    if (const std::string why = why_unwritable(t.sgd.timeline, false); !why.empty())
      context.problem(context.command.block("SGD").value("timeline").where, fmt::format("timeline: {}", why),
                      "name a file that can be written");
  const MetricsOptions& o = t.sgd.metrics;
  if (!o.any() || t.world->rank() != 0) return;
  for (const auto& [key, path, folder] :
       {std::tuple("jsonl", &o.jsonl, false), std::tuple("tensorBoard", &o.tensor_board, true)})
    if (const std::string why = path->empty() ? "" : why_unwritable(*path, folder); !why.empty())
      context.problem(context.command.block("SGD").block("metrics").value(key).where, fmt::format("metrics: {}", why),
                      folder ? "name a folder that can be written" : "name a file that can be written");
  t.metrics = std::make_unique<Metrics>(o, std::filesystem::path(t.model_path).filename().string());
}

}  // namespace tutti::actions
