// SPDX-License-Identifier: Apache-2.0
#include "simulator/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "actions/method_trials.h"
#include "base/clock.h"
#include "comm/agreement.h"
#include "parallel/groups/options.h"
#include "parallel/local_sgd/weight_kernels.h"
#include "train/training.h"

namespace tutti::simulator {
namespace {

using namespace std::chrono_literals;

constexpr double kSecondsPerShare = 1.0, kSecondsPerLoop = 0.06;
constexpr const char* kCodings[] = {"32", "16", "float16", "4", "1"};
constexpr int kShort = 64, kWindow = 64;  // bytes of a short message, and how many are on their way
constexpr int kMessageTag = 31021, kWakeTag = 31022;
constexpr const char* kAlone =
    "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32;exchangeBits=default;quantizer=default];"
    "groups=none;transport=auto";

// Stands for a step's weights, gradients, momentum and activations: use() drives out of the caches what was there.
class OtherMemory {
 public:
  explicit OtherMemory(std::size_t weights) : values_(std::min(4 * weights, kMost)) {
    std::ranges::fill(values_.span(), 1.0f);
  }
  void use() {
    for (float& v : values_.span()) v = -v;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{16} << 20;  // more than caches hold
  FloatBuffer values_;
};

// Of a core: ranks may share them.
double cpu_seconds() {
  std::timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The median time of a call on a core after other memory was used; 60 ms of calls.
template <class Work>
double seconds_of(OtherMemory& other, const Work& work) {
  work();  // touches the memory
  std::vector<double> times;
  double total = 0;
  do {
    other.use();
    const double begun = cpu_seconds();
    work();
    times.push_back(cpu_seconds() - begun);
    total += times.back();
  } while (times.size() < 5 || total < kSecondsPerLoop);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::size_t padded_values(const Parameters& layout) {
  std::size_t end = 0;
  for (const Slice& s : layout.slices) end = std::max(end, s.offset + s.size());
  return end;
}

FloatBuffer drawn(std::size_t n) {
  FloatBuffer values(n);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& v : values.span()) v = normal(random);
  return values;
}

// Calls use(rows, columns, offset of the values, offset of the encoded bytes) for every chunk.
template <class Use>
void each_chunk(const Parameters& layout, const Codec& codec, const Use& use) {
  std::size_t at = 0;
  for (const GradientChunk& c : layout.chunks) {
    const std::size_t rows = layout.slices[c.slice].rows;
    use(rows, c.columns, layout.offset(c), at);
    at += codec.bytes(rows, c.columns);
  }
}

// The mean over the first `busy` ranks. Collective.
double mean(Communicator& world, double mine, int busy) {
  const auto all = from_all(world, mine);
  double sum = 0;
  for (int r = 0; r < busy; ++r) sum += all[static_cast<std::size_t>(r)];
  return sum / busy;
}

// Seconds per message of a window that every rank sends to the others in turn.
double seconds_per_message(Communicator& ranks, std::size_t bytes, int window, int rounds) {
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(window)), in(out.size());
  std::vector<std::unique_ptr<Transfer>> transfers;
  const int all = ranks.size(), others = all - 1;
  for (int i = 0; i < window; ++i) {
    auto& to = in[static_cast<std::size_t>(i)];
    to.resize(bytes);
    transfers.push_back(ranks.plan_receive((ranks.rank() + all - 1 - i % others) % all, kMessageTag, to));
  }
  for (int i = 0; i < window; ++i) {
    auto& from = out[static_cast<std::size_t>(i)];
    from.resize(bytes);
    transfers.push_back(ranks.plan_send((ranks.rank() + 1 + i % others) % all, kMessageTag, from));
  }
  ranks.barrier();
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    for (auto& t : transfers) t->start();
    for (auto& t : transfers) t->wait();
    times.push_back(seconds_since(start) / window);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const auto found = from_all(ranks, *middle);
  return std::ranges::max(found);
}

// Throws ConfigError if the config's groups are none.
GroupOptions groups_of(const config::Record& sgd) {
  GroupOptions groups;
  if (!sgd.is_block("ParallelTrain")) return groups;
  Problems problems;
  config::Notices ignored;
  config::read_open_fields(sgd.block("ParallelTrain"), "ParallelTrain", [&](config::Fields& f) { groups.describe(f); },
                           problems, ignored, {});
  problems.throw_if_any();
  return groups;
}

Workload workload_of(const config::Record& sgd, const GroupOptions& groups, std::int64_t minibatch,
                     std::int64_t epoch) {
  Workload w;
  w.minibatch = static_cast<double>(minibatch), w.epoch = static_cast<double>(epoch);
  const auto period = [](const BlockSize& b) { return Period{double(b.per_worker), double(b.total)}; };
  const bool has_blocks = sgd.is_block("ParallelTrain") && sgd.block("ParallelTrain").is_block("ModelAveragingSGD");
  w.averaging = has_blocks ? period(method_settings<ModelAveragingOptions>(sgd).block) : Period{};
  w.momentum = period(method_settings<BlockMomentumOptions>(sgd).block);
  const auto elastic = method_settings<EasgdOptions>(sgd);
  w.elastic_period = static_cast<double>(elastic.period), w.elastic_servers = static_cast<int>(elastic.servers);
  const auto servers = method_settings<ServerOptions>(sgd);
  w.push_period = static_cast<double>(servers.sync_period.at(0));  // of a schedule the first one
  w.push_servers = static_cast<int>(servers.servers);
  if (groups.kind == GroupOptions::Kind::of_size) w.group = static_cast<int>(groups.count);
  return w;
}

// The first `busy` ranks do `work` at once, while the others sleep; the work gets the former as a communicator. Throws
// on all ranks if it throws on one. Collective.
template <class Work>
void on_first_ranks(Communicator& world, int busy, const Work& work) {
  const bool works = world.rank() < busy;
  const auto together = world.split(works ? 0 : 1);
  std::exception_ptr failed;
  if (works) {
    together->barrier();
    try {
      work(*together);
    } catch (const ConfigError&) {  // as of damaged data
      failed = std::current_exception();
    }
    together->barrier();
    if (world.rank() == 0) wake(world, busy);
  } else {
    sleep_until_woken(world);
  }
  if (all_agree(world, !failed)) return;
  if (failed) std::rethrow_exception(failed);
  throw ConfigError({}, "another rank cannot train this config", "train it on one rank, which says why");
}

// A share of the minibatch, and how many ranks have it at once.
struct Share {
  std::int64_t samples = 0;
  int ranks = 1;
};

// The whole minibatch (0) first, then shares by ascending samples.
std::vector<Share> shares_of(const std::vector<int>& ranks, std::int64_t per_rank, std::int64_t minibatch,
                             int shared_cores, int most) {
  const auto at_once = [&](int n) { return shared_cores > 0 ? std::min(n, most) : 1; };
  std::map<std::int64_t, int> shares;
  if (per_rank == 0) shares[0] = at_once(shared_cores);
  for (const int n : ranks) {
    const std::int64_t samples = per_rank > 0 ? per_rank : (minibatch + n - 1) / n;
    if (samples < minibatch || per_rank > 0) shares[samples] = std::max(shares[samples], at_once(n));
  }
  std::vector<Share> all;
  for (const auto& [samples, n] : shares) all.push_back({samples, n});
  return all;
}

// Steps of this rank, and which part of a core it had meanwhile: ranks may share cores.
struct TimedShare {
  TimedSteps steps;
  double core = 1;
};

TimedShare timed_share(const actions::Action& action, std::int64_t samples) {
  const auto start = Clock::now();
  const std::clock_t used = std::clock();
  TimedShare t{action.time_steps(samples, kSecondsPerShare)};
  t.core = std::min(1.0, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC / seconds_since(start));
  return t;
}

// The mean over the ranks that measured at once, as seconds of a core.
StepCost step_cost(Communicator& world, TimedShare t, int ranks) {
  t.steps.ready.resize(from_all(world, t.steps.ready.size())[0]);
  StepCost step{from_all(world, t.steps.samples)[0], mean(world, t.core * t.steps.seconds, ranks), {}};
  for (const double r : t.steps.ready) step.ready.push_back(mean(world, t.core * r, ranks));
  return step;
}

}  // namespace

void sleep_until_woken(Communicator& world) {
  std::byte nothing{};
  const auto woken = world.receive(0, kWakeTag, {&nothing, 1});
  while (!woken->done()) std::this_thread::sleep_for(2ms);
}

void wake(Communicator& world, int from) {
  const std::byte nothing{};
  for (int r = from; r < world.size(); ++r) world.send(r, kWakeTag, {&nothing, 1})->wait();
}

CodecCost measure_codec(const Parameters& layout, const std::string& name) {
  constexpr std::size_t kBlock = 4096;  // values that an owner adds at a time (src/collective/all_reduce.cpp)
  const auto codec = make_codec(coding(name));
  const std::size_t n = padded_values(layout);
  FloatBuffer values = drawn(n), residual(codec->lossy() ? n : 0);
  std::size_t bytes = 0;
  each_chunk(layout, *codec, [&](std::size_t rows, std::size_t columns, std::size_t, std::size_t at) {
    bytes = at + codec->bytes(rows, columns);
  });
  MessageBytes encoded(bytes, *codec);
  FloatBuffer block(std::max<std::size_t>(kBlock, n));
  OtherMemory other(n);
  // Seconds per value of work(rows, columns, values, encoded bytes, offset of the values) on all chunks.
  const auto timed = [&](const auto& work) {
    return seconds_of(other,
                      [&] {
                        each_chunk(layout, *codec,
                                   [&](std::size_t rows, std::size_t columns, std::size_t v, std::size_t at) {
                                     work(rows, columns, values.data() + v, encoded.data() + at, v);
                                   });
                      }) /
           values_of(layout);
  };
  CodecCost cost;
  cost.encode = timed([&](std::size_t rows, std::size_t columns, const float* from, std::byte* to, std::size_t v) {
    codec->encode(rows, columns, from, codec->lossy() ? residual.data() + v : nullptr, to);
  });
  cost.decode = timed([&](std::size_t rows, std::size_t columns, float* to, const std::byte* from, std::size_t) {
    codec->decode(rows, columns, from, to);
  });
  cost.add = timed([&](std::size_t rows, std::size_t columns, const float*, const std::byte* from, std::size_t) {
    const std::size_t step = std::max<std::size_t>(1, kBlock / std::max<std::size_t>(1, rows));
    for (std::size_t c = 0; c < columns; c += step)
      codec->decode_add(rows, std::min(step, columns - c), from + codec->bytes(rows, c), block.data());
  });
  return cost;
}

double measure_pass(const Parameters& layout) {
  const std::size_t n = padded_values(layout);
  FloatBuffer common = drawn(n), own = drawn(n), offer(n);
  OtherMemory other(n);
  const WeightKernels& kernels = weight_kernels_for(common.memory());
  const auto offer_all = [&] { kernels.run(weights::Offer{common.data(), own.data(), offer.data(), 0.5f}, n); };
  return seconds_of(other, offer_all) / static_cast<double>(n);
}

double measure_latency(Communicator& ranks) {
  if (ranks.size() == 1) return 0;
  const double in_a_row = seconds_per_message(ranks, kShort, kWindow, 60);
  return std::max(0.0, seconds_per_message(ranks, 8, 1, 400) - in_a_row);
}

double measure_messages(Communicator& ranks, double ranks_per_core) {
  if (ranks.size() == 1) return 0;
  return seconds_per_message(ranks, kShort, kWindow, 60) / ranks_per_core;
}

double measure_bytes(Communicator& ranks, double ranks_per_core, double per_message) {
  if (ranks.size() == 1) return 0;
  const double seconds = seconds_per_message(ranks, static_cast<std::size_t>(kLargestPart), 32, 60) / ranks_per_core;
  return std::max(0.0, seconds - per_message) / kLargestPart;
}

Measured measure(const std::vector<std::string>& words, const std::vector<int>& ranks, std::int64_t per_rank,
                 int shared_cores, Communicator& world) {
  const std::string directory = std::filesystem::current_path().string();
  const actions::TrainingOfConfig training = actions::find_training(words, world);
  const GroupOptions groups = groups_of(training.sgd);
  const auto alone = world.split(world.rank());
  const int busy = std::max(1, std::min(shared_cores, world.size()));
  Measured m;
  std::map<std::string, CodecCost> codecs;
  double pass = 0;
  // On all ranks, so that all throw if the config is wrong.
  const auto action = actions::make_training(words, directory, training.command, *alone, training.place, kAlone);
  const TimedSteps first = action.time_steps(1, 0);  // for what is the same with every share
  m.parts.layout.slices = first.slices, m.parts.layout.chunks = first.chunks;
  for (Slice& s : m.parts.layout.slices) s.sparse_gradient = false;
  double update = 0;
  int updating = 0;  // the most ranks at once, which share memory
  for (const Share& share : shares_of(ranks, per_rank, first.minibatch, shared_cores, world.size())) {
    TimedShare timed;
    on_first_ranks(world, share.ranks, [&](Communicator&) { timed = timed_share(action, share.samples); });
    m.parts.steps.push_back(step_cost(world, timed, share.ranks));
    const double took = mean(world, timed.core * timed.steps.update, share.ranks);
    if (share.ranks > updating) update = took, updating = share.ranks;
  }
  std::ranges::sort(m.parts.steps, {}, &StepCost::samples);
  // All that share cores share memory, too, and have more of it than a cache holds.
  const int all = shared_cores > 0 ? std::min(world.size(), std::max(busy, std::ranges::max(ranks))) : 1;
  on_first_ranks(world, all, [&](Communicator& together) {
    for (const char* name : kCodings) {
      together.barrier();
      codecs[name] = measure_codec(m.parts.layout, name);
    }
    pass = measure_pass(m.parts.layout);
  });
  const auto per_core = [&](int n) { return shared_cores > 0 ? static_cast<double>(n) / busy : 1.0; };
  const int few = std::min(world.size(), std::max(2, busy));
  on_first_ranks(world, few, [&](Communicator& together) { m.parts.message.latency = measure_latency(together); });
  // Many connections on shared cores make messages and bytes dearer: each poll looks at all of them.
  const int most = std::max(few, all);
  on_first_ranks(world, most, [&](Communicator& together) {
    m.parts.message.per_message = measure_messages(together, per_core(most));
    m.parts.message.per_byte = measure_bytes(together, per_core(most), m.parts.message.per_message);
  });
  for (const char* name : kCodings) {
    CodecCost& c = codecs[name];
    m.parts.codecs[name] = {mean(world, c.encode, all), mean(world, c.decode, all), mean(world, c.add, all)};
  }
  m.parts.pass = mean(world, pass, all);
  if (world.rank() != 0) return m;
  m.weights = values_of(m.parts.layout);
  m.parts.update = update / m.weights;
  m.workload = workload_of(training.sgd, groups, first.minibatch, first.epoch_samples);
  return m;
}

}  // namespace tutti::simulator
