// SPDX-License-Identifier: Apache-2.0
#include "train/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/memory.h"
#include "base/write_root.h"
#include "tutti/error.h"

namespace tutti {

namespace {

[[noreturn]] void fail(const char* doing, const std::string& path) {
  throw Error(fmt::format("{} '{}': {}{}", doing, path, std::strerror(errno),
                          errno == EFBIG ? " (ulimit -f, or the file system)" : ""));
}

}  // namespace

File::File(std::string path, int flags, const char* doing)
    : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail(doing, path_);
}

File File::create(const std::string& path) {
  require_in_write_root(path);
  return {path, O_WRONLY | O_CREAT | O_TRUNC, "creating"};
}
File File::open(const std::string& path) { return {path, O_RDONLY, "opening"}; }

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("writing", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    written_ += static_cast<std::uint64_t>(n);
  }
}

void File::start_sync() {
  const auto range = [&](std::uint64_t from, std::uint64_t to, unsigned what) {
    if (from == to || ::sync_file_range(fd_, static_cast<off_t>(from), static_cast<off_t>(to - from), what) == 0)
      return;
    // Errors of the disk are told once, here or in sync(). Some file systems do not know the call.
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT) fail("writing to disk", path_);
  };
  range(std::exchange(waited_, started_), started_,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  range(std::exchange(started_, written_), written_, SYNC_FILE_RANGE_WRITE);
}

void File::read(std::uint64_t from, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n =
        ::pread(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30), static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("reading", path_);
    if (n == 0) throw Error(fmt::format("reading '{}': the file ends at byte {}", path_, from));
    from += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::uint64_t File::size() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) fail("examining", path_);
  if (!S_ISREG(s.st_mode)) throw Error(fmt::format("reading '{}': not a regular file", path_));
  return static_cast<std::uint64_t>(s.st_size);
}

void File::sync() {
  if (::fsync(fd_) != 0) fail("writing to disk", path_);
}

void File::close() {
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("closing", path_);
}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string directory_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

namespace {

// NFS may lose the reply to a rename. The client repeats the request, and the server answers ENOENT, because the file
// has its new name already. The file is opened to see it as the server has it.
bool was_renamed(const struct stat& before, const std::string& to) {
  struct stat now {};
  const int fd = ::open(to.c_str(), O_RDONLY | O_CLOEXEC);
  const bool known = fd >= 0 && ::fstat(fd, &now) == 0;
  if (fd >= 0) ::close(fd);
  return known && now.st_ino == before.st_ino && now.st_dev == before.st_dev;
}

}  // namespace

void rename_durably(const std::string& from, const std::string& to) {
  struct stat before {};
  const bool known = ::stat(from.c_str(), &before) == 0;
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int why = errno;
    if (!known || why != ENOENT || !was_renamed(before, to))
      throw Error(fmt::format("renaming '{}' to '{}': {}", from, to, std::strerror(why)));
  }
  const std::string directory = directory_of(to);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("opening the directory", directory);
  const int rc = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  // Some network file systems cannot sync a directory; renames are as durable as they make them.
  if (rc != 0 && why != EINVAL && why != ENOTSUP) {
    errno = why;
    fail("writing to disk the directory", directory);
  }
}

void copy_durably(const std::string& from, const std::string& to) {
  const std::string unfinished = to + ".tmp";
  require_in_write_root(unfinished);
  std::error_code error;
  std::filesystem::copy_file(from, unfinished, std::filesystem::copy_options::overwrite_existing, error);
  if (error) throw Error(fmt::format("copying '{}' to '{}': {}", from, unfinished, error.message()));
  File::open(unfinished).sync();
  rename_durably(unfinished, to);
}

void require_space(const std::string& path, std::uint64_t bytes) {
  struct statvfs s {};
  if (::statvfs(directory_of(path).c_str(), &s) != 0 || s.f_blocks == 0) return;
  const std::uint64_t free = std::uint64_t{s.f_bavail} * s.f_frsize;
  if (free < bytes)
    throw Error(fmt::format("writing '{}' needs {}, {} are free: {}", path, bytes_text(static_cast<double>(bytes)),
                            bytes_text(static_cast<double>(free)), std::strerror(ENOSPC)));
}

void create_directories(const std::string& path) {
  require_in_write_root(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(fmt::format("creating the directory '{}': {}", path, error.message()));
}

}  // namespace tutti
