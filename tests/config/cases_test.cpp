// SPDX-License-Identifier: Apache-2.0
// Text pairs: cases/NAME.cntk is read as a config file, what is reported must equal cases/NAME.expected.
// Lines in the case: "# word: key=value" adds a word to the command line, "# read: Train.SGD" reads that block with the
// table below. TUTTI_UPDATE_EXPECTED=1 writes the expected files anew; look at the difference before keeping it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::config::cases_test {
namespace {

namespace fs = std::filesystem;

struct Exchange {
  Schedule<std::int64_t> bits{32};
  void describe(Fields& f) { f("gradientBits", bits, "bits per value"); }
};

struct Parallel {
  int method = 0;
  Exchange exchange;
  void describe(Fields& f) {
    f.choice("parallelizationMethod", method, {{"none", 0}, {"DataParallelSGD", 1}, {"BlockMomentumSGD", 2}}, "method");
    f.block("DataParallelSGD", exchange, "exchange of gradients");
  }
};

struct Stream {
  std::int64_t dim = 0;
  void describe(Fields& f) {
    f("dim", dim, "elements");
    f.required("dim");
  }
};

struct Training {
  std::int64_t max_epochs = 1;
  Schedule<std::int64_t> minibatch{256};
  Schedule<double> rates;
  bool nesterov = false;
  std::string file;
  Parallel parallel;
  std::vector<std::pair<std::string, Stream>> input;
  void describe(Fields& f) {
    f("maxEpochs", max_epochs, "epochs");
    f.required("maxEpochs");
    f("minibatchSize", minibatch, "samples per step");
    f("learningRatesPerMB", rates, "rates");
    f("useNAG", nesterov, "look ahead");
    f("file", file, "data");
    f.block("ParallelTrain", parallel, "ranks");
    f.blocks("input", input, "streams");
    f.alias("epochs", "maxEpochs", "an old name");
    f.no_effect("unroll", "loops are planned ahead");
  }
};

std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string report(const fs::path& path) {
  std::vector<std::string> words = {"trainer", "configFile=" + path.filename().string()};
  std::string read;
  std::istringstream lines(slurp(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("# word: ")) words.push_back(line.substr(8));
    if (line.starts_with("# read: ")) read = line.substr(8);
  }
  std::vector<const char*> argv;
  for (const auto& w : words) argv.push_back(w.c_str());
  std::string out;
  Notices notices;
  try {
    const CommandLine c = parse_command_line(static_cast<int>(argv.size()), argv.data());
    notices = c.notices;
    Problems problems;
    read_top_level(c.config, 1, problems, notices);
    Record block = c.config;
    std::istringstream names(read);
    std::string name;
    while (std::getline(names, name, '.')) block = block.block(name);
    if (!read.empty()) tutti::config::read<Training>(block, read.substr(read.rfind('.') + 1), problems, notices);
    problems.throw_if_any();
    out = "no error\n";
  } catch (const ConfigError& e) {
    out = e.what();
  }
  for (const auto& line : notices.lines) out += "notice: " + line + "\n";
  return out;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(CASES_DIRECTORY))
    if (entry.path().extension() == ".cntk") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, ReportAsExpected) {
  const fs::path before = fs::current_path();
  fs::current_path(CASES_DIRECTORY);
  const std::string found = report(GetParam() + ".cntk");
  const fs::path expected = GetParam() + ".expected";
  if (std::getenv("TUTTI_UPDATE_EXPECTED")) std::ofstream(expected, std::ios::binary) << found;
  EXPECT_EQ(found, slurp(expected));
  fs::current_path(before);
}

INSTANTIATE_TEST_SUITE_P(Config, Cases, testing::ValuesIn(case_names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tutti::config::cases_test
