// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of `trainer plan` with the line that `trainer launch` would use.
#include <cstdio>

#include "base/exit_codes.h"
#include "launch/table_run.h"
#include "planner/planner.h"

namespace tutti::planner {
namespace {

constexpr const char* kUsage =
    "usage: trainer plan [-n RANKS] [--hosts A:4,B:4 | --hostfile FILE] [--json FILE] configFile=FILE ...\n\n"
    "Times some steps of the config's first training on these ranks, under every parallel method and in several "
    "numbers\n"
    "of bits, and prints samples per second, bytes, the share of the exchange that computing hides, and memory, with "
    "the\n"
    "choice. --json writes the table also as lines of JSON, which trainer report sets beside what runs achieve.\n"
    "Nothing else is written. The other options are those of trainer launch; configFile=FILE names the configuration.\n";

// Takes "--json FILE" out of the words. "" if it is not there.
std::string take_json(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool inlined = words[i].starts_with("--json=");
    if (!inlined && words[i] != "--json") continue;
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    const bool is_value = !next.starts_with("-") && next.find('=') == next.npos;
    const std::string path = inlined ? words[i].substr(7) : is_value ? next : "";
    if (path.empty()) throw Error("plan: --json needs a value\nfix: --json plan.jsonl");
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    words.erase(at, at + (inlined ? 1 : 2));
    return path;
  }
  return {};
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    std::vector<std::string> words(argv, argv + argc);
    const std::string json = take_json(words);
    launch::Options o = launch::parse(words);
    if (o.help) return std::fputs(kUsage, stdout), 0;
    launch::refuse_restarts(o);
    if (o.ranks == 0) o.ranks = launch::default_ranks(2);
    o.arguments.insert(o.arguments.begin(), "plan-rank");
    return launch::run_for_table(launch::mpiexec_line(o, o.ranks, o.hosts), "plan", json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", launch::in_words_of("plan", e.what()).c_str());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::planner
