// SPDX-License-Identifier: Apache-2.0
// Mapping of data files with mmap.
#include "reader/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tutti/error.h"

namespace tutti::reader {

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
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char*>(data_), size_);
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
