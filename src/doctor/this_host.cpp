// SPDX-License-Identifier: Apache-2.0
// Checks that need no ranks: mpiexec, names, limits of this host and of a container.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/host.h"
#include "base/memory.h"
#include "base/pattern.h"
#include "base/shared_memory_space.h"
#include "comm/session.h"
#include "doctor/request.h"
#include "launch/hosts.h"
#include "launch/process.h"
#include "launch/traps.h"
#include "tutti/error.h"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;
constexpr double kSlowName = 1;  // seconds
constexpr double kGigabyte = 1e9;

struct Look {
  Findings& findings;
  void ok(const char* subject, std::string text) { findings.push_back({Level::ok, subject, std::move(text)}); }
  void warn(const char* subject, std::string text, std::string fix) {
    findings.push_back({Level::warning, subject, std::move(text), std::move(fix)});
  }
  void fail(const char* subject, std::string text, std::string fix) {
    findings.push_back({Level::failure, subject, std::move(text), std::move(fix)});
  }
};

std::string version_in(const std::string& text) {
  static const Pattern number(R"(\d+\.\d+(\.\d+)?)");
  const auto m = number.search(text);
  return m ? (*m)[0] : "";
}

void look_at_mpiexec(const Request& request, Look look) {
  const std::string library = mpi_library();
  std::string first;
  try {
    launch::Process process({request.launch.mpiexec, "--version"}, launch::Process::Output::lines);
    const auto keep = [&](bool, const std::string& line) {
      if (first.empty()) first = line.substr(0, line.find_first_of("\r\n"));
    };
    while (process.running()) process.read(100, keep);
    process.read(0, keep);
  } catch (const Error&) {
    return look.fail("mpiexec", fmt::format("cannot start '{}'", request.launch.mpiexec),
                     "apt-get install openmpi-bin, or name it with --mpiexec");
  }
  if (version_in(first) == version_in(library))
    return look.ok("mpiexec", fmt::format("{}, the library of this build", library));
  look.warn("mpiexec", fmt::format("'{}' is {}, but this build has {}", request.launch.mpiexec, first, library),
            "use the mpiexec of that library: ranks of another one may each believe to be alone");
}

void look_at_user(Look look) {
  if (getuid() != 0) return;
  const bool allowed = std::getenv("OMPI_ALLOW_RUN_AS_ROOT") && std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
  if (allowed) return look.ok("user", "root; OMPI_ALLOW_RUN_AS_ROOT and ..._CONFIRM are set");
  look.warn(
      "user", "root: mpiexec of Open MPI refuses to start as root",
      "use trainer launch, which sets OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or set them");
}

// Empty: it resolves.
std::string why_unresolved(const std::string& name, double& seconds) {
  const auto start = Clock::now();
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  seconds = seconds_since(start);
  if (found) freeaddrinfo(found);
  return code == 0 ? "" : gai_strerror(code);
}

void look_at_own_name(Look look) {
  double seconds = 0;
  const std::string name = host_name();
  const std::string fix = fmt::format("echo '127.0.1.1 {}' >> /etc/hosts", name);
  if (const std::string why = why_unresolved(name, seconds); !why.empty())
    look.warn("host name", fmt::format("'{}' does not resolve ({}): every mpiexec may wait 5 s for it", name, why),
              fix);
  else if (seconds > kSlowName)
    look.warn("host name", fmt::format("'{}' takes {:.1f} s to resolve, at the start of every run", name, seconds),
              fix);
  else
    look.ok("host name", fmt::format("'{}' resolves", name));
}

