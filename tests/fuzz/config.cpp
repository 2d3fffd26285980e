// SPDX-License-Identifier: Apache-2.0
// A config file, and behind a zero byte each a word of the command line: overrides, nested blocks, variables.
#include "fuzz.h"

#include <vector>

#include "config/command_line.h"
#include "config/top_level.h"
#include "train/sgd_options.h"

namespace {

void visit(const tutti::config::Record& record, int depth) {
  using namespace tutti;
  for (const std::string& key : record.keys()) {
    fuzz::expect_no_crash([&] { record.value(key); });
    fuzz::expect_no_crash([&] { record.strings(key); });
    fuzz::expect_no_crash([&] { record.number(key, 0); });
    fuzz::expect_no_crash([&] {
      if (depth < 5 && record.is_block(key)) visit(record.block(key), depth + 1);
    });
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string_view all = fuzz::view(data, size);
  for (const std::string_view word : {"currentDirectory", "currentdirectory", "include"})  // other files
    if (all.find(word) != all.npos) return 0;
  const std::string file = fuzz::write("run.cntk", all.substr(0, all.find('\0')));
  std::vector<std::string> words{"trainer", "configFile=" + file};
  for (auto at = all.find('\0'); at != all.npos;) {
    const auto end = all.find('\0', at + 1);
    words.emplace_back(all.substr(at + 1, end == all.npos ? end : end - at - 1));
    at = end;
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  fuzz::expect_no_crash([&] {
    const auto line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
    Problems problems;
    config::Notices notices;
    config::read_top_level(line.config, 2, problems, notices);
    visit(line.config, 0);
    fuzz::expect_no_crash([&] { config::dump_config(line.config); });
    fuzz::expect_no_crash([&] { read_sgd_options(line.config, problems, notices); });
  });
  return 0;
}
