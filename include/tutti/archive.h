// SPDX-License-Identifier: Apache-2.0
// archive.h -- one visit function that both saves and loads state: void archive(Archive& a) { a("momentum", m_); }
// Names are part of the file format. A missing, surplus or wrongly sized entry throws an Error that names it.
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
  // Returns whether a loading archive has the entry; true when saving. Lets a reader skip state that older files lack.
  virtual bool has(std::string_view name) const = 0;
};

// How a rank's entry is mapped when a run resumes with another number of ranks. Entries without one of these prefixes
// come from rank (r modulo the old number of ranks).
//   own    belongs to this rank alone; a new rank finds no such entry (has() returns false)
//   owed   its sum over the ranks is kept: a rank that continues finds its own entry, a new rank finds none, and the
//   sum of the entries of missing ranks appears as `inherited` and must be added
//   owned  disjoint parts, zero elsewhere: every rank finds the sum and keeps its new part
//   same   belongs to this rank, and is found only if the number of ranks is the same
//   gone   a boolean of this rank: whether the named state is lost if the run resumes without the rank
inline std::string own_name(std::string_view name) { return "own/" + std::string(name); }
inline std::string sum_on_reshard_name(std::string_view name) { return "owed/" + std::string(name); }
inline std::string inherited_name(std::string_view name) { return "inherited/" + std::string(name); }
inline std::string owned_name(std::string_view name) { return "owned/" + std::string(name); }
inline std::string same_ranks_name(std::string_view name) { return "same/" + std::string(name); }
inline std::string gone_name(std::string_view what) { return "gone/" + std::string(what); }

}  // namespace tutti
