// SPDX-License-Identifier: Apache-2.0
#include "doctor/finding.h"

#include <fmt/format.h>

#include <array>
#include <sstream>

namespace tutti::doctor {
namespace {

constexpr const char* kMark =
    "\x1e"
    "doctor";
constexpr std::array kLevels{"ok", "warning", "failure"};

std::string on_one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t' || c == '\x1e') c = ' ';
  return text;
}

}  // namespace

std::string to_string(const Finding& f) {
  return fmt::format("{:<8} {:<14} {}{}", kLevels[static_cast<std::size_t>(f.level)], f.subject, f.text,
                     f.fix.empty() ? "" : "; fix: " + f.fix);
}

std::string to_record(const Finding& f) {
  return fmt::format("{}\t{}\t{}\t{}\t{}\n", kMark, static_cast<int>(f.level), on_one_line(f.subject),
                     on_one_line(f.text), on_one_line(f.fix));
}

bool from_record(const std::string& line, Finding& f) {
  std::istringstream in(line);
  std::string mark, level;
  if (!std::getline(in, mark, '\t') || mark != kMark || !std::getline(in, level, '\t') || level.size() != 1)
    return false;
  f = {static_cast<Level>(level[0] - '0'), {}, {}, {}};
  std::getline(in, f.subject, '\t'), std::getline(in, f.text, '\t'), std::getline(in, f.fix);
  return true;
}

}  // namespace tutti::doctor
