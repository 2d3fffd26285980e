// SPDX-License-Identifier: Apache-2.0
// text_parsing_benchmark.cpp -- the text reader's two passes over a file, and the making of minibatches from data at
// hand.
//   scan    checks every line and finds the sequences (once per run)
//   parse   numbers to floats, into a share (per minibatch, unless the data are kept)
// The rate counts bytes of the text file; for synthetic data, bytes of float32 delivered.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "reader/synthetic/synthetic_source.h"
#include "reader/text/text_source.h"

namespace {

using namespace tutti::reader;

enum Kind { fractions, bytes, sparse };

std::string sample_text(Kind kind) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 8'000'000) {
    if (kind == sparse) {
      text += "|words";
      for (int i = 0; i < 60; ++i) text += fmt::format(" {}:{}", random() % 50000, 1 + random() % 9);
      text += " |label 3:1\n";
    } else {
      text += "|features";
      for (int i = 0; i < 784; ++i) {
        const bool ink = i % 28 > 8 && i % 28 < 19 && random() % 2;
        text += kind == bytes ? fmt::format(" {}", ink ? random() % 256 : 0)
                              : fmt::format(" {:.6f}", static_cast<double>(random()) / 4e9 - 0.5);
      }
      text += " |labels 0 0 0 1 0 0 0 0 0 0\n";
    }
  }
  return text;
}

struct File {
  explicit File(Kind kind)
      : path(std::filesystem::temp_directory_path() / fmt::format("tutti_parsing_{}", static_cast<int>(kind))) {
    std::ofstream(path, std::ios::binary) << sample_text(kind);
    options.file = path.string();
    options.keep_bytes = 0;
    if (kind == sparse) {
      options.input = {{"words", {"words", 50000, true}}, {"label", {"label", 10, true}}};
    } else {
      options.input = {{"features", {"features", 784, false}}, {"labels", {"labels", 10, false}}};
    }
  }
  ~File() { std::filesystem::remove(path); }
  std::filesystem::path path;
  TextReaderOptions options;
};

void scan(benchmark::State& state, Kind kind) {
  const File file(kind);
  const MappedFile mapped(file.options.file);
  for (auto _ : state) benchmark::DoNotOptimize(scan_text(mapped, file.options).end);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * mapped.bytes().size()));
}

void parse(benchmark::State& state, Kind kind) {
  const File file(kind);
  TextSource source(file.options);
  std::vector<std::uint32_t> all(source.index().sequences());
  std::iota(all.begin(), all.end(), 0);
  Share share(source.streams());
  for (auto _ : state) {
    share.clear();
    source.read(all, share);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * std::filesystem::file_size(file.path)));
}

void synthetic(benchmark::State& state, SyntheticReaderOptions::Kind kind) {
  SyntheticReaderOptions options;
  options.kind = kind;
  const auto source = options.source();
  std::vector<std::uint32_t> some(256);
  Share share(source->streams());
  std::uint32_t first = 0;
  for (auto _ : state) {
    std::iota(some.begin(), some.end(), first);
    first = (first + 256) % 59000;
    share.clear();
    source->read(some, share);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 256 * 784 * 4);
}

BENCHMARK_CAPTURE(scan, dense_fractions, fractions)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, dense_bytes, bytes)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, sparse, sparse)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, dense_fractions, fractions)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, dense_bytes, bytes)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, sparse, sparse)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(synthetic, random_256x784, SyntheticReaderOptions::Kind::random)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(synthetic, digits_256, SyntheticReaderOptions::Kind::digits)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
