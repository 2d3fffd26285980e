// SPDX-License-Identifier: Apache-2.0
// A rank of `trainer simulate`: all ranks measure, rank 0 computes and prints.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "actions/together.h"
#include "base/exit_codes.h"
#include "comm/session.h"
#include "simulator/measure.h"
#include "simulator/request.h"
#include "simulator/simulator.h"
#include "train/metrics/metrics.h"
#include "tutti/log.h"

namespace tutti::simulator {
namespace {

struct Row {
  const Model* model;
  Estimate estimate;
  double samples_per_second = 0;
};

Cluster cluster_of(const Request& r, const Link& link, int ranks) {
  return {ranks, link.bandwidth / 8 * kPayload, r.latency, static_cast<double>(r.shared_cores)};
}

// An epoch has one minibatch at least.
Workload workload_at(const Measured& m, const Request& r, int ranks) {
  Workload w = m.workload;
  if (r.per_rank > 0) w.minibatch = static_cast<double>(r.per_rank) * ranks;
  w.epoch = std::max(w.epoch, w.minibatch);
  return w;
}

double speed_of_one(const Measured& m) {
  const StepCost& step = m.parts.steps.back();
  return static_cast<double>(step.samples) / (step.seconds + m.weights * m.parts.update);
}

// What --per-rank asks for beyond the data at hand.
void print_larger(const Measured& m, const Request& r) {
  if (r.per_rank == 0) return;
  const std::int64_t measured = m.parts.steps.back().samples;
  if (r.per_rank > measured)
    std::printf("no step of %lld samples can be measured: it is taken as %.1f steps of %lld\n",
                static_cast<long long>(r.per_rank), static_cast<double>(r.per_rank) / static_cast<double>(measured),
                static_cast<long long>(measured));
  const double fitting = std::floor(m.workload.epoch / static_cast<double>(r.per_rank));
  if (*std::ranges::max_element(r.ranks) > fitting)
    std::printf(
        "%s are larger than an epoch, which is then taken as one minibatch\n",
        fitting < 1 ? "all minibatches" : fmt::format("minibatches of more than {:.0f} ranks", fitting).c_str());
}

void print_head(const Measured& m, const Request& r) {
  const StepCost &least = m.parts.steps.front(), &most = m.parts.steps.back();
  const CodecCost &full = m.parts.codecs.at("32"), &one = m.parts.codecs.at("1");
  std::printf("%.0f weights, minibatches of %s, epochs of %.0f samples\n", m.weights,
              r.per_rank > 0 ? fmt::format("{} samples per rank", r.per_rank).c_str()
                             : fmt::format("{:.0f} samples", m.workload.minibatch).c_str(),
              m.workload.epoch);
  std::printf(
      "measured: steps of %lld to %lld samples %.3f to %.3f ms, update %.3f ms; ns per value: copy %.2f, 1 bit "
      "%.2f to encode and %.2f to add; a message takes a core %.1f us and %.2f ns per byte, and %.0f us more to "
      "arrive\n",
      static_cast<long long>(least.samples), static_cast<long long>(most.samples), least.seconds * 1e3,
      most.seconds * 1e3, m.weights * m.parts.update * 1e3, full.encode * 1e9, one.encode * 1e9, one.add * 1e9,
      m.parts.message.per_message * 1e6, m.parts.message.per_byte * 1e9, m.parts.message.latency * 1e6);
  print_larger(m, r);
  std::printf("one rank alone: %.0f samples/s\n", speed_of_one(m));
}

void print_record(const Row& row, const Link& link, const Request& r, int ranks, double single) {
  MetricsRecord record{"simulate"};
  record.place = {{"ranks", ranks}};
  record.texts = {
      {"method", row.model->method}, {"bits", row.model->bits}, {"link", link.name}, {"settings", row.model->settings}};
  record.measures = {{"samples_per_second", row.samples_per_second},
                     {"speed_up", row.samples_per_second / single},
                     {"bytes_per_step", row.estimate.bytes},
                     {"latency", r.latency}};
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::printf("%s\n", to_json(record, now).c_str());
}

void print_tables(const Measured& m, const Request& r) {
  const std::vector<Model> all = models(m.workload);
  const double single = speed_of_one(m);
  for (const Link& link : r.links) {
    std::string text =
        fmt::format("\nlink {}: samples/s by number of ranks\n{:<30} {:>5}", link.name, "method", "bits");
    for (const int ranks : r.ranks) text += fmt::format(" {:>10}", ranks);
    std::vector<std::pair<Row, int>> rows;
    for (const Model& model : all) {
      text += fmt::format("\n{:<30} {:>5}", model.method, model.bits);
      for (const int ranks : r.ranks) {
        if (ranks < model.least_ranks) {
          text += fmt::format(" {:>10}", "-");
          continue;
        }
        const Workload w = workload_at(m, r, ranks);
        Row row{&model, model.estimate(m.parts, cluster_of(r, link, ranks), w)};
        row.samples_per_second = std::max(1.0, std::floor(w.epoch / w.minibatch)) * w.minibatch / row.estimate.seconds;
        text += fmt::format(" {:>10.0f}", row.samples_per_second);
        rows.emplace_back(row, ranks);
      }
    }
    std::printf("%s\n", text.c_str());
    for (const auto& [row, ranks] : rows) print_record(row, link, r, ranks, single);
  }
}

}  // namespace

int run_rank(int argc, char** argv) {
  MpiSession mpi(&argc, &argv);
  try {
    log::open({"", false, mpi.world().rank(), true, false});
    const Request r = parse_request({argv + 2, argv + argc});
    const Measured m = measure(r.others, r.ranks, r.per_rank, r.shared_cores, mpi.world());
    if (mpi.world().rank() == 0) {
      print_head(m, r);
      print_tables(m, r);
      wake(mpi.world(), 1);
    } else {
      sleep_until_woken(mpi.world());  // MPI ends a rank that waits long in MPI_Finalize, and rank 0 with it
    }
    mpi.end(0);
    return 0;
  } catch (const ConfigError& e) {
    if (mpi.world().rank() == 0) std::fprintf(stderr, "%s\n", e.what());
    mpi.end(kWrongConfiguration);
    return kWrongConfiguration;
  } catch (const std::exception& e) {
    mpi.fail(e.what());
  }
}

}  // namespace tutti::simulator
