// SPDX-License-Identifier: Apache-2.0
// Codecs against a plain copy of the same bytes. Copy and codec take turns in every iteration, so that both see the
// same machine; the figures are medians. Bytes: encode reads values and reads and writes the residual (12 per value),
// decode_add reads and writes values (8), decode writes them (4); a copy of n bytes moves 2n.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codec/kernels.h"
#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {
namespace {

enum class Direction { encode, decode, decode_add };

double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

template <class Run>
double seconds(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void against_copy(benchmark::State& state, const codec::Kernels* kernels, Direction direction, CodecOptions options) {
  const auto rows = static_cast<std::size_t>(state.range(0)), columns = static_cast<std::size_t>(state.range(1));
  const std::size_t n = rows * columns;
  const auto codec = make_codec(options, *kernels);
  FloatBuffer values(n), residual(n), copied(n + n / 2), target(n + n / 2);
  std::minstd_rand random(1);
  for (float& v : values.span()) v = static_cast<float>(random()) / 1e9f - 1;
  std::vector<std::byte> bytes(codec->bytes(rows, columns));
  codec->encode(rows, columns, values.data(), residual.data(), bytes.data());

  const std::size_t per_value = direction == Direction::encode ? 12 : direction == Direction::decode_add ? 8 : 4;
  std::vector<double> copy, work;
  for ([[maybe_unused]] auto _ : state) {
    copy.push_back(seconds([&] { std::memcpy(target.data(), copied.data(), n * per_value / 2); }));
    work.push_back(seconds([&] {
      if (direction == Direction::encode) codec->encode(rows, columns, values.data(), residual.data(), bytes.data());
      if (direction == Direction::decode) codec->decode(rows, columns, bytes.data(), values.data());
      if (direction == Direction::decode_add) codec->decode_add(rows, columns, bytes.data(), values.data());
    }));
    state.SetIterationTime(work.back());
  }
  const double copy_rate = static_cast<double>(n * per_value) / median(copy) / 1e9;
  const double work_rate = static_cast<double>(n * per_value) / median(work) / 1e9;
  state.counters["copy_GB/s"] = copy_rate;
  state.counters["codec_GB/s"] = work_rate;
  state.counters["of_copy"] = work_rate / copy_rate;
}

void add(const codec::Kernels* kernels, Direction direction, const std::string& name, CodecOptions options) {
  if (!kernels) return;
  const char* verb = direction == Direction::encode   ? "encode"
                     : direction == Direction::decode ? "decode"
                                                      : "decode_add";
  benchmark::RegisterBenchmark(("codec/" + name + "/" + verb + "/" + kernels->name).c_str(), against_copy, kernels,
                               direction, options)
      ->ArgNames({"rows", "columns"})
      ->Args({2048, 4880})  // the whole of a network of three layers of 2048
      ->Args({100000, 100})
      ->Args({1000, 10000})
      ->Args({10, 1000000})
      ->Args({1, 10000000})
      ->Args({2048, 128})  // a chunk in the cache
      ->UseManualTime()
      ->MinTime(0.1);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using tutti::Direction;
  std::vector<const tutti::codec::Kernels*> sets;
  tutti::for_each_set([&]<tutti::InstructionSet set>() { sets.push_back(&tutti::codec::kernels<set>()); });
  for (const auto* kernels : sets)
    for (const Direction direction : {Direction::encode, Direction::decode_add, Direction::decode})
      tutti::add(kernels, direction, "1_bit", {.bits = 1});
  for (const int bits : {2, 4, 8, 16, 32})
    for (const Direction direction : {Direction::encode, Direction::decode_add})
      tutti::add(&tutti::codec::best_kernels(), direction, std::to_string(bits) + "_bit", {.bits = bits});
  for (const auto* kernels : sets)
    for (const Direction direction : {Direction::encode, Direction::decode_add}) {
      tutti::add(kernels, direction, "float16", {.bits = 16, .format = tutti::NumberFormat::half});
      tutti::add(kernels, direction, "bfloat16", {.bits = 16, .format = tutti::NumberFormat::brain});
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
