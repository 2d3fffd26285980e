// SPDX-License-Identifier: Apache-2.0
// The one writer. Messages may come from the prefetch thread, hence the mutex.
#include "tutti/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "tutti/error.h"

namespace tutti::log {
namespace {

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

struct Writer {
  std::mutex mutex;
  std::unique_ptr<std::FILE, CloseFile> file;
  Settings settings;
  bool progress_drawn = false;
  std::set<std::string, std::less<>> warned;

  std::FILE* target() { return file ? file.get() : stderr; }
  void clear_progress() {
    if (progress_drawn) std::fputs("\r\x1b[K", stderr);
    progress_drawn = false;
  }
};

// The one writer, locked.
struct Held {
  Writer& w;
  std::lock_guard<std::mutex> lock{w.mutex};
};
Held writer() {
  static Writer w;
  return {w};
}

// One call per line: lines of several ranks do not mix.
void put(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

void line(std::string_view text) {
  const auto& [w, lock] = writer();
  if (w.settings.quiet) return;
  w.clear_progress();
  const bool timed = w.settings.timestamps && !text.empty();
  put(w.target(), fmt::format("{}{}\n", timed ? fmt::format("{:%m/%d/%Y %H:%M:%S}: ", local_time()) : "", text));
}

std::string titled(std::string_view title, std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  for (const std::string_view kind : {": note: ", ": warning: "})
    if (const auto at = first.find(kind);
        at != first.npos && at > 0 && std::isdigit(static_cast<unsigned char>(first[at - 1])))
      return std::string(text);
  return fmt::format("{}: {}", title, text);
}

void warning(std::string_view text) {
  if (writer().w.warned.emplace(text).second) line(titled("Warning", text));
}

void warning_of_rank(std::string_view text) {
  const Settings settings = writer().w.settings;
  if (!settings.quiet) return warning(text);
  if (writer().w.warned.emplace(text).second)
    put(stderr, fmt::format("[rank {}] {}\n", settings.rank, titled("Warning", text)));
}

void progress(std::string_view text) {
  const auto& [w, lock] = writer();
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!terminal || w.settings.rank != 0) return;
  w.clear_progress();
  if (text.empty()) return;
  put(stderr, text);
  w.progress_drawn = true;
}

void result(std::string_view text) {
  const auto& [w, lock] = writer();
  w.clear_progress();
  put(stdout, fmt::format("{}\n", text));
}

void open(const Settings& settings) {
  const auto& [w, lock] = writer();
  w.settings = settings;
  w.file.reset();
  if (settings.path.empty()) return;
  const std::filesystem::path path(settings.path);
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  w.file.reset(std::fopen(settings.path.c_str(), settings.append ? "a" : "w"));
  if (!w.file) throw Error(fmt::format("cannot write the log file '{}': {}", settings.path, std::strerror(errno)));
}

void close() {
  const auto& [w, lock] = writer();
  w.clear_progress();
  w.file.reset();
}

}  // namespace tutti::log
