// SPDX-License-Identifier: Apache-2.0
#include "launch/mpiexec_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/shared_memory_space.h"
#include "base/shell_word.h"
#include "comm/session.h"
#include "launch/hosts.h"
#include "launch/process.h"
#include "launch/traps.h"

namespace tutti::launch {
namespace {

// "lo,docker0": the interfaces that lead to no other host.
std::string useless_interfaces() {
  std::string text;
  for (const std::string& name : bridges()) text += "," + name;
  return text.empty() ? text : "lo" + text;
}

struct Line : MpiexecLine {
  void add(std::initializer_list<std::string> more, const char* note = nullptr) {
    words.insert(words.end(), more);
    if (note) notes.emplace_back(note);
  }
  void set(const char* name, const char* value) { variables.emplace_back(name, value); }
};

void add_open_mpi(Line& line, const Options& o, int ranks, const std::vector<Host>& hosts) {
  const bool here_only = std::all_of(hosts.begin(), hosts.end(), [](const Host& h) { return is_this_host(h.name); });
  if (!hosts.empty()) line.add({"--host", to_string(hosts)});
  if (!o.agent.empty()) line.add({"--mca", "plm_rsh_agent", o.agent});
  if (getuid() == 0) {
    line.set("OMPI_ALLOW_RUN_AS_ROOT", "1"), line.set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    line.notes.emplace_back("runs as root: OMPI_ALLOW_RUN_AS_ROOT and ..._CONFIRM are set");
  }
  const bool in_slurm = std::getenv("SLURM_JOB_ID") && hosts.empty();
  if (here_only && !in_slurm) {
    if (ranks > cores_here()) {
      line.add({"--oversubscribe", "--bind-to", "none"}, "more ranks than cores: they share cores and yield them");
      line.set("OMPI_MCA_mpi_yield_when_idle", "1");
    } else if (cores_here() < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))) {
      line.add({"--bind-to", "none"}, "this process may not use all cores, so mpiexec does not bind ranks");
    }
  } else if (!here_only) {
    if (const std::string names = useless_interfaces(); !names.empty())
      line.add({"--mca", "btl_tcp_if_exclude", names, "--mca", "oob_tcp_if_exclude", names},
               "bridges of containers do not lead to other hosts");
  }
  if (free_shared_memory() < kSharedMemoryPerRank * static_cast<std::uint64_t>(ranks))
    line.add({"--mca", "btl_vader_backing_directory", "/tmp"}, "/dev/shm is small: shared memory lies in /tmp");
  if (!may_read_neighbours())
    line.add({"--mca", "btl_vader_single_copy_mechanism", "none"},
             "processes may not read each other's memory here (a container)");
}

}  // namespace

MpiexecLine mpiexec_line(const Options& o, int ranks, const std::vector<Host>& hosts) {
  Line line;
  line.add({o.mpiexec});
  if (ranks > 0) line.add({"-n", std::to_string(ranks)});
  if (mpi_library().starts_with("Open MPI")) {
    add_open_mpi(line, o, ranks, hosts);
  } else {
    if (!hosts.empty()) line.add({"-hosts", to_string(hosts)});
    if (!o.agent.empty()) line.add({"-launcher-exec", o.agent});
  }
  line.add({own_path()});
  line.words.insert(line.words.end(), o.arguments.begin(), o.arguments.end());
  return line;
}

std::string to_string(const MpiexecLine& line) {
  std::string text;
  for (const auto& [name, value] : line.variables) text += fmt::format("{}={} ", name, shell_word(value));
  for (std::size_t i = 0; i < line.words.size(); ++i)
    text += fmt::format("{}{}", i ? " " : "", shell_word(line.words[i]));
  return text;
}

}  // namespace tutti::launch
