// SPDX-License-Identifier: Apache-2.0
// Records as scalars of TensorBoard; its step is the position in the run, in samples. As TensorBoard's own writers do,
// every start of a run opens a new file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "base/file_names.h"
#include "base/host.h"
#include "base/write_root.h"
#include "train/metrics/event_file.h"
#include "train/metrics/metrics.h"
#include "tutti/error.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEventFile = "events.out.tfevents.";

// "net.dnn.5f3a91c2": a model of the same name in another folder has another number. Both folders may move together.
std::string name_of_run(const std::string& folder, const std::string& model_path) {
  const fs::path model = same_file(model_path);
  return fmt::format("{}.{:08x}", model.filename().string(),
                     event_file::crc32c(model.lexically_relative(same_file(folder)).string()));
}

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::int64_t seconds_of(const std::string& name) {
  return std::strtoll(name.c_str() + std::string_view(kEventFile).size(), nullptr, 10);
}

std::vector<std::pair<std::string, double>> scalars_of(const MetricsRecord& r) {
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& x : r.results) scalars.emplace_back(fmt::format("{}/{}", r.event, x.name), x.mean);
  for (const auto& [name, value] : r.measures) scalars.emplace_back(fmt::format("{}/{}", r.event, name), value);
  for (const auto& [name, values] : r.ranks)
    for (std::size_t rank = 0; rank < values.size(); ++rank)
      scalars.emplace_back(fmt::format("{}_by_rank/{}/{}", r.event, name, rank), values[rank]);
  return scalars;
}

// Removes the events behind the position, and the file if nothing but its first event is left.
void shorten(const fs::path& path, std::int64_t samples) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::size_t kept = 0, events = 0;
  while (const auto found = event_file::read_event(bytes, kept)) {
    if (event_file::step_of(found->event) > samples) break;
    kept = found->next;
    ++events;
  }
  std::error_code error;
  if (events <= 1)
    fs::remove(path, error);
  else if (kept < bytes.size())
    fs::resize_file(path, kept, error);
  if (error) throw Error(fmt::format("'{}' cannot be shortened: {}", path.string(), error.message()));
}

class TensorBoard final : public MetricsFile {
 public:
  TensorBoard(std::string folder, const std::string& model_path)
      : folder_(std::move(folder)), run_(name_of_run(folder_, model_path)) {}

  void resume_at(std::int64_t samples) override {
    file_.reset();
    require_in_write_root(folder_);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw Error(fmt::format("'{}' cannot be created: {}", folder_, error.message()));
    std::vector<fs::path> earlier;
    for (const auto& entry : fs::directory_iterator(folder_, error))
      if (const std::string name = entry.path().filename().string();
          name.starts_with(kEventFile) && name.ends_with("." + run_))
        earlier.push_back(entry.path());
    // Readers take files in the order of their names, which is that of the seconds in them.
    auto seconds = static_cast<std::int64_t>(unix_now());
    for (const auto& path : earlier) {
      require_in_write_root(path.string());
      seconds = std::max(seconds, seconds_of(path.filename().string()) + 1);
      shorten(path, samples);
    }
    path_ = fmt::format("{}/{}{:010}.{}.{}.{}", folder_, kEventFile, seconds, host_name(), getpid(), run_);
    file_.reset(std::fopen(path_.c_str(), "w"));
    put(event_file::version_event(unix_now()));
    if (samples > 0) put(event_file::restart_event(unix_now(), samples + 1));
  }

  void write(const MetricsRecord& record) override {
    if (const auto scalars = scalars_of(record); !scalars.empty())
      put(event_file::scalars_event(unix_now(), record.samples, scalars));
  }

 private:
  void put(const std::string& event) {
    const std::string record = event_file::framed(event);
    if (!file_ || std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
        std::fflush(file_.get()) != 0)
      throw Error(fmt::format("'{}' cannot be written: {}", path_, std::strerror(errno)));
  }

  std::string folder_, run_, path_;
  std::unique_ptr<std::FILE, decltype([](std::FILE* f) { std::fclose(f); })> file_;
};

}  // namespace

std::unique_ptr<MetricsFile> make_tensor_board(const std::string& folder, const std::string& model_path) {
  return std::make_unique<TensorBoard>(folder, model_path);
}

}  // namespace tutti
