// SPDX-License-Identifier: Apache-2.0
// One run at a time works on a model path; what a process leaves behind holds nobody up.
#include "train/model_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tutti/error.h"

namespace tutti::model_lock_test {
namespace {

using ::testing::HasSubstr;
constexpr std::chrono::milliseconds at_once{0};

class ModelLocks : public ::testing::Test {
 protected:
  ModelLocks() : folder_(std::filesystem::temp_directory_path() / ("tutti-lock-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ModelLocks() override { std::filesystem::remove_all(folder_); }
  std::string model() const { return folder_ / "new" / "m"; }
  std::string lock() const { return model() + ".lock"; }

  std::filesystem::path folder_;
};

TEST_F(ModelLocks, TheSecondIsRefusedUntilTheFirstEnds) {
  {
    const ModelLock first(model(), at_once);
    try {
      const ModelLock second(model(), at_once);
      ADD_FAILURE() << "not refused";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("another run works on the model '" + model() + "': process " +
                                      std::to_string(::getpid()) + " on "));
      EXPECT_THAT(e.what(), HasSubstr(", started 2"));
      EXPECT_THAT(e.what(), HasSubstr("fix: "));
    }
    const ModelLock other(model() + "2", at_once);
  }
  EXPECT_FALSE(std::filesystem::exists(lock()));
  const ModelLock again(model(), at_once);
}

TEST_F(ModelLocks, MovesItsDutyOn) {
  ModelLock first(model(), at_once);
  {
    const ModelLock second(std::move(first));
    EXPECT_THROW(ModelLock(model(), at_once), Error);
  }
  EXPECT_NO_THROW(ModelLock(model(), at_once));
}

TEST_F(ModelLocks, AKilledProcessHoldsNobodyUp) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ModelLock held(model(), at_once);
    const char byte = 1;
    if (::write(ready[1], &byte, 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(ModelLock(model(), at_once), Error);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(lock()));
  EXPECT_NO_THROW(ModelLock(model(), at_once));
  ::close(ready[0]), ::close(ready[1]);
}

TEST_F(ModelLocks, AFileThatNobodyHoldsIsNoLock) {
  std::filesystem::create_directories(folder_ / "new");
  for (const char* text : {"", "host elsewhere\npid 1\nstarted yesterday\n", "broken"}) {
    std::ofstream(lock()) << text;
    EXPECT_NO_THROW(ModelLock(model(), at_once)) << text;
  }
}

}  // namespace
}  // namespace tutti::model_lock_test
