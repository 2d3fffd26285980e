// SPDX-License-Identifier: Apache-2.0
// What every rank sees of its host, compared on rank 0.
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "base/clock.h"
#include "base/cuda_library.h"
#include "base/memory.h"
#include "base/pattern.h"
#include "base/shared_memory_space.h"
#include "base/trimmed.h"
#include "comm/session.h"
#include "doctor/data.h"
#include "doctor/links.h"
#include "doctor/request.h"
#include "launch/process.h"
#include "launch/traps.h"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;

using CoreSet = std::array<std::uint64_t, 16>;  // a bit each

// Of a rank; plain data, as it travels.
struct Facts {
  std::array<char, 64> host{};
  std::array<char, 256> no_gpu{};  // why none is usable
  std::array<char, 256> driver_text{};
  std::array<char, 16> congestion{};  // TCP's congestion control
  CoreSet cores{};
  std::uint64_t memory = 0, shared_memory = 0, program = 0;
  int gpus = 0, driver = 0, directory = 0, sees_output = 0, single_copy = 0;
};

void copy_text(const std::string& text, std::span<char> to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
}

// "driver 550.54.15, NVIDIA H100", as the driver tells it; empty if it does not.
std::string driver_text() {
  const fs::path folder = "/proc/driver/nvidia";
  std::ifstream about(folder / "version");
  std::string line, text;
  std::getline(about, line);  // NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 ...
  if (const auto version = Pattern(R"(\d+\.\d+(\.\d+)*)").search(line)) text = "driver " + (*version)[0];
  std::set<std::string> models;
  std::error_code failed;
  for (const auto& gpu : fs::directory_iterator(folder / "gpus", failed)) {
    std::ifstream information(gpu.path() / "information");
    while (std::getline(information, line))
      if (line.starts_with("Model:")) models.emplace(trimmed(std::string_view(line).substr(6)));
  }
  for (const std::string& model : models) text += (text.empty() ? "" : ", ") + model;
  return text;
}

Facts facts_of_this_rank(const Request& request, const std::string& host, const std::string& mark) {
  Facts f;
  copy_text(host, f.host);
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0)
    for (std::size_t c = 0; c < f.cores.size() * 64; ++c)
      if (CPU_ISSET(c, &mine)) f.cores[c / 64] |= std::uint64_t{1} << (c % 64);
  std::string congestion;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> congestion;
  copy_text(congestion, f.congestion);
  f.memory = available_memory().value_or(0);
  f.shared_memory = free_shared_memory();
  f.program = content_hash(launch::own_path(), std::size_t{1} << 28);
  std::error_code ignored;
  f.driver = fs::exists("/proc/driver/nvidia/version", ignored) || fs::exists("/dev/nvidia0", ignored);
  if (!cuda_library_path().empty()) {
    const CudaDevices devices = cuda_devices();
    f.gpus = devices.count;
    copy_text(devices.problem, f.no_gpu);
  } else {
    copy_text(why_no_cuda_library(), f.no_gpu);
  }
  copy_text(driver_text(), f.driver_text);
  f.directory = fs::current_path(ignored) == fs::path(request.directory);
  f.sees_output = !mark.empty() && fs::exists(mark, ignored);
  f.single_copy = launch::may_read_neighbours();
  return f;
}

std::string range_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t n = i;
    while (n + 1 < numbers.size() && numbers[n + 1] == numbers[n] + 1) ++n;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (n > i) text += fmt::format("-{}", numbers[n]);
    i = n + 1;
  }
  return text;
}

