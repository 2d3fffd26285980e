// SPDX-License-Identifier: Apache-2.0
// main.cpp -- of a program that holds the tests of a folder. --of=PATTERN leaves those that are written in files of
// such a name, as --of=order_test.cpp does; of them, --gtest_filter chooses. It is an error that none is left.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

bool is_of(const testing::TestInfo& test, const char* pattern) {
  const std::string file = std::filesystem::path(test.file()).filename();
  return fnmatch(pattern, file.c_str(), 0) == 0;
}

// As a filter lists them; suites of other files are one word, since GoogleTest prints the whole filter.
std::string tests_not_of(const char* pattern) {
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  std::string others;
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    std::string names;
    bool whole = true;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (is_of(test, pattern))
        whole = false;
      else
        names += std::string(":") + suite.name() + "." + test.name();
    }
    others += whole ? std::string(":") + suite.name() + ".*" : names;
  }
  return others;
}

void leave_out(const std::string& names) {
  std::string& filter = testing::GTEST_FLAG(filter);
  // All behind the first "-" is left out.
  filter += (filter.find('-') == std::string::npos ? "-" : "") + names;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view of = "--of=";
  for (int i = 1; i < argc; ++i) {
    if (!std::string_view(argv[i]).starts_with(of)) {
      std::fprintf(stderr, "%s: what is %s? Known are --of=PATTERN and GoogleTest's options\n", argv[0], argv[i]);
      return 2;
    }
    leave_out(tests_not_of(argv[i] + of.size()));
  }
  const int result = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() > 0) return result;
  std::fprintf(stderr, "%s: no test is left to run\n", argv[0]);
  return 1;
}
