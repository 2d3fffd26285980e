// SPDX-License-Identifier: Apache-2.0
// What one exchange of gradients costs a rank: mpiexec -n 2 build/benchmarks/exchange_benchmark [bits] [steps]
// [columns]. The gradients of a network 784-3x2048-10 are written piece by piece, as a backward pass does, and
// exchanged; the time spent in the strategy is reported, median and best of the steps, slowest rank. `columns` is the
// size of a piece.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "comm/session.h"
#include "mlp_parameters.h"
#include "strategy/data_parallel.h"
#include "tutti/log.h"

namespace tutti {
namespace {

void run(Communicator& comm, int bits, int steps, std::size_t columns) {
  Parameters p = mlp_parameters(columns);
  std::vector<float> source(1 << 16);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>((i * 7919) % 2003) - 1001;
  DataParallelOptions options;
  options.gradient_bits = bits;
  DataParallel strategy(options, 0, comm);
  strategy.start(p);
  strategy.begin_epoch(0);
  IgnoreGradients sink;
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
  const double usual = largest_of_ranks(comm, median(seconds)),
               best = largest_of_ranks(comm, *std::min_element(seconds.begin(), seconds.end()));
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
