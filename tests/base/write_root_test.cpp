// SPDX-License-Identifier: Apache-2.0
#include "base/write_root.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/exit_codes.h"
#include "base/host.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class WriteRoot : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti-root-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = fs::canonical(name);
    fs::create_directories(directory_ / "in/models");
    fs::create_directories(directory_ / "in2");
    fs::create_directory_symlink(directory_, directory_ / "in/up");
    fs::create_directory_symlink("models", directory_ / "in/same");
    fs::create_symlink("../new", directory_ / "in/gone");
    fs::create_symlink("models/new", directory_ / "in/to_come");
    fs::create_symlink("loop", directory_ / "in/loop");
    before_ = fs::current_path();
    fs::current_path(directory_ / "in");
  }
  void TearDown() override {
    set_write_root("/");
    fs::current_path(before_);
    fs::remove_all(directory_);
  }
  fs::path directory_, before_;
};

TEST_F(WriteRoot, AllowsWhatLiesBelow) {
  EXPECT_EQ(outside_write_root("/anywhere"), "");
  set_write_root(".");
  for (const std::string path : {"m", "models/m", "new/folder/m", "models/../m", "../in/m", "same/m", "same/new/m",
                                 "to_come", ".", "..."})
    EXPECT_EQ(outside_write_root(path), "") << path;
  EXPECT_EQ(outside_write_root((directory_ / "in/m").string()), "");
}

TEST_F(WriteRoot, RefusesWhatLeadsOut) {
  set_write_root(directory_ / "in/up/in");
  for (const std::string path :
       {"../m", "../in2/m", "models/../../m", "new/../../m", "/m", "up/m", "up/new/m", "gone", "loop", "same/../../m"})
    EXPECT_NE(outside_write_root(path), "") << path;
  EXPECT_EQ(outside_write_root("up/m"), "'up/m' (" + (directory_ / "m").string() + ") is outside of '" +
                                            (directory_ / "in").string() +
                                            "', and --write-under allows no other place");
  // The current directory may change after it is set.
  fs::current_path(directory_);
  EXPECT_NE(outside_write_root("m"), "");
  EXPECT_EQ(outside_write_root("in/m"), "");
}

TEST_F(WriteRoot, FilesAreNotMadeOutside) {
  set_write_root(".");
  for (const char* path : {"../m", "gone", "up/m"}) {
    try {
      write_file(path, [](std::ostream& out) { out << "text"; });
      FAIL() << path;
    } catch (const CodedError& e) {
      EXPECT_EQ(e.code(), kWrongConfiguration);
      EXPECT_NE(std::string(e.what()).find("\nfix: "), std::string::npos) << e.what();
    }
  }
  write_file("to_come", [](std::ostream& out) { out << "text"; });
  EXPECT_TRUE(fs::exists("models/new"));
  EXPECT_FALSE(fs::exists("../m") || fs::exists("../new"));
}

}  // namespace
}  // namespace tutti
