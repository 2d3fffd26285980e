// SPDX-License-Identifier: Apache-2.0
// The one writer. Messages may come from the prefetch thread, hence the mutex.
#include "tutti/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/write_root.h"
#include "tutti/error.h"

namespace tutti::log {
namespace {

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

constexpr int kWidest = 120;
// Seconds until a line has passed through the launcher. A progress line that is drawn before would be in its way.
constexpr double kThroughLauncher = 0.25;

struct Writer {
  std::mutex mutex;
  std::unique_ptr<std::FILE, CloseFile> file;
  Settings settings;
  Terminal terminal;
  bool progress_drawn = false;
  Clock::time_point last_line = {};
  std::set<std::string, std::less<>> warned;
  std::optional<std::vector<std::pair<void (*)(std::string_view), std::string>>> held;  // what writes it, and the text
  std::string waiting;  // the progress line to draw once the launcher has passed all lines on; "" = none
  std::condition_variable_any changed;
  std::jthread drawing;  // last: it uses the others

  std::FILE* target() { return file ? file.get() : stderr; }
  bool on_terminal() const { return terminal.present() && !file; }
  void clear_progress() {
    if (progress_drawn) terminal.write("\r\x1b[K");
    progress_drawn = false;
  }
  // Until the launcher has passed the last line on.
  double seconds_in_launcher() const {
    return on_terminal() && terminal.of_launcher() ? kThroughLauncher - seconds_since(last_line) : 0;
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

// One call per line: lines of several ranks do not mix. Returns whether it was written.
bool put(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

void put_line(Writer& w, std::string_view text) {
  w.clear_progress();
  const bool timed = w.settings.timestamps && !text.empty();
  const std::string line =
      fmt::format("{}{}\n", timed ? fmt::format("{:%m/%d/%Y %H:%M:%S}: ", local_time()) : "", text);
  if (!put(w.target(), line) && w.file) {
    const std::string why = std::strerror(errno);
    w.file.reset();
    put(stderr,
        fmt::format("the log '{}' cannot be written any more: {}. It goes on here.\n{}", w.settings.path, why, line));
  }
  if (!w.file) w.last_line = Clock::now();
}

// Between values: "; " and ", " stay at the end of a line. A single value may be wider.
std::string broken(std::string_view text, int width) {
  constexpr std::string_view indent = "    ";
  std::string out;
  std::size_t most = static_cast<std::size_t>(std::max(width, 40));
  while (text.size() > most) {
    const std::size_t end = std::max(text.rfind("; ", most - 1) + 2, text.rfind(", ", most - 1) + 2);
    if (end < 3) break;  // npos + 2 is 1
    out.append(text.substr(0, end - 1)).append("\n").append(indent);
    text.remove_prefix(end);
    most = static_cast<std::size_t>(std::max(width, 40)) - indent.size();
  }
  return out.append(text);
}

}  // namespace

void line(std::string_view text) {
  const auto& [w, lock] = writer();
  if (!w.settings.quiet) put_line(w, text);
}

void values(std::string_view text) {
  const auto& [w, lock] = writer();
  if (w.settings.quiet) return;
  const int time_stamp = w.settings.timestamps ? 21 : 0;
  put_line(w, w.on_terminal() ? broken(text, std::min(kWidest, w.terminal.columns()) - time_stamp) : std::string(text));
}

void summary(std::string_view text) {
  const auto& [w, lock] = writer();
  if (w.settings.quiet) return;
  put_line(w, text);
  if (w.file && w.settings.rank == 0) put(stderr, fmt::format("{}\n", text));
}

std::string titled(std::string_view title, std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  for (const std::string_view kind : {": note: ", ": warning: "})
    if (const auto at = first.find(kind);
        at != first.npos && at > 0 && std::isdigit(static_cast<unsigned char>(first[at - 1])))
      return std::string(text);
  return fmt::format("{}: {}", title, text);
}

// What a quiet writer drops is not taken as said.
void warning(std::string_view text) {
  {
    const auto& [w, lock] = writer();
    if (w.held) return w.held->emplace_back(warning, text), void();
    if (w.settings.quiet) return;
  }
  if (writer().w.warned.emplace(text).second) line(titled("Warning", text));
}

void hold_warnings() { writer().w.held.emplace(); }

void release_warnings() {
  const auto held = std::exchange(writer().w.held, {});
  if (!held) return;
  for (const auto& [write, text] : *held) write(text);
}

void warning_of_rank(std::string_view text) {
  int rank;
  {
    const auto& [w, lock] = writer();
    if (w.held) return w.held->emplace_back(warning_of_rank, text), void();
    if (w.settings.quiet && !w.warned.emplace(text).second) return;
    rank = w.settings.quiet ? w.settings.rank : -1;
  }
  if (rank < 0) return warning(text);
  put(stderr, fmt::format("[rank {}] {}\n", rank, titled("Warning", text)));
}

namespace {

// Whole fields, with two blanks between them, as many as fit.
std::string_view fitting(std::string_view fields, std::size_t most) {
  if (fields.size() <= most) return fields;
  const auto end = fields.rfind("  ", most);
  return fields.substr(0, end == fields.npos ? most : end);
}

void draw(Writer& w) {
  const auto most = static_cast<std::size_t>(std::max(w.terminal.columns() - 1, 1));
  w.terminal.write(fmt::format("\r{}\x1b[K", fitting(w.waiting, most)));
  w.progress_drawn = true;
  w.waiting.clear();
}

// Runs in a separate thread: during a long step the main thread draws nothing.
void draw_late(std::stop_token stop, Writer& w) {
  std::unique_lock lock(w.mutex);
  while (!stop.stop_requested()) {
    const double left = w.seconds_in_launcher();
    if (w.waiting.empty())
      w.changed.wait(lock, stop, [&w] { return !w.waiting.empty(); });
    else if (left > 0)
      w.changed.wait_for(lock, stop, std::chrono::duration<double>(left), [] { return false; });
    else
      draw(w);
  }
}

}  // namespace

void progress(std::string_view text) {
  const auto& [w, lock] = writer();
  if (!w.terminal.present() || w.settings.rank != 0) return;
  w.waiting = text;
  if (text.empty()) return w.clear_progress();
  if (w.seconds_in_launcher() <= 0) return draw(w);
  if (!w.drawing.joinable()) w.drawing = std::jthread(draw_late, std::ref(w));
  w.changed.notify_one();
}

bool shows_progress() {
  const auto& [w, lock] = writer();
  return w.terminal.present() && w.settings.rank == 0;
}

void result(std::string_view text) {
  const auto& [w, lock] = writer();
  w.clear_progress();
  put(stdout, fmt::format("{}\n", text));
}

namespace {
std::function<void(const char*, Values)>& observer() {
  thread_local std::function<void(const char*, Values)> r;  // tests run ranks as threads
  return r;
}
}  // namespace

void record(const char* event, Values values) {
  if (observer()) observer()(event, values);
}

void set_observer(std::function<void(const char*, Values)> r) { observer() = std::move(r); }

void open(const Settings& settings) {
  const auto& [w, lock] = writer();
  w.settings = settings;
  w.file.reset();
  if (settings.path.empty()) return;
  require_in_write_root(settings.path);
  const std::filesystem::path path(settings.path);
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  // Lines go to the end of the file also after another program has emptied it (logrotate's copytruncate).
  const int fd = ::open(settings.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | (settings.append ? 0 : O_TRUNC), 0666);
  if (fd >= 0) w.file.reset(::fdopen(fd, "a"));
  if (!w.file) throw Error(fmt::format("cannot write the log file '{}': {}", settings.path, std::strerror(errno)));
}

std::string path() { return writer().w.settings.path; }

void close() {
  const auto& [w, lock] = writer();
  w.waiting.clear();
  w.clear_progress();
  w.file.reset();
}

}  // namespace tutti::log
