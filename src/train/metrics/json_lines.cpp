// SPDX-License-Identifier: Apache-2.0
// Records as lines of JSON. Numbers that are not finite are null.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/write_root.h"
#include "train/metrics/metrics.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string number(double v) { return std::isfinite(v) ? fmt::format("{}", v) : "null"; }

std::string numbers(const std::vector<double>& values) {
  std::string out;
  for (const double v : values) out += (out.empty() ? "" : ",") + number(v);
  return "[" + out + "]";
}

// "name":{...} of members that are ready; nothing if there are none.
void add_object(std::string& to, const char* name, const std::string& members) {
  if (!members.empty()) to += fmt::format(",\"{}\":{{{}}}", name, members);
}

template <class Values, class Text>
std::string members(const Values& values, Text text) {
  std::string out;
  for (const auto& v : values) out += (out.empty() ? "" : ",") + text(v);
  return out;
}

// The position of a line, -1 if it is none of this program's: to_json() begins every line alike.
std::int64_t position_of_line(const std::string& line) {
  char event[32] = "";
  long long samples = -1;
  return std::sscanf(line.c_str(), "{\"event\":\"%31[a-z]\",\"samples\":%lld", event, &samples) == 2 ? samples : -1;
}

// The length of the part of the file that is kept: whole lines up to the position.
std::uintmax_t kept_length(const std::string& path, std::int64_t samples) {
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t kept = 0;
  for (std::string line; std::getline(in, line) && !in.eof(); kept += line.size() + 1)
    if (samples < 0 || position_of_line(line) > samples) break;
  return kept;
}

class JsonLines final : public MetricsFile {
 public:
  explicit JsonLines(std::string path) : path_(std::move(path)) {}

  void resume_at(std::int64_t samples) override {
    file_.reset();
    require_in_write_root(path_);
    std::error_code error;
    const std::filesystem::path path(path_);
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
    if (std::filesystem::exists(path, error)) {
      std::filesystem::resize_file(path, kept_length(path_, samples), error);
      if (error) throw Error(fmt::format("'{}' cannot be shortened: {}", path_, error.message()));
    }
    file_.reset(std::fopen(path_.c_str(), "a"));
    if (!file_) fail();
  }

  void write(const MetricsRecord& record) override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string line = to_json(record, std::chrono::duration<double>(now).count()) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(fmt::format("'{}' cannot be written: {}", path_, std::strerror(errno)));
  }
  std::string path_;
  std::unique_ptr<std::FILE, decltype([](std::FILE* f) { std::fclose(f); })> file_;
};

}  // namespace

std::string json_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

std::string to_json(const MetricsRecord& r, double unix_time) {
  const auto named = [](const std::string& name, const std::string& value) {
    return fmt::format("\"{}\":{}", json_text(name), value);
  };
  std::string line = fmt::format("{{\"event\":\"{}\",\"samples\":{},\"time\":{:.3f}", r.event, r.samples, unix_time);
  for (const auto& [name, value] : r.place) line += "," + named(name, fmt::format("{}", value));
  for (const auto& [name, value] : r.texts) line += "," + named(name, "\"" + json_text(value) + "\"");
  add_object(line, "results", members(r.results, [&](const MetricsRecord::Result& x) {
               return named(x.name, fmt::format("{{\"mean\":{},\"count\":{}{}{}}}", number(x.mean), number(x.count),
                                                x.error_rate ? ",\"error_rate\":true" : "",
                                                x.larger_is_better ? ",\"larger_is_better\":true" : ""));
             }));
  add_object(line, "measures", members(r.measures, [&](const auto& x) { return named(x.first, number(x.second)); }));
  add_object(line, "ranks", members(r.ranks, [&](const auto& x) { return named(x.first, numbers(x.second)); }));
  return line + "}";
}

std::unique_ptr<MetricsFile> make_json_lines(const std::string& path) { return std::make_unique<JsonLines>(path); }

}  // namespace tutti
