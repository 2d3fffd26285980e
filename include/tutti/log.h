// SPDX-License-Identifier: Apache-2.0
// log.h -- writes everything the user reads. Lines go to stderr, or to the file that `stderr=` names. A progress line
// is overwritten in place on a terminal (base/terminal.h) and never written to a file.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::log {

void line(std::string_view text);  // one line, '\n' added; time-stamped if so configured
// A line of values with "; " or ", " between them, always one line for programs that read logs. On a terminal it is
// broken between values, at the terminal's width or at 120 columns.
void values(std::string_view text);
// A line that the user should see at the end of the run: also on stderr of rank 0 if the log is a file.
void summary(std::string_view text);
// "Warning: ..." and the like. A diagnostic with a place ("a.cntk:5:1: warning: ...") needs no title.
std::string titled(std::string_view title, std::string_view text);
void warning(std::string_view text);          // "Warning: ..." once per distinct text
// Warnings come before the log is open, for example of data that are read to be counted. From now on they are kept,
// until release_warnings() writes them to what is the log then.
void hold_warnings();
void release_warnings();
void warning_of_rank(std::string_view text);  // about this rank alone: shown even if the rank is quiet
// Replaces the last progress line; on the terminal of rank 0 only. Fields have two blanks between them; those at the
// end that do not fit into the terminal's width are left out. "" removes the line. Under a launcher it is drawn up to
// 0.25 s later, when the lines of the log have reached the terminal.
void progress(std::string_view text);
bool shows_progress();               // whether there is such a terminal
void result(std::string_view text);  // stdout

// Passes the values of the line just logged to this thread's observer, which writes them to the metrics file; does
// nothing without one. `event` has lower-case letters only.
using Values = std::initializer_list<std::pair<const char*, double>>;
void record(const char* event, Values);
void set_observer(std::function<void(const char* event, Values)>);

struct Settings {
  std::string path = {};  // empty = stderr
  bool timestamps = false;
  int rank = 0;
  bool quiet = false;   // drop lines and warnings, on ranks other than 0 that have no log file
  bool append = false;  // append to the file instead of truncating it
};
void open(const Settings&);  // throws Error when the file cannot be written
void close();
std::string path();  // of the file; "" = stderr

}  // namespace tutti::log