std::size_t count_cores(const CoreSet& set) {
  std::size_t count = 0;
  for (const std::uint64_t word : set) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

std::vector<int> numbers_of(const CoreSet& set) {
  std::vector<int> cores;
  for (std::size_t c = 0; c < set.size() * 64; ++c)
    if (set[c / 64] >> (c % 64) & 1) cores.push_back(static_cast<int>(c));
  return cores;
}

// The ranks of one host, the first of which speaks for it.
struct HostRanks {
  std::string name;
  std::vector<int> ranks;
  const Facts* facts;
};

class Comparison {
 public:
  Comparison(const Request& request, const std::vector<Facts>& all) : request_(request), all_(all) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      const std::string name = all[r].host.data();
      const auto known = std::ranges::find_if(hosts_, [&](const HostRanks& h) { return h.name == name; });
      if (known == hosts_.end())
        hosts_.push_back({name, {static_cast<int>(r)}, &all[r]});
      else
        known->ranks.push_back(static_cast<int>(r));
    }
  }

  void run(bool made_mark) {
    for (const HostRanks& h : hosts_) look_at(h);
    program();
    folders(made_mark);
    if (hosts_.size() > 1) congestion();
  }
  const std::vector<HostRanks>& hosts() const { return hosts_; }
  Findings findings;

 private:
  void add(Level level, std::string subject, std::string text, std::string fix = {}) {
    findings.push_back({level, std::move(subject), std::move(text), std::move(fix)});
  }

  void look_at(const HostRanks& h) {
    CoreSet used{};
    std::size_t most = 0, sum = 0;
    for (const int r : h.ranks) {
      const Facts& f = all_[static_cast<std::size_t>(r)];
      const std::size_t count = count_cores(f.cores);
      most = std::max(most, count), sum += count;
      for (std::size_t i = 0; i < used.size(); ++i) used[i] |= f.cores[i];
    }
    const std::vector<int> cores = numbers_of(used);
    const std::string who = fmt::format("rank{} {} on {}", h.ranks.size() == 1 ? "" : "s", range_text(h.ranks), h.name);
    if (cores.size() < h.ranks.size())
      add(Level::warning, "binding",
          fmt::format("{}: {} ranks on {} core{}", who, h.ranks.size(), cores.size(), cores.size() == 1 ? "" : "s"),
          fmt::format("at most {} rank{} there, or more cores", cores.size(), cores.size() == 1 ? "" : "s"));
    else if (sum > cores.size())
      add(Level::ok, "binding", fmt::format("{}: not bound, they share cores {}", who, range_text(cores)));
    else
      add(Level::ok, "binding",
          fmt::format("{}: {} core{} each, {}", who, most, most == 1 ? "" : "s", range_text(cores)));
    const Facts& f = *h.facts;
    if (f.shared_memory < kSharedMemoryPerRank * h.ranks.size() && h.name != hosts_[0].name)
      add(Level::warning, "shared memory",
          fmt::format("{} free in /dev/shm of {}", bytes_text(static_cast<double>(f.shared_memory)), h.name),
          "docker run --shm-size=1g there, or --mca btl_vader_backing_directory /tmp");
    if (f.memory > 0 && f.memory < 1'000'000'000)
      add(Level::warning, "memory", fmt::format("{} left on {}", bytes_text(static_cast<double>(f.memory)), h.name),
          "end other programs there");
    const std::string driver = f.driver_text.data();
    if (f.gpus > 0)
      add(Level::ok, "GPU",
          fmt::format("{}: {} GPU{}{}", h.name, f.gpus, f.gpus == 1 ? "" : "s", driver.empty() ? "" : ", " + driver));
    else if (f.driver)
      add(Level::warning, "GPU",
          fmt::format("{} has {}, but no GPU is usable: {}", h.name, driver.empty() ? "a driver" : driver,
                      f.no_gpu.data()),
          "docs/cuda.md: build with -Dcuda=enabled, and see that nvidia-smi works there");
    else
      add(Level::ok, "GPU", fmt::format("{}: none ({}); runs are on the CPU", h.name, f.no_gpu.data()));
  }

  template <class Is>
  std::string hosts_where(const Is& is) const {
    std::string names;
    for (const HostRanks& h : hosts_)
      if (is(*h.facts)) names += (names.empty() ? "" : ", ") + h.name;
    return names;
  }
  // Hosts whose value differs from that of the first host.
  template <class Value>
  std::string others(const Value& value) const {
    return hosts_where([&](const Facts& f) { return value(f) != value(*hosts_[0].facts); });
  }

  void program() {
    const std::string differ = others([](const Facts& f) { return f.program; });
    if (differ.empty())
      add(Level::ok, "program", fmt::format("the same on {} host{}", hosts_.size(), hosts_.size() == 1 ? "" : "s"));
    else
      add(Level::failure, "program",
          fmt::format("{} on {} is not that of {}", launch::own_path(), differ, hosts_[0].name),
          "copy it there, or keep it on a shared file system");
  }

  // Figures are in docs/notes/tcp.md.
  void congestion() {
    const auto control = [](const Facts& f) { return std::string(f.congestion.data()); };
    const std::string bbr = hosts_where([&](const Facts& f) { return control(f).starts_with("bbr"); });
    if (!bbr.empty())
      return add(Level::warning, "TCP",
                 fmt::format("congestion control is bbr on {}: over TCP, slow links that are full in both directions "
                             "pass up to a quarter less",
                             bbr),
                 "sysctl -w net.ipv4.tcp_congestion_control=cubic there");
    const std::string first = control(*hosts_[0].facts), different = others(control);
    add(Level::ok, "TCP",
        fmt::format("congestion control is {}{}", first.empty() ? "unknown" : first,
                    different.empty() ? "" : "; another on " + different));
  }

  void folders(bool made_mark) {
    const std::string away = hosts_where([](const Facts& f) { return !f.directory; });
    const std::string blind = hosts_where([](const Facts& f) { return !f.sees_output; });
    if (!away.empty())
      add(Level::failure, "directory",
          fmt::format("'{}' is not the working directory of ranks on {}", request_.directory, away),
          "make the folder there, or start in one that all hosts have");
    if (made_mark && !blind.empty())
      add(Level::warning, "output folder",
          fmt::format("'{}' of {} is not seen on {}: a run whose first rank is there does not find its checkpoints",
                      request_.output, hosts_[0].name, blind),
          "use a shared file system, or always the same first host");
  }

  const Request& request_;
  const std::vector<Facts>& all_;
  std::vector<HostRanks> hosts_;
};

