// SPDX-License-Identifier: Apache-2.0
// Mapping of data files with mmap.
#include "reader/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

// What is mapped, for the handler. A range without a path is free.
struct MappedRange {
  std::atomic<const char*> path = nullptr;
  const char* data = nullptr;
  std::size_t size = 0;
};
std::array<MappedRange, 64> mapped_ranges;  // files beyond these end without a message
std::mutex mapped_mutex;
struct sigaction earlier_action;

// Only what may be called in a handler.
void on_bus_error(int number, siginfo_t* info, void*) {
  const bool sent = info->si_code <= 0;  // by a process
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const auto say = [](const char* text) {
    [[maybe_unused]] const auto n = write(STDERR_FILENO, text, std::strlen(text));
  };
  for (const MappedRange& r : mapped_ranges) {
    const char* const path = r.path;
    const auto begin = reinterpret_cast<std::uintptr_t>(r.data);
    if (sent || !path || at < begin || at - begin >= r.size) continue;
    say("error: reading the data file '");
    say(path);
    say("': it became shorter while it was read, or its disk failed; start the run again to read the new contents\n");
    _exit(1);
  }
  sigaction(number, &earlier_action, nullptr);
  if (sent) raise(number);
}  // and otherwise the instruction runs once more

void remember_range(const std::string& path, const char* data, std::size_t size) {
  const std::lock_guard lock(mapped_mutex);
  static bool installed = false;
  if (!std::exchange(installed, true)) {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &earlier_action);
  }
  for (MappedRange& r : mapped_ranges)
    if (!r.path) {
      r.data = data;
      r.size = size;
      r.path = path.c_str();
      return;
    }
}

void forget_range(const char* data) {
  const std::lock_guard lock(mapped_mutex);
  for (MappedRange& r : mapped_ranges)
    if (r.path && r.data == data) r.path = nullptr;
}

}  // namespace

Descriptor::Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string unreadable(const std::string& path) {
  const Descriptor fd(path);
  if (fd.get() < 0) return std::strerror(errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return std::strerror(errno);
  if (S_ISDIR(info.st_mode)) return "it is a directory";
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  return {};
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  if (const std::string why = unreadable(path_); !why.empty())
    throw Error(fmt::format("opening the data file '{}': {}", path_, why));
  const Descriptor fd(path_);
  struct stat info {};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0)
    throw Error(fmt::format("opening the data file '{}': {}", path_, std::strerror(errno)));
  size_ = static_cast<std::size_t>(info.st_size);
  stamp_ = {size_, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  if (size_ == 0) return;  // an empty mapping is an error to mmap
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) throw Error(fmt::format("mapping the data file '{}': {}", path_, std::strerror(errno)));
  data_ = static_cast<const char*>(at);
  remember_range(path_, data_, size_);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_range(data_);
  ::munmap(const_cast<char*>(data_), size_);
}

void MappedFile::check_unchanged() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0)
    throw Error(fmt::format("reading the data file '{}': {}", path_, std::strerror(errno)));
  if (Stamp{static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec} != stamp_)
    throw Error(fmt::format(
        "reading the data file '{}': it was changed while in use; start the run again to read the new contents",
        path_));
}

void MappedFile::release(const char* from, const char* to) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (static_cast<std::size_t>(from - data_) + page - 1) / page * page;
  const std::size_t end = static_cast<std::size_t>(to - data_) / page * page;
  if (begin < end) ::madvise(const_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::expect(Access access) const {
  if (!data_) return;
  const int advice = access == Access::in_order ? MADV_SEQUENTIAL
                     : access == Access::random ? MADV_RANDOM
                                                : MADV_NORMAL;
  ::madvise(const_cast<char*>(data_), size_, advice);
}

}  // namespace tutti::reader
