// SPDX-License-Identifier: Apache-2.0
// reader_support.h -- temporary data files, sources made up on the spot, and readers of whole epochs for the reader
// tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reader/minibatch_maker.h"
#include "reader/text/text_source.h"

namespace tutti::reader {

// A file that lives as long as the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    static int count = 0;
    // Thousands of small files: in memory where there is such a place.
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = ::access(memory.c_str(), W_OK) == 0;
    path_ = (in_memory ? memory : std::filesystem::temp_directory_path()) /
            ("tutti_reader_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    write(content);
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void write(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Sequences of given lengths; each column holds the number of its sequence.
class NumberedSource final : public SequenceSource {
 public:
  explicit NumberedSource(const std::vector<std::uint32_t>& lengths, std::size_t per_chunk = 1'000'000)
      : lengths_(lengths) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (i % per_chunk == 0) index_.begin_chunk();
      index_.add(lengths[i]);
    }
  }
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t> sequences, Share& share) override {
    for (const std::uint32_t s : sequences) {
      for (std::uint32_t i = 0; i < lengths_[s]; ++i) *share[0].add_dense() = static_cast<float>(s);
      share.end_sequence(lengths_[s]);
    }
  }

 private:
  std::vector<std::uint32_t> lengths_;
  std::vector<StreamInfo> infos_{{"x", 1, false}};
  SequenceIndex index_;
};

// One minibatch as values that outlive it.
struct Seen {
  std::vector<std::uint32_t> sequences;  // by NumberedSource
  std::int64_t samples = 0, columns = 0, global_samples = 0, global_columns = 0, position = 0;
  std::vector<std::int64_t> positions = {};  // of the sequences
  bool operator==(const Seen&) const = default;
};

inline std::vector<Seen> read_epoch(Reader& reader, const EpochPlan& plan, const std::function<void()>& work = {}) {
  std::vector<Seen> all;
  reader.start_epoch(plan);
  while (const Batch* b = reader.next()) {
    Seen seen{{}, b->samples, b->columns, b->global_samples, b->global_columns, b->position};
    seen.positions.assign(b->sequence_positions.begin(), b->sequence_positions.end());
    const StreamData& x = b->streams[0];
    for (std::int64_t s = 0; s < b->sequences; ++s)
      seen.sequences.push_back(
          static_cast<std::uint32_t>(x.dense[static_cast<std::size_t>(x.sequence_begin[static_cast<std::size_t>(s)])]));
    all.push_back(std::move(seen));
    if (work) work();
  }
  return all;
}

inline std::unique_ptr<Reader> numbered_reader(const std::vector<std::uint32_t>& lengths, Randomization r = {},
                                               std::size_t per_chunk = 1'000'000) {
  return std::make_unique<DirectReader>(MinibatchMaker(std::make_unique<NumberedSource>(lengths, per_chunk), r));
}

inline TextReaderOptions text_options(const std::string& path, const std::vector<TextStream>& streams,
                                      std::int64_t max_errors = 0) {
  TextReaderOptions o;
  o.file = path;
  for (const TextStream& s : streams)
    o.input.push_back({s.name, {s.alias, static_cast<std::int64_t>(s.dim), s.sparse}});
  o.max_errors = max_errors;
  return o;
}

}  // namespace tutti::reader
