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

}  // namespace tutti
