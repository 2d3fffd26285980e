// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/load.h"
#include "tutti/error.h"
#include "tutti/log.h"
#include "tutti/reader.h"

namespace tutti::fuzz {
namespace {

struct Folder {
  Folder() {
    const char* const memory = "/dev/shm";
    path = (std::filesystem::is_directory(memory) ? memory : "/tmp") + std::string("/tutti-fuzz-") +
           std::to_string(getpid());
    std::filesystem::create_directories(path);
    log::open({.rank = 1, .quiet = true});  // readers talk about damaged data
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Batch& b, const std::vector<StreamInfo>& streams) {
  require(b.streams.size() == streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s) {
    const StreamData& d = b.streams[s];
    require(d.sequence_begin.size() == static_cast<std::size_t>(b.sequences) + 1);
    require(d.sequence_begin.back() == static_cast<std::int64_t>(d.columns));
    if (!streams[s].sparse) {
      require(d.dense.size() == d.columns * streams[s].dim);
      continue;
    }
    require(d.column_begin.size() == d.columns + 1 && d.values.size() == d.indices.size());
    for (const std::int32_t i : d.indices) require(i >= 0 && static_cast<std::size_t>(i) < streams[s].dim);
  }
}

}  // namespace

const std::string& folder() {
  static const Folder f;
  return f.path;
}

std::string write(const std::string& name, std::string_view bytes) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void expect_no_crash(const std::function<void()>& what) {
  try {
    what();
  } catch (const ConfigError&) {
  } catch (const Error&) {
  }
}

void read_all(const std::string& block) {
  expect_no_crash([&] {
    Problems problems;
    config::Notices notices;
    ReaderContext context;
    context.problems = &problems, context.notices = &notices;
    const auto reader = make_reader(config::record_from_text(block, "fuzz.cntk"), context);
    if (!reader || !problems.empty()) return;
    if (reader->sweep_samples() > 100'000) return;  // long, not wrong
    reader->start_epoch({.minibatch = 16});
    for (int i = 0; i < 20; ++i) {
      const Batch* const batch = reader->next();
      if (!batch) break;
      check(*batch, reader->streams());
      for (const std::uint32_t s : batch->sequence_numbers) require(!reader->place(s).empty());
    }
  });
}

}  // namespace tutti::fuzz
