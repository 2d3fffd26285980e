// SPDX-License-Identifier: Apache-2.0
// cause.h -- why an attempt ended, from its output and exit code.
#pragma once

#include <string>

namespace tutti::launch {

struct Cause {
  std::string text;     // "rank 1 on node2 was ended by signal 9"; "" = unknown so far
  std::string host;     // the one that failed; "" = unknown
  bool ending = false;  // the run has said that it ends: if it does not, nobody else will end it
  std::string begun = "";  // the first line of a message of mpiexec that has more
};

// Looks at a line of the output of mpiexec and its ranks.
void note_cause(const std::string& line, Cause&);

enum class Next {
  done,  // do not start again: finished, stopped on purpose, or every attempt would end alike
  start_again,
  give_up
};
struct Judgement {
  Next next = Next::start_again;
  std::string text;
};
// `attempts_alike`: how often in a row the run ended with this code soon after it began, this time included.
Judgement judge_exit(int code, bool stopping, int attempts_alike);

}  // namespace tutti::launch
