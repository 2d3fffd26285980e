// SPDX-License-Identifier: Apache-2.0
// The file of the log.
#include "tutti/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti::log {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LogFile : public testing::Test {
 protected:
  LogFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-log-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/run.log";
  }
  ~LogFile() override {
    open({});
    std::filesystem::remove_all(folder_);
  }
  std::string folder_, path_;
};

TEST_F(LogFile, IsBegunAnewOrContinued) {
  for (const bool append : {false, false, true}) {
    open({.path = path_, .append = append});
    line("one");
    close();
  }
  EXPECT_EQ(text_of(path_), "one\none\n");
}

// As logrotate does with copytruncate.
TEST_F(LogFile, GoesOnAtItsBeginningWhenItIsEmptied) {
  for (const bool append : {false, true}) {
    open({.path = path_, .append = append});
    line("before");
    std::filesystem::resize_file(path_, 0);
    line("after");
    EXPECT_EQ(text_of(path_), "after\n") << append;
  }
}

}  // namespace
}  // namespace tutti::log
