// SPDX-License-Identifier: Apache-2.0
// mapped_file.h -- a data file in the address space: pages come in as they are touched and cost no memory of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::reader {

// An open file; get() is negative, with the reason in errno, when it could not be opened.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// If a file becomes shorter while it is mapped, touching the pages that are gone ends the process with its name.
class MappedFile {
 public:
  explicit MappedFile(std::string path);  // throws Error
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {data_, size_}; }
  // Throws Error when the file on disk is no longer the one that was mapped.
  void check_unchanged() const;
  // The range [from, to) was read; its pages leave this process (the system may still hold them).
  void release(const char* from, const char* to) const;
  // How the file will be read, so that the system reads ahead where that helps and only there.
  enum class Access { in_order, random, unknown };
  void expect(Access) const;

 private:
  struct Stamp {
    std::uint64_t size = 0;
    std::int64_t seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::string path_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
  Stamp stamp_;
};

// "" when the file can be read, else why not: for checks before anything is started.
std::string unreadable(const std::string& path);

}  // namespace tutti::reader
