// SPDX-License-Identifier: Apache-2.0
#include "launch/table_run.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/host.h"
#include "launch/process.h"
#include "tutti/error.h"

namespace tutti::launch {
namespace {

// Leaves no file behind.
void refuse_unwritable(const std::string& path) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  const std::ofstream out(path, std::ios::app);
  if (!out)
    throw Error(fmt::format("launch: '{}' cannot be written: {}\nfix: --json with a file in a folder that exists", path,
                            std::strerror(errno)));
  if (!existed) std::filesystem::remove(path, ignored);
}

}  // namespace

int run_for_table(const MpiexecLine& line, std::string_view event, const std::string& json) {
  constexpr std::size_t kLinesKept = 40;
  if (!json.empty()) refuse_unwritable(json);
  const std::string row = fmt::format("{{\"event\":\"{}\"", event);
  Process process(line.words, Process::Output::lines, line.variables);
  std::deque<std::string> said;
  std::string table;
  const auto pass_on = [&](bool error, const std::string& text) {
    if (text.starts_with(row)) return static_cast<void>(table += text);
    if (!error) return static_cast<void>((std::fputs(text.c_str(), stdout), std::fflush(stdout)));
    said.push_back(text);
    if (said.size() > kLinesKept) said.pop_front();
  };
  while (process.running()) process.read(100, pass_on);
  process.read(0, pass_on);
  const int code = process.exit_code();
  if (code != 0)
    for (const std::string& text : said) std::fputs(text.c_str(), stderr);
  else if (!json.empty())
    write_file(json, [&](std::ostream& out) { out << table; });
  return code;
}

}  // namespace tutti::launch
