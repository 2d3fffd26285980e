// SPDX-License-Identifier: Apache-2.0
// options.h -- the words of "trainer launch".
#pragma once

#include <string>
#include <vector>

namespace tutti::launch {

struct Host {
  std::string name;
  int slots = 1;
};

struct Options {
  static constexpr int unlimited = 1'000'000'000;

  bool help = false;
  int ranks = 0;            // 0 = a rank per slot
  std::vector<Host> hosts;  // empty = this one, or those of the Slurm allocation
  int restarts = 0;
  int min_ranks = 0;                       // 0 = all
  std::string mpiexec = "mpiexec", agent;  // agent: the remote shell, "" = ssh
  std::string answer;                      // of a probe: where to connect to
  std::vector<std::string> arguments;      // of the trainer
};

// Throws Error with what is wrong and a fix. `words`: without "launch".
Options parse(const std::vector<std::string>& words, bool flags_of_trainer = false);
// The same where the trainer may have no words.
Options parse_words(const std::vector<std::string>& words, bool flags_of_trainer = false);
// The message of an Error for another command that takes the words of "trainer launch".
std::string in_words_of(const std::string& command, std::string message);
std::string usage();
// The ranks of a run that names neither ranks nor hosts: one per task of the Slurm allocation, else `otherwise`.
int default_ranks(int otherwise);
// Throws Error if --min-ranks is more than the number of ranks.
void check_min_ranks(const Options&);
// Throws Error for words that only make sense where runs are started again.
void refuse_restarts(const Options&);
// "a:4,b:4", or the lines "a slots=4" of a hostfile.
std::vector<Host> parse_hosts(const std::string& text);
std::vector<Host> read_hostfile(const std::string& path);
std::string to_string(const std::vector<Host>&);

}  // namespace tutti::launch
