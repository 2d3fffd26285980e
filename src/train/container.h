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

#include "tutti/archive.h"
#include "tutti/shape.h"

namespace tutti {

enum class EntryType : std::uint32_t { boolean = 1, integer = 2, number = 3, text = 4, floats = 5 };

struct Entry {
  EntryType type = EntryType::integer;
  std::vector<std::uint64_t> dims;  // of floats
  std::uint64_t offset = 0, bytes = 0;
};

// Writes `path`.tmp. Entries are streamed; only their table stays in memory.
class ContainerWriter {
 public:
  ContainerWriter(std::string path, std::string_view kind);
  ~ContainerWriter();  // removes the temporary file unless it was committed
  ContainerWriter(const ContainerWriter&) = delete;

  void add(std::string_view name, bool);
  void add(std::string_view name, std::int64_t);
  void add(std::string_view name, double);
  void add(std::string_view name, std::string_view text);
  void add(std::string_view name, const Shape&, std::span<const float>);
  // An entry written in portions: begin(), then write() until `bytes` bytes have been written.
  void begin(std::string_view name, EntryType, std::vector<std::uint64_t> dims, std::uint64_t bytes);
  void write(std::span<const std::byte>);

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
  ~ContainerReader();
  ContainerReader(const ContainerReader&) = delete;

  const std::string& path() const;
  std::uint64_t checksum() const;
  const std::map<std::string, Entry, std::less<>>& entries() const;
  bool has(std::string_view name) const { return entries().contains(name); }
  // Returns the entry of that name and type; throws Error if there is none.
  const Entry& find(std::string_view name, EntryType) const;
  void read(const Entry&, std::uint64_t from, std::span<std::byte>) const;

  bool boolean(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;
  void floats(std::string_view name, std::span<float>) const;  // throws Error if the sizes differ

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Archives over a container. Every entry name gets the prefix.
class SavingArchive final : public Archive {
 public:
  SavingArchive(ContainerWriter& w, std::string prefix) : writer_(w), prefix_(std::move(prefix)) {}
  bool loading() const override { return false; }
  bool has(std::string_view) const override { return true; }
  void operator()(std::string_view name, bool& v) override { writer_.add(full(name), v); }
  void operator()(std::string_view name, std::int64_t& v) override { writer_.add(full(name), v); }
  void operator()(std::string_view name, double& v) override { writer_.add(full(name), v); }
  void operator()(std::string_view name, std::string& v) override { writer_.add(full(name), std::string_view(v)); }
  void operator()(std::string_view name, std::span<float> v) override { writer_.add(full(name), Shape{{v.size()}}, v); }

 private:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  ContainerWriter& writer_;
  std::string prefix_;
};

class LoadingArchive final : public Archive {
 public:
  LoadingArchive(const ContainerReader& r, std::string prefix) : reader_(r), prefix_(std::move(prefix)) {}
  bool loading() const override { return true; }
  bool has(std::string_view name) const override { return reader_.has(prefix_ + std::string(name)); }
  void operator()(std::string_view name, bool& v) override { v = reader_.boolean(full(name)); }
  void operator()(std::string_view name, std::int64_t& v) override { v = reader_.integer(full(name)); }
  void operator()(std::string_view name, double& v) override { v = reader_.number(full(name)); }
  void operator()(std::string_view name, std::string& v) override { v = reader_.text(full(name)); }
  void operator()(std::string_view name, std::span<float> v) override { reader_.floats(full(name), v); }
  // Throws Error if the file has entries under the prefix that were not read.
  void finish() const;

 private:
  std::string full(std::string_view name) { return *used_.insert(prefix_ + std::string(name)).first; }
  const ContainerReader& reader_;
  std::string prefix_;
  std::set<std::string> used_;
};

}  // namespace tutti
