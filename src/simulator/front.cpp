// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of `trainer simulate` that measure, with the line that `trainer launch` would use.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/exit_codes.h"
#include "launch/table_run.h"
#include "simulator/request.h"
#include "simulator/simulator.h"
#include "tutti/error.h"

namespace tutti::simulator {
namespace {

constexpr int kMostAtOnce = 16;  // ranks that share cores and are measured together

constexpr const char* kUsage =
    R"(usage: trainer simulate [--ranks LIST] [--links LIST] [--latency TIME] [--json FILE] configFile=FILE ...

Measures the parts of the config's first training on this host (computing, updating, encoding, messages), and computes
samples per second of every parallel method on clusters of other sizes and links.
  --ranks 2,4,8     numbers of ranks, one per host; 16:1024 = 16, 32, ... 1024 (default 2,4,8,16)
  --links 1gbit     rates of the hosts' links: kbit, mbit, gbit, or none = no limit (default 1gbit,10gbit,100gbit)
  --latency 30us    of the link, one way, added to what the programs need (default 0)
  --per-rank 128    samples of a rank in a minibatch; without it the config's minibatch is divided among the ranks
  --shared-cores K  all ranks share K cores of this machine, as emulated hosts do (docs/cluster.md)
  --json FILE       writes the table also as lines of JSON
The other options are those of trainer launch, for the ranks that measure: two on this host; with --shared-cores as many
as the largest of --ranks, 16 at most; with hosts one per slot.
)";

// On one host, messages between the ranks that measure go over TCP, as between hosts.
void use_tcp(launch::MpiexecLine& line) {
  line.variables.emplace_back("OMPI_MCA_btl", "self,tcp");
  line.variables.emplace_back("OMPI_MCA_btl_tcp_if_include", "lo");
}

int simulate(const std::vector<std::string>& words) {
  const Request request = parse_request(words);
  launch::Options o = launch::parse(request.others);
  if (o.help) return std::fputs(kUsage, stdout), 0;
  launch::refuse_restarts(o);
  const int least = std::max(2, request.shared_cores);
  if (o.ranks == 0)
    o.ranks =
        request.shared_cores == 0 ? least : std::max(least, std::min(kMostAtOnce, std::ranges::max(request.ranks)));
  if (o.ranks < least)
    throw Error(
        fmt::format("simulate: {} rank{} cannot measure: messages need two, --shared-cores K needs K\nfix: -n {}",
                    o.ranks, o.ranks == 1 ? "" : "s", least));
  std::vector<std::string> arguments = {"simulate-rank"};
  arguments.insert(arguments.end(), request.own.begin(), request.own.end());
  o.arguments.insert(o.arguments.begin(), arguments.begin(), arguments.end());
  launch::MpiexecLine line = launch::mpiexec_line(o, o.ranks, o.hosts);
  if (o.hosts.empty()) use_tcp(line);
  return launch::run_for_table(line, "simulate", request.json);
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    return simulate({argv, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", launch::in_words_of("simulate", e.what()).c_str());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::simulator
