// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/write_root.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {

void MetricsOptions::describe(config::Fields& f) {
  f("jsonl", jsonl, "file with the values of every log line as one line of JSON; a resumed run appends to it");
  f("tensorBoard", tensor_board, "folder for event files of TensorBoard with the same values");
}

namespace {

namespace fs = std::filesystem;

// access() allows root everything, also in /proc.
bool takes_new_files(const fs::path& folder) {
  std::string probe = (folder / ".probe-XXXXXX").string();
  const bool made = mkdtemp(probe.data()) != nullptr;
  if (made) rmdir(probe.c_str());
  return made;
}

}  // namespace

std::string why_unwritable(const std::string& path, bool folder) {
  if (std::string outside = outside_write_root(path); !outside.empty()) return outside;
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored);
  if (fs::exists(whole, ignored)) {
    const bool is_folder = fs::is_directory(whole, ignored);
    if (is_folder != folder) return fmt::format("'{}' is {}", path, is_folder ? "a directory" : "a file");
    const bool writable = folder ? takes_new_files(whole) : access(whole.c_str(), W_OK) == 0;
    return writable ? "" : fmt::format("'{}' is not writable", path);
  }
  fs::path above = whole.parent_path();
  while (!fs::exists(above, ignored) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, ignored)) return fmt::format("'{}' is no directory", above.string());
  return takes_new_files(above) ? "" : fmt::format("the directory '{}' is not writable", above.string());
}

Metrics::Metrics(const MetricsOptions& o, const std::string& model_path) {
  if (!o.jsonl.empty()) files_.push_back(make_json_lines(o.jsonl));
  if (!o.tensor_board.empty()) files_.push_back(make_tensor_board(o.tensor_board, model_path));
}

void Metrics::resume_at(std::int64_t samples) {
  for (const auto& file : files_) file->resume_at(samples);
  open_ = true;
}

void Metrics::write(const MetricsRecord& record) {
  if (!open_) return;
  std::erase_if(files_, [&](const std::unique_ptr<MetricsFile>& file) {
    try {
      file->write(record);
      return false;
    } catch (const Error& e) {
      log::warning(fmt::format("metrics: {}; nothing more is written there in this run", e.what()));
      return true;
    }
  });
}

}  // namespace tutti
