// SPDX-License-Identifier: Apache-2.0
// Two entries: "NAME.index", a row "kind size name" per entry, and "NAME.values" with the bytes of all of them.
#include "parallel/state_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "tutti/error.h"

namespace tutti {
namespace {

std::size_t words_for(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

class Packing : public Archive {
 public:
  bool loading() const override { return false; }
  bool has(std::string_view) const override { return true; }
  void operator()(std::string_view n, bool& v) override {
    std::int64_t word = v;
    put('b', n, &word, sizeof word);
  }
  void operator()(std::string_view n, std::int64_t& v) override { put('i', n, &v, sizeof v); }
  void operator()(std::string_view n, double& v) override { put('d', n, &v, sizeof v); }
  void operator()(std::string_view n, std::string& v) override { put('t', n, v.data(), v.size()); }
  void operator()(std::string_view n, std::span<float> v) override { put('f', n, v.data(), v.size_bytes()); }

  std::string index;
  std::vector<float> values;

 private:
  void put(char kind, std::string_view name, const void* bytes, std::size_t size) {
    index += fmt::format("{} {} {}\n", kind, size, name);
    const std::size_t at = values.size();
    values.resize(at + words_for(size));
    const auto* from = static_cast<const std::byte*>(bytes);
    std::copy(from, from + size, reinterpret_cast<std::byte*>(values.data() + at));
  }
};

class Unpacking : public Archive {
 public:
  Unpacking(std::string what, const std::string& index, const std::vector<float>& values) : what_(std::move(what)) {
    std::istringstream rows(index);
    std::size_t at = 0;
    for (std::string row; std::getline(rows, row);) {
      char kind = 0;
      std::size_t size = 0;
      std::istringstream fields(row);
      std::string name;
      if (!(fields >> kind >> size) || fields.get() != ' ' || !std::getline(fields, name)) fail("is damaged");
      const std::size_t words = words_for(size);
      if (at + words > values.size()) fail("is too short");
      entries_[name] = {kind, size, values.data() + at};
      at += words;
    }
  }
  bool loading() const override { return true; }
  bool has(std::string_view n) const override { return entries_.contains(n); }
  void operator()(std::string_view n, bool& v) override {
    std::int64_t word = 0;
    get('b', n, &word, sizeof word);
    v = word != 0;
  }
  void operator()(std::string_view n, std::int64_t& v) override { get('i', n, &v, sizeof v); }
  void operator()(std::string_view n, double& v) override { get('d', n, &v, sizeof v); }
  void operator()(std::string_view n, std::string& v) override {
    const auto at = entries_.find(n);
    if (at == entries_.end()) fail(fmt::format("has no '{}'", n));
    v.resize(at->second.size);
    get('t', n, v.data(), at->second.size);
  }
  void operator()(std::string_view n, std::span<float> v) override { get('f', n, v.data(), v.size_bytes()); }

 private:
  struct Entry {
    char kind = 0;
    std::size_t size = 0;
    const float* words = nullptr;
  };
  [[noreturn]] void fail(const std::string& how) const {
    throw Error(fmt::format("the checkpoint's entry '{}' {}", what_, how));
  }
  void get(char kind, std::string_view name, void* to, std::size_t size) {
    const auto at = entries_.find(name);
    if (at == entries_.end()) fail(fmt::format("has no '{}'", name));
    if (at->second.kind != kind || at->second.size != size)
      fail(fmt::format("has '{}' in {} bytes where {} are expected", name, at->second.size, size));
    if (size > 0) std::memcpy(to, at->second.words, size);
  }

  std::string what_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace

void archive_packed(Archive& a, const std::string& name, bool understands, const std::function<void(Archive&)>& visit) {
  Packing packed;
  if (!a.loading() && understands) visit(packed);
  auto count = static_cast<std::int64_t>(packed.values.size());
  a(name + ".index", packed.index);
  a(name + ".words", count);
  packed.values.resize(static_cast<std::size_t>(count));
  a(name + ".values", std::span<float>(packed.values));
  if (!a.loading() || !understands) return;
  Unpacking entries(name, packed.index, packed.values);
  visit(entries);
}

}  // namespace tutti
