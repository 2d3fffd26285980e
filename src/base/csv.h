// SPDX-License-Identifier: Apache-2.0
// csv.h -- fields of comma-separated values.
#pragma once

#include <string>

namespace tutti {

// In quotes where the text needs them (RFC 4180).
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace tutti
