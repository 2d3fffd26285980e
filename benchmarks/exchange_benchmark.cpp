// SPDX-License-Identifier: Apache-2.0
// What one exchange of gradients costs a rank: mpiexec -n 2 build/benchmarks/exchange_benchmark [bits] [steps]
// [columns]. The gradients of a network 784-3x2048-10 are written piece by piece, as a backward pass does, and
// exchanged; the time spent in the strategy is reported, median and best of the steps, slowest rank. `columns` is the
// size of a piece.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "comm/session.h"
#include "strategy/data_parallel.h"
#include "tutti/log.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Parameters network(std::size_t columns_per_piece) {
  Parameters p;
  std::size_t size = 0;
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {10, 1}, {10, 2048}, {2048, 1}, {2048, 2048}, {2048, 1}, {2048, 2048}, {2048, 1}, {2048, 784}}) {
    Slice slice;
    slice.offset = size, slice.rows = rows, slice.columns = columns;
    for (std::size_t c = 0; c < columns; c += columns_per_piece)
      p.pieces.push_back({p.slices.size(), c, std::min(columns_per_piece, columns - c)});
    size += (rows * columns + 15) / 16 * 16;
    p.slices.push_back(slice);
  }
  p.weights = FloatBuffer(size);
  p.gradients = FloatBuffer(size);
  return p;
}

class Ignore : public GlobalSink {
 public:
  void global_ready(std::size_t, std::int64_t) override {}
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void run(Communicator& comm, int bits, int steps, std::size_t columns) {
  Parameters p = network(columns);
  std::vector<float> source(1 << 16);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>((i * 7919) % 2003) - 1001;
  DataParallelOptions options;
  options.gradient_bits = bits;
  DataParallel strategy(options, 0, comm);
  strategy.start(p);
  strategy.begin_epoch(0);
  Ignore sink;
  std::vector<double> seconds;
  for (int t = 0; t < steps; ++t) {
    comm.barrier();
    double spent = 0;
    strategy.begin_step(256, sink);
    for (std::size_t i = 0; i < p.pieces.size(); ++i) {
      float* g = p.gradients.data() + p.offset(p.pieces[i]);
      for (std::size_t k = 0, n = p.count(p.pieces[i]); k < n; ++k) g[k] = source[k % source.size()];
      const auto start = Clock::now();
      strategy.piece_ready(i);
      spent += since(start);
    }
    const auto start = Clock::now();
    Tally tally;
    strategy.finish_gradients(tally);
    seconds.push_back(spent + since(start));
  }
  const ExchangeStats stats = strategy.take_stats();
  const auto slowest_rank = [&](double mine) {
    std::vector<double> all(static_cast<std::size_t>(comm.size()));
    comm.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    return *std::max_element(all.begin(), all.end());
  };
  const double usual = slowest_rank(median(seconds)),
               best = slowest_rank(*std::min_element(seconds.begin(), seconds.end()));
  if (comm.rank() != 0) return;
  const double n = steps;
  fmt::print(
      "{} bits, {} ranks, {} weights: {:.2f} ms a step, best {:.2f} (mean: encode {:.2f}, wait {:.2f}, sum and decode "
      "{:.2f}), {:.3f} MB sent\n",
      bits, comm.size(), p.size(), usual * 1e3, best * 1e3, stats.encode / n * 1e3, stats.wait / n * 1e3,
      stats.decode / n * 1e3, static_cast<double>(stats.bytes_sent) / n / 1e6);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::MpiSession mpi(&argc, &argv);
  try {
    if (mpi.world().rank() > 0) tutti::log::open({.rank = mpi.world().rank(), .quiet = true});
    const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
    tutti::run(mpi.world(), argument(1, 1), argument(2, 50), static_cast<std::size_t>(argument(3, 128)));
  } catch (const std::exception& error) {
    mpi.abort(error.what());
  }
}
