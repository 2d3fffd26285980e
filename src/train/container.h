// SPDX-License-Identifier: Apache-2.0
// container.h -- the file format of models and checkpoints: named, typed entries, and a checksum over all bytes
// (docs/checkpoints.md describes the layout). A file appears under its name only when it is complete and on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/file.h"
#include "tutti/archive.h"
#include "tutti/shape.h"

namespace tutti {

constexpr std::uint32_t container_version = 1;
// The kind of a container by its first bytes, unverified; "" for other files. Throws Error if there is no such file.
std::string container_kind(const std::string& path);

enum class EntryType : std::uint32_t { boolean = 1, integer = 2, number = 3, text = 4, floats = 5 };

struct Entry {
  EntryType type = EntryType::integer;
  std::vector<std::uint64_t> dims;  // of floats
  std::uint64_t offset = 0, bytes = 0;
};

template <class T>
std::span<std::byte> writable_bytes(T& v) {
  return std::as_writable_bytes(std::span<T, 1>(&v, 1));
}

// Writes `path`.tmp. Entries are streamed; only their table stays in memory. Only the constructor and finish()
// report errors of the disk, so rank 0 can receive all entries of the other ranks even when the disk is full. With
// Storage::memory entries are copied, and finish() writes the file: it may be called by another thread, and again after
// it has thrown.
class ContainerWriter {
 public:
  enum class Storage { file, memory };
  ContainerWriter(std::string path, std::string_view kind, Storage = Storage::file);
  ~ContainerWriter();  // removes the temporary file unless it was committed
  ContainerWriter(const ContainerWriter&) = delete;

  void add(std::string_view name, bool);
  void add(std::string_view name, std::int64_t);
  void add(std::string_view name, std::string_view text);
  void add(std::string_view name, const Shape&, std::span<const float>);
  void add(std::string_view name, EntryType, std::vector<std::uint64_t> dims, std::span<const std::byte>);
  // An entry written in portions: begin(), then write() until `bytes` bytes have been written.
  void begin(std::string_view name, EntryType, std::vector<std::uint64_t> dims, std::uint64_t bytes);
  void write(std::span<const std::byte>);

  // Replaces the value of an integer entry. With Storage::memory.
  void set(std::string_view name, std::int64_t);
  std::uint64_t size() const;  // bytes so far

  // Completes the temporary file and waits until it is on disk. Returns its checksum.
  std::uint64_t finish();
  // Renames the finished file and waits until the directory is on disk.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Opens a file and verifies all of it. Any damage throws an Error with the file and the reason.
class ContainerReader {
 public:
  ContainerReader(std::string path, std::string_view kind);

  const std::string& path() const { return path_; }
  std::uint64_t checksum() const { return checksum_; }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  bool has(std::string_view name) const { return entries().contains(name); }
  // Returns the entry of that name and type; throws Error if there is none.
  const Entry& find(std::string_view name, EntryType) const;
  void read(const Entry&, std::uint64_t from, std::span<std::byte>) const;
  void read(std::string_view name, EntryType, std::span<std::byte>) const;  // throws Error if the sizes differ

  std::int64_t integer(std::string_view name) const;
  std::string text(std::string_view name) const;
  void floats(std::string_view name, std::span<float>) const;  // throws Error if the sizes differ

 private:
  template <class T>
  T get(std::uint64_t from) const;
  [[noreturn]] void damaged(const std::string& how) const;
  void check_sum() const;
  void read_table(std::uint64_t table, std::uint64_t rows);

  const std::string path_;
  const File file_;
  const std::uint64_t size_;
  std::uint64_t checksum_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

// An archive of typed bytes.
class ByteArchive : public Archive {
 public:
  void operator()(std::string_view name, bool& v) final;
  void operator()(std::string_view name, std::int64_t& v) final;
  void operator()(std::string_view name, double& v) final;
  void operator()(std::string_view name, std::string& v) final;
  void operator()(std::string_view name, std::span<float> v) final;
  // Saves the bytes or overwrites them.
  virtual void entry(std::string_view name, EntryType, std::span<std::byte>) = 0;
  virtual std::size_t text_size(std::string_view name, const std::string& now) = 0;
};

class SavingByteArchive : public ByteArchive {
 public:
  bool loading() const final { return false; }
  bool has(std::string_view) const final { return true; }
  std::size_t text_size(std::string_view, const std::string& now) final { return now.size(); }
};

// Archives over a container. Every entry name gets the prefix.
class SavingArchive final : public SavingByteArchive {
 public:
  SavingArchive(ContainerWriter& w, std::string prefix) : writer_(w), prefix_(std::move(prefix)) {}
  void entry(std::string_view name, EntryType, std::span<std::byte>) override;

 private:
  ContainerWriter& writer_;
  std::string prefix_;
};

class LoadingArchive final : public ByteArchive {
 public:
  LoadingArchive(const ContainerReader& r, std::string prefix) : reader_(r), prefix_(std::move(prefix)) {}
  bool loading() const override { return true; }
  bool has(std::string_view name) const override { return reader_.has(prefix_ + std::string(name)); }
  void entry(std::string_view name, EntryType type, std::span<std::byte> to) override {
    reader_.read(full(name), type, to);
  }
  std::size_t text_size(std::string_view name, const std::string&) override {
    return reader_.find(full(name), EntryType::text).bytes;
  }
  // Throws Error if the file has entries under the prefix that were not read.
  void finish() const;

 private:
  std::string full(std::string_view name) { return *used_.insert(prefix_ + std::string(name)).first; }
  const ContainerReader& reader_;
  std::string prefix_;
  std::set<std::string> used_;
};

}  // namespace tutti