// Cores that a container's quota allows on the average; 0 = no quota.
double quota_of_cores() {
  std::ifstream two("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (two >> quota >> period && period > 0) return quota / period;
  std::ifstream most("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), per("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (most >> quota && per >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

void look_at_cores(const Request& request, Look look) {
  const int cores = launch::cores_here(), all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int ranks = request.launch.hosts.empty() ? request.launch.ranks : 0;
  for (const launch::Host& h : request.launch.hosts)
    if (launch::is_this_host(h.name)) ranks += h.slots;
  std::string text =
      fmt::format("{} core{} for {} rank{} here", cores, cores == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
  if (cores < all) text += fmt::format(", of {} that the machine has", all);
  const double quota = quota_of_cores();
  if (quota > 0 && quota < std::min(cores, std::max(ranks, 1)))
    return look.warn(
        "cores",
        fmt::format("{}; the container may use {:.1f} of them on the average, so ranks are stopped in turn", text,
                    quota),
        "start fewer ranks, or raise the limit (docker run --cpus)");
  if (ranks > cores)
    return look.warn("cores", text + ": ranks share cores and wait for each other", fmt::format("-n {}", cores));
  look.ok("cores", text);
}

void look_at_memory(Look look) {
  const auto left = available_memory();
  if (!left)
    return look.warn("memory", "the system does not say how much is free", "look at free -h before large runs");
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string text = fmt::format("{} are left to a process{}", bytes_text(static_cast<double>(*left)),
                                       limited ? ", limited by ulimit -v" : "");
  if (static_cast<double>(*left) < kGigabyte)
    look.warn("memory", text, "end other programs, or raise the limit; trainer --check tells what a run needs");
  else
    look.ok("memory", text);
}

void look_at_shared_memory(const Request& request, Look look) {
  const auto free = free_shared_memory();
  const auto needed = kSharedMemoryPerRank * static_cast<std::uint64_t>(std::max(request.launch.ranks, 1));
  const std::string text = fmt::format("{} free in /dev/shm", bytes_text(static_cast<double>(free)));
  if (free >= needed) return look.ok("shared memory", text);
  look.warn("shared memory",
            fmt::format("{}; Open MPI wants {} for {} ranks", text, bytes_text(static_cast<double>(needed)),
                        request.launch.ranks),
            "docker run --shm-size=1g, or trainer launch, which puts Open MPI's shared memory into /tmp");
}

bool in_container() {
  std::error_code ignored;
  return fs::exists("/.dockerenv", ignored) || fs::exists("/run/.containerenv", ignored) || std::getenv("container");
}

void look_at_container(const Request& request, Look look) {
  if (launch::may_read_neighbours())
    look.ok("single copy",
            std::string("ranks may read each other's memory") + (in_container() ? " in this container" : ""));
  else
    look.warn("single copy", "ranks may not read each other's memory, so Open MPI's messages between them fail",
              "trainer launch, or --mca btl_vader_single_copy_mechanism none, or docker run --cap-add SYS_PTRACE");
  const auto names = launch::bridges();
  const bool others =
      std::ranges::any_of(request.launch.hosts, [](const auto& h) { return !launch::is_this_host(h.name); });
  if (names.empty()) return;
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  if (others)
    look.warn("interfaces",
              fmt::format("{}: the same addresses on every host; Open MPI may try to connect through them", text),
              "trainer launch, or --mca btl_tcp_if_exclude lo," + names[0]);
  else
    look.ok("interfaces", text + ": without effect on one host");
}

void look_at_limits(Look look) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 1024)
    look.warn("open files", fmt::format("at most {} per process", files.rlim_cur), "ulimit -n 4096");
  const char* const set = std::getenv("TMPDIR");
  const std::string folder = set && *set ? set : "/tmp";
  struct statvfs space {};
  if (access(folder.c_str(), W_OK) != 0 || statvfs(folder.c_str(), &space) != 0)
    return look.fail("temporary",
                     fmt::format("'{}' cannot be written, but every rank of Open MPI keeps files there", folder),
                     "export TMPDIR=a folder that you may write");
  const double free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (free < 1e8)
    look.warn("temporary", fmt::format("{} free in {}", bytes_text(free), folder),
              "remove files there, or export TMPDIR");
  else
    look.ok("temporary", fmt::format("{} free in {}", bytes_text(free), folder));
}

// data.cpp reports what the ranks compare.
void look_at_data(const Request& request, Look look) {
  if (request.has_config && request.data.empty())
    look.ok("data", "the readers of the configuration name no files: nothing is compared");
  if (request.data.size() > kMostItems)
    look.ok("data", fmt::format("{} more files of the readers are not compared", request.data.size() - kMostItems));
}

}  // namespace

void look_at_this_host(const Request& request, Findings& findings) {
  Look look{findings};
  look_at_mpiexec(request, look);
  look_at_user(look);
  look_at_own_name(look);
  look_at_cores(request, look);
  look_at_memory(look);
  look_at_shared_memory(request, look);
  look_at_container(request, look);
  look_at_limits(look);
  look_at_data(request, look);
}

bool look_at_hosts(const Request& request, Findings& findings) {
  Look look{findings};
  bool all = true;
  for (const launch::Host& h : request.launch.hosts) {
    if (launch::is_this_host(h.name)) continue;
    double seconds = 0;
    const std::string subject = "host " + h.name;
    const std::string why = why_unresolved(h.name, seconds);
    // A remote shell of its own may know the host by other means.
    if (!why.empty() && !request.launch.agent.empty() && launch::is_reachable(h.name, request.launch)) {
      look.warn(subject.c_str(),
                fmt::format("the name does not resolve here ({}; {:.1f} s), though {} reaches it", why, seconds,
                            request.launch.agent),
                fmt::format("add 'ADDRESS {}' to /etc/hosts", h.name));
    } else if (!why.empty()) {
      look.fail(subject.c_str(), fmt::format("the name does not resolve ({}; {:.1f} s)", why, seconds),
                fmt::format("correct the name, or add 'ADDRESS {}' to /etc/hosts", h.name));
      all = false;
    } else if (!launch::is_reachable(h.name, request.launch)) {
      const std::string shell = request.launch.agent.empty() ? "ssh" : request.launch.agent;
      look.fail(
          subject.c_str(), "no process there connects back to this host within 8 s",
          fmt::format("'{} {} true' must work without a password, the trainer must lie at the same path there, and "
                      "firewalls must let the hosts' ports through",
                      shell, h.name));
      all = false;
    } else if (seconds > kSlowName) {
      look.warn(subject.c_str(), fmt::format("the name takes {:.1f} s to resolve", seconds),
                fmt::format("add it to /etc/hosts"));
    } else {
      look.ok(subject.c_str(), "starts processes, which connect back to this host");
    }
  }
  return all;
}

}  // namespace tutti::doctor
