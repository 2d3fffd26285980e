// SPDX-License-Identifier: Apache-2.0
// crash_shim.cpp -- for LD_PRELOAD: counts the system calls on files below a folder, and makes one of them fail, be cut
// short, or be the last one before the process dies. Variables:
//   CRASH_FOLDER  only files whose path contains this count; not its lock file
//   CRASH_LOG     a line per call is appended here: number, call, path, result
//   CRASH_AT      the number of the call that is disturbed, from 1; 0 = none
//   CRASH_HOW     an errno (28 = ENOSPC): the call fails; "short": half is written; "torn": half is written, then
//                 death; "last": the call is made, then death; "lost": the call is made and reported as ENOENT, as NFS
//                 does when the first answer to a rename was lost
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kMostFiles = 1024;
char paths[kMostFiles][512];  // by descriptor; empty = of no interest
std::atomic<int> count{0};

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool counts(const char* path) {
  const char* const folder = variable("CRASH_FOLDER");
  return *folder && path && std::strstr(path, folder) && !std::strstr(path, ".lock");
}
bool counts(int fd) { return fd >= 0 && fd < kMostFiles && paths[fd][0] != 0; }

void note(int number, const char* call, const char* path, long result) {
  const int fd = next<int(const char*, int, ...)>("open")(variable("CRASH_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0666);
  const std::string line = std::to_string(number) + " " + call + " " + path + " " + std::to_string(result) + "\n";
  if (fd >= 0) {
    [[maybe_unused]] const auto n = next<ssize_t(int, const void*, size_t)>("write")(fd, line.data(), line.size());
    next<int(int)>("close")(fd);
  }
}

// What happens to this call.
struct Turn {
  explicit Turn(const char* call, const char* path) : call(call), path(path), number(++count) {
    if (number != std::atoi(variable("CRASH_AT"))) return;
    const std::string how = variable("CRASH_HOW");
    fails = std::atoi(how.c_str());
    cut = how == "short" || how == "torn";
    dies = how == "torn" || how == "last";
    lost = how == "lost";
  }
  // `make`: the call itself.
  template <class Make>
  auto run(Make make) -> decltype(make()) {
    if (fails != 0) {
      note(number, call, path, -fails);
      errno = fails;
      return -1;
    }
    const auto result = make();
    const int why = errno;
    note(number, call, path, static_cast<long>(result));
    if (dies) _exit(137);
    errno = lost ? ENOENT : why;
    return lost ? -1 : result;
  }
  const char *call, *path;
  int number;
  int fails = 0;
  bool cut = false, dies = false, lost = false;
};

int open_file(const char* name, const char* path, int flags, mode_t mode) {
  auto* const real = next<int(const char*, int, ...)>(name);
  if (!counts(path)) return real(path, flags, mode);
  const int fd = Turn("open", path).run([&] { return real(path, flags, mode); });
  // What only reads changes nothing, except that the folder is synced through it.
  if (fd >= 0 && fd < kMostFiles) std::snprintf(paths[fd], sizeof paths[fd], "%s", path);
  return fd;
}

int on_path(const char* name, const char* path, int (*real)(const char*)) {
  if (!counts(path)) return real(path);
  return Turn(name, path).run([&] { return real(path); });
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_file("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_file("open64", path, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  if (!counts(fd)) return real(fd, bytes, size);
  Turn turn("write", paths[fd]);
  return turn.run([&] { return real(fd, bytes, turn.cut ? (size + 1) / 2 : size); });
}
int fsync(int fd) {
  auto* const real = next<int(int)>("fsync");
  if (!counts(fd)) return real(fd);
  return Turn("fsync", paths[fd]).run([&] { return real(fd); });
}
int close(int fd) {
  auto* const real = next<int(int)>("close");
  if (!counts(fd)) return real(fd);
  const std::string path = paths[fd];
  paths[fd][0] = 0;
  Turn turn("close", path.c_str());
  if (turn.fails != 0) real(fd);  // Linux closes the file even when it reports an error
  return turn.run([&] { return real(fd); });
}
int rename(const char* from, const char* to) {
  auto* const real = next<int(const char*, const char*)>("rename");
  if (!counts(to)) return real(from, to);
  return Turn("rename", to).run([&] { return real(from, to); });
}
int unlink(const char* path) { return on_path("unlink", path, next<int(const char*)>("unlink")); }
int remove(const char* path) { return on_path("remove", path, next<int(const char*)>("remove")); }
}
