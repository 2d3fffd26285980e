// SPDX-License-Identifier: Apache-2.0
// archive.h -- one visit function that both saves and loads state: void archive(Archive& a) { a("momentum", m_); }
// Names are part of the file: a missing, surplus or wrongly sized entry is an Error that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

class Archive {
 public:
  virtual ~Archive() = default;
  virtual bool loading() const = 0;
  virtual void operator()(std::string_view name, bool&) = 0;
  virtual void operator()(std::string_view name, std::int64_t&) = 0;
  virtual void operator()(std::string_view name, double&) = 0;
  virtual void operator()(std::string_view name, std::string&) = 0;
  virtual void operator()(std::string_view name, std::span<float>) = 0;  // fixed size on both sides
  // Whether a loading archive has the entry (always true when saving): state that older files lack may be skipped.
  virtual bool has(std::string_view name) const = 0;
};

// Names that say what becomes of a rank's entry when a run goes on with another number of ranks. Everything else comes
// from rank r modulo the old number.
//   own    this rank's alone: ranks that are new find no such entry (has() is false)
//   owed   its sum over the ranks is to be kept: ranks that go on find theirs, new ones none; what the ranks that are
//          gone have left is found as `inherited` by those that go on, and is to be added
//   owned  of parts that each belong to one rank, zero elsewhere: every rank finds the sum and keeps its new part
//   gone   a boolean of this rank alone: whether what the name says is lost should the run go on without the rank
inline std::string own_name(std::string_view name) { return "own/" + std::string(name); }
inline std::string sum_on_reshard_name(std::string_view name) { return "owed/" + std::string(name); }
inline std::string inherited_name(std::string_view name) { return "inherited/" + std::string(name); }
inline std::string owned_name(std::string_view name) { return "owned/" + std::string(name); }
inline std::string gone_name(std::string_view what) { return "gone/" + std::string(what); }

}  // namespace tutti
