// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of `trainer plan` with the line that `trainer launch` would use.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>

#include "base/exit_codes.h"
#include "launch/mpiexec_line.h"
#include "launch/process.h"
#include "planner/planner.h"

namespace tutti::planner {
namespace {

constexpr const char* kUsage =
    "usage: trainer plan [-n RANKS] [--hosts A:4,B:4 | --hostfile FILE] configFile=FILE ...\n\n"
    "Times some steps of the config's first training on these ranks, under every parallel method and in several "
    "numbers\n"
    "of bits, and prints samples per second, bytes, the share of the exchange that computing hides, and memory, with "
    "the\n"
    "choice. Nothing is written. The words are those of trainer launch, then a configuration.\n";

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    launch::Options o = launch::parse({argv, argv + argc});
    if (o.help) return std::fputs(kUsage, stdout), 0;
    if (o.ranks == 0) o.ranks = 2;
    o.arguments.insert(o.arguments.begin(), "plan-rank");
    const launch::MpiexecLine line = launch::mpiexec_line(o, o.ranks, o.hosts);
    launch::Process process(line.words, launch::Process::Output::lines, line.variables);
    std::deque<std::string> said;
    const auto pass_on = [&](bool error, const std::string& text) {
      if (!error) return static_cast<void>((std::fputs(text.c_str(), stdout), std::fflush(stdout)));
      said.push_back(text);
      if (said.size() > 40) said.pop_front();
    };
    while (process.running()) process.read(100, pass_on);
    process.read(0, pass_on);
    const int code = process.exit_code();
    if (code != 0)
      for (const std::string& text : said) std::fputs(text.c_str(), stderr);
    return code;
  } catch (const std::exception& e) {
    std::string text = e.what();
    if (text.starts_with("launch: ")) text.replace(0, 6, "plan");
    std::fprintf(stderr, "%s\n", text.c_str());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::planner
