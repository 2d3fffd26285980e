// SPDX-License-Identifier: Apache-2.0
// log.h -- writes everything the user reads. Lines go to stderr, or to the file that `stderr=` names. A progress line
// is overwritten in place on a terminal and never written to a file.
#pragma once

#include <string>
#include <string_view>

namespace tutti::log {

void line(std::string_view text);  // one line, '\n' added; time-stamped if so configured
// "Warning: ..." and the like. A diagnostic with a place ("a.cntk:5:1: warning: ...") needs no title.
std::string titled(std::string_view title, std::string_view text);
void warning(std::string_view text);          // "Warning: ..." once per distinct text
void warning_of_rank(std::string_view text);  // about this rank alone: shown even if the rank is quiet
void progress(std::string_view text);         // replaces the last progress line; on terminals only
void result(std::string_view text);           // stdout

struct Settings {
  std::string path = {};  // empty = stderr
  bool timestamps = false;
  int rank = 0;
  bool quiet = false;   // drop lines and warnings, on ranks other than 0 that have no log file
  bool append = false;  // append to the file instead of truncating it
};
void open(const Settings&);  // throws Error when the file cannot be written
void close();

}  // namespace tutti::log
