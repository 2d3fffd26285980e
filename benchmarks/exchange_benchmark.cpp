// SPDX-License-Identifier: Apache-2.0
// What one exchange of gradients costs a rank: mpiexec -n 2 build/benchmarks/exchange_benchmark [bits] [steps]
// [columns] [--transport messages|sharedMemory|both]. The gradients of a network 784-3x2048-10 are written chunk by
// chunk, as a backward pass does, and exchanged; the time spent in the exchange is reported, median and best of the
// steps, slowest rank. `columns` is the size of a chunk. Two transports take turns of a few steps, and the median ratio
// is told as well.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/session.h"
#include "mlp_parameters.h"
#include "parallel/all_reduce_gradients.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {
namespace {

struct Variant {
  Variant(const std::string& n, Transport transport, int bits, std::size_t columns, Communicator& comm)
      : name(n), parameters(mlp_parameters(columns)), exchange(options_of(bits), 0, transport, comm) {
    exchange.start(parameters);
    exchange.begin_epoch(0);
  }
  static DataParallelOptions options_of(int bits) {
    DataParallelOptions options;
    options.gradient_bits = bits;
    return options;
  }
  std::string name;
  Parameters parameters;
  AllReduceGradients exchange;
  std::vector<double> seconds = {};
};

void step(Communicator& comm, Variant& variant, std::span<const float> source) {
  Parameters& p = variant.parameters;
  IgnoreGradients sink;
  comm.barrier();
  double spent = 0;
  variant.exchange.begin_step({.columns = 256}, sink);
  for (std::size_t i = 0; i < p.chunks.size(); ++i) {
    float* g = p.gradients.data() + p.offset(p.chunks[i]);
    for (std::size_t k = 0, n = p.count(p.chunks[i]); k < n; ++k) g[k] = source[k % source.size()];
    const auto start = Clock::now();
    variant.exchange.chunk_ready(i);
    spent += since(start);
  }
  const auto start = Clock::now();
  variant.exchange.finish_step();
  variant.seconds.push_back(largest_of_ranks(comm, spent + since(start)));
}

void run(Communicator& comm, int bits, int steps, std::size_t columns, const std::vector<std::string>& transports) {
  std::vector<float> source(1 << 16);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>((i * 7919) % 2003) - 1001;
  std::vector<std::unique_ptr<Variant>> variants;
  for (const std::string& transport : transports)
    variants.push_back(std::make_unique<Variant>(
        transport, transport == "messages" ? Transport::messages : Transport::shared_memory, bits, columns, comm));
  constexpr int kTurn = 5;  // steps of one transport before the other has its turn
  for (int t = 0; t < steps; t += kTurn)
    for (auto& variant : variants)
      for (int s = 0; s < kTurn; ++s) step(comm, *variant, source);
  if (comm.rank() != 0) return;
  for (auto& variant : variants) {
    const ExchangeStats stats = variant->exchange.exchange_stats_and_reset();
    const auto n = static_cast<double>(variant->seconds.size());
    fmt::print(
        "{:12} {} bits, {} ranks, {} weights: {:.2f} ms a step, best {:.2f} (mean: encode {:.2f}, wait {:.2f}, sum and "
        "decode {:.2f}), {:.3f} MB sent\n",
        variant->name, bits, comm.size(), variant->parameters.size(), median(variant->seconds) * 1e3,
        *std::min_element(variant->seconds.begin(), variant->seconds.end()) * 1e3, stats.encode / n * 1e3,
        stats.wait / n * 1e3, stats.decode / n * 1e3, static_cast<double>(stats.bytes_sent) / n / 1e6);
  }
  if (variants.size() < 2) return;
  std::vector<double> ratios;
  for (std::size_t t = 0; t < variants[0]->seconds.size(); ++t)
    ratios.push_back(variants[0]->seconds[t] / variants[1]->seconds[t]);
  fmt::print("{} is {:.2f} times as fast as {}\n", variants[1]->name, median(ratios), variants[0]->name);
}

// Takes "--transport NAME" out of the arguments.
std::vector<std::string> transports_of(std::vector<std::string>& arguments) {
  const auto at = std::find(arguments.begin(), arguments.end(), "--transport");
  if (at == arguments.end()) return {"messages"};
  const std::string transport = at + 1 == arguments.end() ? "" : *(at + 1);
  if (transport != "messages" && transport != "sharedMemory" && transport != "both")
    throw Error("--transport wants messages, sharedMemory or both");
  arguments.erase(at, at + 2);
  return transport == "both" ? std::vector<std::string>{"messages", "sharedMemory"} : std::vector{transport};
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::MpiSession mpi(&argc, &argv);
  try {
    if (mpi.world().rank() > 0) tutti::log::open({.rank = mpi.world().rank(), .quiet = true});
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto transports = tutti::transports_of(arguments);
    const auto argument = [&](std::size_t i, int otherwise) {
      return arguments.size() > i ? std::atoi(arguments[i].c_str()) : otherwise;
    };
    tutti::run(mpi.world(), argument(0, 1), argument(1, 50), static_cast<std::size_t>(argument(2, 128)), transports);
  } catch (const std::exception& error) {
    mpi.fail(error.what());
  }
}