const char* name_of_file_system(long type) {
  switch (static_cast<unsigned long>(type)) {
    case 0x6969:
      return "NFS";
    case 0x01021994:
      return "tmpfs";
    case 0x794c7630:
      return "overlay";
    case 0xef53:
      return "ext";
    case 0x58465342:
      return "XFS";
    case 0x9123683e:
      return "Btrfs";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x65735546:
      return "FUSE";
    case 0xff534d42:
      return "CIFS";
    default:
      return "";
  }
}

// Writes a file into the folder, which the other hosts then look for. Empty if that fails.
std::string leave_mark(const Request& request, Findings& findings) {
  std::error_code failed;
  fs::path folder = request.output;
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  const std::string mark = (folder / fmt::format(".tutti-doctor-{}", getpid())).string();
  const auto start = Clock::now();
  std::FILE* const file = std::fopen(mark.c_str(), "w");
  const std::vector<char> zeros(1 << 22);
  const bool written = file && std::fwrite(zeros.data(), 1, zeros.size(), file) == zeros.size() &&
                       std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const double seconds = seconds_since(start);
  if (file) std::fclose(file);
  struct statfs about {};
  statfs(folder.c_str(), &about);
  const std::string kind = name_of_file_system(about.f_type);
  const double free = static_cast<double>(about.f_bavail) * static_cast<double>(about.f_bsize);
  const std::string text =
      fmt::format("{}{}, {} free, writes {}/s", folder.string(), kind.empty() ? "" : " (" + kind + ")",
                  bytes_text(free), bytes_text(static_cast<double>(zeros.size()) / std::max(seconds, 1e-9)));
  if (!written) {
    findings.push_back({Level::failure, "output folder",
                        fmt::format("'{}' cannot be written: {}", folder.string(), std::strerror(errno)),
                        "choose another modelPath, or free some space there"});
    std::remove(mark.c_str());
    return {};
  }
  if (kind == "tmpfs" || kind == "overlay")
    findings.push_back({Level::warning, "output folder",
                        text + ": models are lost with " + (kind == "tmpfs" ? "the next restart" : "the container"),
                        "a folder on a disk, or a volume (docker run -v)"});
  else if (free < 1e9)
    findings.push_back({Level::warning, "output folder", text,
                        "free some space: every checkpoint takes a few times the size of the weights"});
  else
    findings.push_back({Level::ok, "output folder", text});
  return mark;
}

// Collective: the first rank of each host looks at the data.
std::vector<Fingerprint> gather_fingerprints(Communicator& world, const Request& request) {
  const std::vector<std::string> hosts = hosts_of(world);
  const auto first = std::ranges::find(hosts, world.host()) - hosts.begin();
  std::vector<Fingerprint> mine(request.data.size());
  for (std::size_t i = 0; first == world.rank() && i < mine.size(); ++i) mine[i] = fingerprint(request.data[i]);
  std::vector<Fingerprint> all(mine.size() * static_cast<std::size_t>(world.size()));
  if (!mine.empty()) world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace

int run_rank(int argc, char** argv) {
  MpiSession mpi(&argc, &argv);
  Communicator& world = mpi.world();
  try {
    const Request request = from_words({argv + std::min(argc, 2), argv + argc});
    Findings findings;
    std::array<char, 4096> mark{};
    if (world.rank() == 0) copy_text(leave_mark(request, findings), mark);
    world.broadcast(0, std::as_writable_bytes(std::span(mark)));
    const Facts mine = facts_of_this_rank(request, world.host(), mark.data());
    std::vector<Facts> all(static_cast<std::size_t>(world.size()));
    world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (world.rank() == 0 && mark[0]) std::remove(mark.data());
    Comparison comparison(request, all);
    comparison.run(mark[0] != 0);
    findings.insert(findings.end(), comparison.findings.begin(), comparison.findings.end());
    const std::vector<Fingerprint> fingerprints = gather_fingerprints(world, request);
    std::vector<LinkEnd> ends;
    std::vector<HostData> data;
    for (const HostRanks& h : comparison.hosts()) {
      ends.push_back({h.name, h.ranks[0]});
      const std::size_t count = request.data.size();
      data.push_back({h.name, std::span(fingerprints).subspan(static_cast<std::size_t>(h.ranks[0]) * count, count)});
    }
    const Findings of_data = compare_data(request.data, data);
    findings.insert(findings.end(), of_data.begin(), of_data.end());
    // On one host, between two of its ranks.
    if (ends.size() == 1 && world.size() > 1) ends.push_back({ends[0].host, comparison.hosts()[0].ranks[1]});
    look_at_clocks(world, ends, findings);
    look_at_links(world, ends, findings);
    if (world.rank() == 0) {
      for (const Finding& f : findings) std::fputs(to_record(f).c_str(), stdout);
      std::fflush(stdout);
    }
    mpi.end(0);
    return 0;
  } catch (const std::exception& e) {
    mpi.fail(e.what());
  }
}

}  // namespace tutti::doctor
