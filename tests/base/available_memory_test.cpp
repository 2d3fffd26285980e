// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() {
    write("proc/meminfo",
          "MemTotal:       9000 kB\nMemAvailable:   8000 kB\nSwapTotal: 700 kB\nSwapFree:        100 kB\n");
  }
  ~AvailableMemory() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // Of version 2, in kB.
  void limit(const fs::path& group, int most, int used, int files) {
    const auto bytes = [](int kilobytes) { return std::to_string(kilobytes * 1024) + "\n"; };
    write("sys/fs/cgroup" / group / "memory.max", most < 0 ? "max\n" : bytes(most));
    write("sys/fs/cgroup" / group / "memory.current", bytes(used));
    write("sys/fs/cgroup" / group / "memory.stat",
          "anon 1\nfile " + bytes(2 * files) + "inactive_file " + bytes(files - 1) + "active_file " + bytes(1));
  }
  std::uint64_t kilobytes() const { return tutti::available_memory(root_).value() / 1024; }

  const fs::path root_ = fs::temp_directory_path() / ("available_memory_" + std::to_string(getpid()));
};

TEST_F(AvailableMemory, IsThatOfTheMachineAndItsSwap) { EXPECT_EQ(kilobytes(), 8100u); }

TEST_F(AvailableMemory, IsWhatTheTightestGroupHasLeft) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  limit("slurm/job_7/step_0", -1, 1900, 500);
  EXPECT_EQ(kilobytes(), 8100u);
  limit("slurm/job_7", 3000, 2000, 600);
  EXPECT_EQ(kilobytes(), 3000u - (2000 - 600) + 100);
  limit("slurm", 1000, 2000, 0);  // lowered since
  EXPECT_EQ(kilobytes(), 100u);
  limit("slurm", 1 << 20, 2000, 0);
  write("sys/fs/cgroup/slurm/job_7/memory.swap.max", "0\n");
  EXPECT_EQ(kilobytes(), 1600u);
}

TEST_F(AvailableMemory, IsWhatAContainerHasLeftThatSeesOnlyItsOwnGroup) {
  write("proc/self/cgroup", "0::/docker/abc\n");
  limit("", 2000, 500, 100);
  EXPECT_EQ(kilobytes(), 1700u);
}

TEST_F(AvailableMemory, IsToldByGroupsOfVersion1Too) {
  write("proc/self/cgroup", "12:pids:/x\n4:cpu,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2048000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 1024000\ntotal_active_file 0\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "8192000\n");
  EXPECT_EQ(kilobytes(), 3000u + 100);
}

TEST_F(AvailableMemory, MayBeUnknown) {
  write("proc/meminfo", "MemTotal: 9000 kB\n");
  EXPECT_FALSE(tutti::available_memory(root_));
  EXPECT_GT(tutti::available_memory().value(), 0u);
}

}  // namespace
