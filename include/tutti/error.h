// SPDX-License-Identifier: Apache-2.0
// error.h -- the three kinds of failure and how they are shown.
//   ConfigError  a mistake in a file or on the command line: place, offending line with a caret, fix
//   Error        a failure outside the program (files, MPI, memory): says what was being done
//   assert       our own bug; never reachable from input
// Any function may throw; the only catch is in main, inside the MPI session.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// A text that settings were read from. `name` is what the user knows it by: a path, "<command line>", or
// "<library>". A text made by $variable$ substitution keeps `origin`: the place whose value was substituted.
struct SourcePos;
struct Source {
  std::string name;
  std::string text;
  std::shared_ptr<const SourcePos> origin;
  std::size_t first_line = 1;  // for an excerpt of a file too large to load: the number of its first line
};

// A range of a source: [offset, offset + length) in bytes. Without a source, the place is unknown.
struct SourcePos {
  std::shared_ptr<const Source> source;
  std::size_t offset = 0;
  std::size_t length = 0;
};

struct Diagnostic {
  SourcePos where;
  std::string message;  // "BlockMomentumSGD has no 'blockMomentumAsTimeConst'"
  std::string fix;      // "did you mean 'blockMomentumAsTimeConstant'?"; may be empty
};

// "file:line:column: error: message", the line, the caret, and "fix: ..."; lines and columns count from 1.
std::string render(const Diagnostic&, std::string_view kind = "error");

// One or several diagnostics thrown together.
class ConfigError : public std::exception {
 public:
  ConfigError(SourcePos where, std::string message, std::string fix = {});
  explicit ConfigError(std::vector<Diagnostic>);
  const char* what() const noexcept override { return rendered_.c_str(); }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
  std::string rendered_;
};

// Collects mistakes so that several are reported together.
class Problems {
 public:
  void add(Diagnostic d) { found_.push_back(std::move(d)); }
  void add(const ConfigError& e) { found_.insert(found_.end(), e.diagnostics().begin(), e.diagnostics().end()); }
  bool empty() const { return found_.empty(); }
  std::size_t count() const { return found_.size(); }
  void throw_if_any() const {
    if (!found_.empty()) throw ConfigError(found_);
  }

 private:
  std::vector<Diagnostic> found_;
};

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns the known name nearest to `name` (by case-insensitive edit distance), or "" if none is near enough.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
// The fix "did you mean 'x'?" with that name, or another fix.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known, std::string otherwise = {});

}  // namespace tutti
