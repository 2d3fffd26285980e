// SPDX-License-Identifier: Apache-2.0
// Rank 0 makes the file, the others open it through the list of rank 0's open files in /proc. Shared memory with a name
// would stay behind when a run is killed, and in containers there is often little space for it; a window of MPI must be
// freed by all ranks together, which a rank that fails cannot wait for.
#include "comm/shared_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/agreement.h"

namespace tutti {
namespace {

// The part of each rank starts at a multiple of the huge page size.
constexpr std::size_t kUnit = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& o) noexcept : number_(std::exchange(o.number_, -1)) {}
  File& operator=(File&& o) noexcept {
    std::swap(number_, o.number_);
    return *this;
  }
  ~File() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// How the other ranks find the file and recognise it: rank 0 may be in another PID name space.
struct Door {
  std::int64_t process = 0, number = -1;
  std::uint64_t device = 0, node = 0;
};

bool identify(const File& file, Door& door) {
  struct stat about {};
  if (!file.open() || fstat(file.number(), &about) != 0) return false;
  door.device = about.st_dev, door.node = about.st_ino;
  return true;
}

File make_file(std::size_t bytes, Door& door) {
  File file(memfd_create("tutti", MFD_CLOEXEC));
  if (!identify(file, door) || ftruncate(file.number(), static_cast<off_t>(bytes)) != 0) return {};
  door.process = getpid(), door.number = file.number();
  return file;
}

File open_file(const Door& door) {
  if (door.number < 0) return {};
  File file(open(fmt::format("/proc/{}/fd/{}", door.process, door.number).c_str(), O_RDWR | O_CLOEXEC));
  Door seen;
  if (!identify(file, seen) || seen.device != door.device || seen.node != door.node) return {};
  return file;
}

class SharedPages : public SharedMemory {
 public:
  SharedPages(std::vector<std::size_t> sizes, std::function<void()> poll)
      : sizes_(std::move(sizes)), poll_(std::move(poll)) {
    for (const std::size_t size : sizes_) {
      begin_.push_back(total_);
      total_ += (size + kPage - 1) / kPage * kPage;
      if (size >= kUnit) total_ = (total_ + kUnit - 1) / kUnit * kUnit;
    }
  }
  ~SharedPages() override {
    if (at_) munmap(at_, total_);
  }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  std::size_t total() const { return total_; }
  // Maps all parts, and allocates the pages of this rank's part near its core. Later there would be no way to report
  // that there are none left.
  bool map(const File& file, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!file.open()) return false;
    void* p = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (p == MAP_FAILED) return false;
    at_ = static_cast<std::byte*>(p);
    madvise(at_, total_, MADV_HUGEPAGE);  // a wish
    return sizes_[r] == 0 ||
           posix_fallocate(file.number(), static_cast<off_t>(begin_[r]), static_cast<off_t>(sizes_[r])) == 0;
  }
  // Called when all ranks have their parts, so that no page fault happens in a training step.
  void touch() { madvise(at_, total_, MADV_POPULATE_WRITE); }  // a wish, too

  std::span<std::byte> of(int rank) const override {
    const auto r = static_cast<std::size_t>(rank);
    return {at_ + begin_[r], sizes_[r]};
  }
  void poll() override { poll_(); }

 private:
  std::vector<std::size_t> sizes_, begin_;  // by rank
  std::size_t total_ = 0;
  std::byte* at_ = nullptr;
  std::function<void()> poll_;
};

}  // namespace

std::unique_ptr<SharedMemory> share_pages(Communicator& comm, std::size_t bytes, std::function<void()> poll) {
  auto memory = std::make_unique<SharedPages>(from_all(comm, std::max<std::size_t>(bytes, 1)), std::move(poll));
  Door door;
  File file;
  if (comm.rank() == 0) file = make_file(memory->total(), door);
  comm.broadcast(0, std::as_writable_bytes(std::span(&door, 1)));
  if (comm.rank() > 0) file = open_file(door);
  const bool mapped = memory->map(file, comm.rank());
  if (!all_agree(comm, mapped)) return nullptr;  // rank 0 keeps the file open until all have opened it
  memory->touch();
  return memory;
}

}  // namespace tutti
