// SPDX-License-Identifier: Apache-2.0
// file.h -- the POSIX file calls needed for crash-safe files. Failures throw an Error with the path and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti {

class File {
 public:
  static File create(const std::string& path);  // truncates what is there
  static File open(const std::string& path);    // for reading
  File(File&& o) noexcept : path_(std::move(o.path_)), fd_(o.fd_) { o.fd_ = -1; }
  ~File();

  void write(std::span<const std::byte>);
  void read(std::uint64_t from, std::span<std::byte>) const;  // all of it, or Error
  std::uint64_t size() const;
  // Starts writing to disk what was written since the last call, then waits for the range of the call before. Keeps a
  // long write at the speed of the disk, so that the final sync() is short.
  void start_sync();
  void sync();
  void close();

 private:
  File(std::string path, int flags, const char* doing);
  std::string path_;
  int fd_;
  std::uint64_t written_ = 0, started_ = 0, waited_ = 0;  // bytes
};

bool file_exists(const std::string& path);          // a regular one
std::string directory_of(const std::string& path);  // "." when there is none
void rename_durably(const std::string& from, const std::string& to);
void copy_durably(const std::string& from, const std::string& to);  // through "to.tmp", which is then renamed
// Throws an Error if the file system of this file has less space. One that does not say is believed.
void require_space(const std::string& path, std::uint64_t bytes);
void create_directories(const std::string& path);

}  // namespace tutti
