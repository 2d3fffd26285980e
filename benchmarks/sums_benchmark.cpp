// SPDX-License-Identifier: Apache-2.0
// How long the sum of one buffer over all ranks takes, with nothing to hide behind: by MPI_Allreduce, and by ASA's
// all-to-all, sum and all-gather in 32 and 16 bits, on one host through shared memory as well. All variants take turns;
// medians of the slowest rank, and ratios of times within a turn:
//   scripts/cluster.sh up 4 --rate 1gbit && scripts/cluster.sh run build/benchmarks/sums_benchmark [turns] [columns]
// `columns` is the size of a chunk. The buffer has the 10.0 million weights of a network 784-3x2048-10.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "comm/session.h"
#include "mlp_parameters.h"
#include "parallel/all_reduce_gradients.h"
#include "parallel/library_gradients.h"
#include "parallel/local_sgd/asa_options.h"
#include "tutti/log.h"

namespace tutti {
namespace {

struct Variant {
  const char* name;
  ParallelMethod method;
  std::unique_ptr<Parameters> parameters;
  std::vector<double> seconds = {};
};

ParallelMethod asa(Communicator& comm, Transport transport, AsaOptions::AllReduce all_reduce, ExchangeBits::Kind kind) {
  AsaOptions options;
  options.all_reduce = all_reduce;
  options.bits.kind = kind;
  return options.make({comm, {}, transport});
}

double once(Communicator& comm, Variant& variant) {
  Parameters& p = *variant.parameters;
  for (std::size_t i = 0; i < p.gradients.size(); ++i) p.gradients.data()[i] = static_cast<float>(i % 2003);
  IgnoreGradients sink;
  comm.barrier();
  const auto start = Clock::now();
  variant.method.gradients->begin_step({.columns = 1}, sink);
  for (std::size_t i = 0; i < p.chunks.size(); ++i) variant.method.gradients->chunk_ready(i);
  variant.method.gradients->finish_step();
  return largest_of_ranks(comm, since(start));
}

void run(Communicator& comm, int turns, std::size_t columns) {
  std::vector<Variant> variants;
  using Sums = AsaOptions::AllReduce;
  using Bits = ExchangeBits::Kind;
  variants.push_back({"MPI_Allreduce", asa(comm, Transport::messages, Sums::library, Bits::full), nullptr});
  variants.push_back({"ASA, 32 bits", asa(comm, Transport::messages, Sums::sharded, Bits::full), nullptr});
  variants.push_back({"ASA, 16 bits", asa(comm, Transport::messages, Sums::sharded, Bits::half), nullptr});
  if (resolve_transport(Transport::automatic, comm).kind == Transport::shared_memory)
    variants.push_back({"shared memory", asa(comm, Transport::shared_memory, Sums::sharded, Bits::full), nullptr});
  for (Variant& variant : variants) {
    variant.parameters = std::make_unique<Parameters>(mlp_parameters(columns));
    variant.method.gradients->start(*variant.parameters);
    variant.method.gradients->begin_epoch(0);
    once(comm, variant);
  }
  for (int t = 0; t < turns; ++t)
    for (Variant& variant : variants) variant.seconds.push_back(once(comm, variant));
  if (comm.rank() != 0) return;
  for (const Variant& variant : variants) {
    std::vector<double> ratios;
    for (std::size_t t = 0; t < variant.seconds.size(); ++t)
      ratios.push_back(variants[0].seconds[t] / variant.seconds[t]);
    fmt::print("{:14} {:8.1f} ms, {:.3f} times as fast as {}\n", variant.name, median(variant.seconds) * 1e3,
               median(ratios), variants[0].name);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::MpiSession mpi(&argc, &argv);
  try {
    if (mpi.world().rank() > 0) tutti::log::open({.rank = mpi.world().rank(), .quiet = true});
    const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
    tutti::run(mpi.world(), argument(1, 9), static_cast<std::size_t>(argument(2, 256)));
  } catch (const std::exception& error) {
    mpi.fail(error.what());
  }
}
