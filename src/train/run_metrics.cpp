// SPDX-License-Identifier: Apache-2.0
// The records of a run: its start and end, and what each rank spent in an epoch.
#include "train/run_metrics.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "comm/agreement.h"
#include "train/metrics/metrics.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

std::int64_t position_of(const Training& t) {
  return t.progress.position(t.progress.samples_in_epoch, t.samples_per_epoch);
}

// For records of the step that runs: the position after it, as in its interval record. So a run that resumes from the
// checkpoint before the step removes them.
std::int64_t position_after_step(const Training& t) {
  return t.progress.position(std::max(t.progress.samples_in_epoch, t.step_end), t.samples_per_epoch);
}

}  // namespace

void begin_metrics(Training& t, bool fresh) {
  end_metrics();
  if (!t.sgd.metrics.any()) return;
  std::string hosts;
  for (const auto& host : hosts_of(*t.world)) hosts += (hosts.empty() ? "" : ",") + host;
  // A separate communicator: an exchange may be under way on the other one.
  const bool in_step = t.sgd.parallel.keeps_step() && !t.sgd.parallel.traits().at_servers;
  if (t.world->size() > 1 && in_step) t.metrics_ranks = t.world->split(0);
  if (!t.metrics) return;
  log::set_observer([&t](const char* event, log::Values values) {
    MetricsRecord r{event, position_after_step(t)};
    r.place = {{"epoch", t.progress.epoch + 1}, {"minibatch", t.progress.minibatches_in_epoch + 1}};
    for (const auto& [name, value] : values) r.measures.emplace_back(name, value);
    t.metrics->write(r);
  });
  if (fresh) t.metrics->resume_at(-1);
  MetricsRecord r{"start", position_of(t)};
  r.place = {{"ranks", t.world->size()},
             {"epoch", t.progress.epoch + 1},
             {"epochs", t.sgd.max_epochs},
             {"samples_in_epoch", t.progress.samples_in_epoch},
             {"samples_per_epoch", t.samples_per_epoch}};
  r.texts = {{"command", t.command},   {"model", std::filesystem::absolute(t.model_path).lexically_normal().string()},
             {"hosts", hosts},         {"method", t.parallel->method.traits.text},
             {"settings", t.settings}, {"options", t.given_options}};
  if (!t.choice.method.empty()) r.texts.emplace_back("auto", t.choice.method + ", " + t.choice.reason);
  if (t.choice.samples_per_second > 0) r.measures = {{"predicted_samples_per_second", t.choice.samples_per_second}};
  t.metrics->write(r);
}

void end_metrics() { log::set_observer({}); }

void rewind_metrics(Training& t) {
  if (t.metrics) t.metrics->resume_at(position_of(t));
}

void record_event(Training& t, const char* event, double seconds) {
  if (!t.metrics) return;
  MetricsRecord r{event, position_of(t)};
  r.place = {{"epoch", t.progress.epoch}};
  r.measures = {{"seconds", seconds}};
  t.metrics->write(r);
}

ValuesByRank times_by_rank(Communicator& world, const EpochTimes& t) {
  constexpr std::array names{"total_seconds",  "compute_seconds", "read_seconds",        "update_seconds",
                             "encode_seconds", "wait_seconds",    "decode_seconds",      "bytes_sent",
                             "values_sent",    "exchanges",       "bytes_between_groups"};
  const ExchangeStats& x = t.exchange;
  const std::array<double, names.size()> mine{t.total,
                                              t.network,
                                              t.read,
                                              t.update,
                                              x.encode,
                                              x.wait,
                                              x.decode,
                                              static_cast<double>(x.bytes_sent),
                                              static_cast<double>(x.values_sent),
                                              static_cast<double>(x.exchanges),
                                              static_cast<double>(x.bytes_between)};
  const auto all = from_all(world, mine);
  ValuesByRank values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    values.emplace_back(names[i], std::vector<double>());
    for (const auto& rank : all) values.back().second.push_back(rank[i]);
  }
  if (!t.units.empty()) values.emplace_back("work_units", std::vector<double>(t.units.begin(), t.units.end()));
  return values;
}

}  // namespace tutti
