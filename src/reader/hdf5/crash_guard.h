// SPDX-License-Identifier: Apache-2.0
// crash_guard.h -- libhdf5 crashes on some damaged files. Such a file must not take a run down without its name: each
// is looked through in a process of its own first, and a crash later says which file was being read.
#pragma once

#include <functional>
#include <string>

namespace tutti::reader {

// Runs `look` in a child process, once per version of the file. Throws Error if the child crashes.
void try_in_child(const std::string& path, const std::function<void()>& look);

// While it lives, a crash of this thread names the file, and then takes its course.
class CrashGuard {
 public:
  explicit CrashGuard(const char* path);
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;

 private:
  const char* const outer_;
};

}  // namespace tutti::reader
