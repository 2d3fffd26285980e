// SPDX-License-Identifier: Apache-2.0
#include "launch/mpiexec_line.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "comm/session.h"
#include "launch/hosts.h"
#include "launch/process.h"

namespace tutti::launch {
namespace {

constexpr std::uint64_t kSharedMemoryPerRank = 32 << 20;

int cores_here() {
  cpu_set_t mine;
  return sched_getaffinity(0, sizeof mine, &mine) == 0 ? std::max(1, CPU_COUNT(&mine)) : 1;
}

// Containers often forbid a process to read another one's memory, even between ranks of one user.
bool may_read_neighbours() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  static const int value = 42;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    int copy = 0;
    iovec to{&copy, sizeof copy}, from{const_cast<int*>(&value), sizeof value};
    _exit(process_vm_readv(parent, &to, 1, &from, 1, 0) == sizeof copy && copy == value ? 0 : 1);
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  return child > 0 && status == 0;
}

// Bridges of containers and virtual machines have the same addresses on every host, and lead nowhere.
std::string useless_interfaces() {
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    const std::string name = i->ifa_name;
    if (name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-") ||
        name.starts_with("podman"))
      names.insert(name);
  }
  freeifaddrs(all);
  if (names.empty()) return {};
  std::string text = "lo";
  for (const std::string& name : names) text += "," + name;
  return text;
}

bool is_quoted(char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && !std::strchr("_-+=./:,@%", c); }

std::string quoted(const std::string& word) {
  if (!word.empty() && std::none_of(word.begin(), word.end(), is_quoted)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
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
  struct statvfs memory {};
  if (statvfs("/dev/shm", &memory) != 0 ||
      std::uint64_t{memory.f_bavail} * memory.f_frsize < kSharedMemoryPerRank * static_cast<std::uint64_t>(ranks))
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
  for (const auto& [name, value] : line.variables) text += fmt::format("{}={} ", name, quoted(value));
  for (std::size_t i = 0; i < line.words.size(); ++i) text += fmt::format("{}{}", i ? " " : "", quoted(line.words[i]));
  return text;
}

}  // namespace tutti::launch
