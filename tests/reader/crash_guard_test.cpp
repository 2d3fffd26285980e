// SPDX-License-Identifier: Apache-2.0
// What a crash of libhdf5 or a data file that becomes shorter leads to: an error that names the file, or a last line
// that does.
#include "reader/hdf5/crash_guard.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "reader/hdf5/hdf5_rows.h"
#include "reader/mapped_file.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::crash_guard_test {
namespace {

TEST(CrashGuard, ACrashOfTheChildNamesTheFile) {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
    const TemporaryFile file("damaged");
    const std::string error = error_of([&] { try_in_child(file.path(), [&] { raise(number); }); });
    EXPECT_NE(error.find("crashes on '" + file.path() + "'"), std::string::npos) << error;
    EXPECT_NE(error.find("fix: "), std::string::npos) << error;
  }
}

// Found by changing bytes of a whole file: two of a message of an object header. Reading it crashed version 1.10.8.
TEST(CrashGuard, AFileOnWhichTheLibraryCrashedIsNamed) {
  std::ifstream in(TUTTI_SOURCE_ROOT "/tests/reader/crashes_the_library.h5", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(bytes.empty());
  const TemporaryFile file(bytes);
  for (int i = 0; i < 2; ++i) {
    const std::string error = error_of([&] {
      Hdf5File opened(file.path());
      const Hdf5Shape shape = opened.shape("Images");
      std::vector<float> row(shape.row_size());
      for (std::uint64_t r = 0; r < shape.rows(); ++r) opened.read("Images", r, 1, row.data());
    });
    // Later versions of the library may read it, or say what is wrong.
    if (!H5_VERSION_GE(1, 10, 9)) {
      EXPECT_EQ(error, "the dataset 'Images' of the HDF5 file '" + file.path() +
                           "' has a damaged chunk, at 0,0: it unpacks to 24 bytes, not 1052696");
    }
  }
}

TEST(CrashGuard, ACrashIsNotTriedAgainUntilTheFileChanges) {
  const TemporaryFile file("damaged");
  const auto crash = [&] { try_in_child(file.path(), [] { raise(SIGSEGV); }); };
  EXPECT_NE(error_of(crash), "no error");
  EXPECT_NE(error_of(crash), "no error") << "a file that has crashed once is opened as if nothing had happened";
  file.write("other bytes");
  EXPECT_NO_THROW(try_in_child(file.path(), [] {}));
}

TEST(CrashGuard, WhatIsWrongWithoutACrashTheReaderSays) {
  const TemporaryFile file("odd");
  EXPECT_NO_THROW(try_in_child(file.path(), [] { throw std::runtime_error("not a crash"); }));
  EXPECT_NO_THROW(try_in_child(file.path() + ".absent", [] { raise(SIGSEGV); }));
}

TEST(CrashGuardDeathTest, ACrashLaterNamesTheFileThatIsRead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto crash = [] {
    const CrashGuard outer("first.h5");
    { const CrashGuard inner("second.h5"); }
    for (;;) raise(SIGSEGV);  // as an instruction does, which runs once more
  };
  EXPECT_DEATH(crash(), "crashed while it read 'first.h5': the file is damaged");
}

// They remove their files, because a process that dies does not.
TEST(MappedFileDeathTest, AFileThatBecomesShorterIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [] {
    const TemporaryFile file(std::string(10'000, 'x'));
    const MappedFile mapped(file.path());
    std::filesystem::resize_file(file.path(), 0);
    std::filesystem::remove(file.path());
    const volatile char* const bytes = mapped.bytes().data();
    _exit(bytes[5'000]);
  };
  EXPECT_EXIT(touch(), ::testing::ExitedWithCode(1), "tutti_reader_.*became shorter while it was read");
}

TEST(MappedFileDeathTest, OtherCrashesTakeTheirCourse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto crash = [] {
    const TemporaryFile file("abc");
    const MappedFile mapped(file.path());
    std::filesystem::remove(file.path());
    const CrashGuard guard("first.h5");
    for (;;) raise(SIGBUS);
  };
  EXPECT_DEATH(crash(), "crashed while it read 'first.h5'");
}

}  // namespace
}  // namespace tutti::reader::crash_guard_test
