// SPDX-License-Identifier: Apache-2.0
// image_reading -- images per second of one loader: decoding alone, each transform, and the whole variant from the
// files to minibatches with one and two loaders. Pictures are made up, about as hard to decode as photographs of their
// size.
//   IMAGES=/data/cifar10/train_map.txt image_reading --benchmark_filter=Files      measures 32 x 32 pixels from a map
//   or folder
#include <benchmark/benchmark.h>
#include <jpeglib.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "reader/image/image_source.h"
#include "reader/minibatch_maker.h"

namespace tutti::reader {
namespace {

// Waves with grain.
std::vector<std::uint8_t> picture(std::size_t width, std::size_t height, std::uint64_t seed) {
  std::vector<std::uint8_t> pixels(width * height * 3);
  CounterRandom random(seed, 0);
  const double fx = 0.02 + 0.1 * random.uniform_double(), fy = 0.02 + 0.1 * random.uniform_double();
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        const double wave = std::sin(fx * static_cast<double>(x) + static_cast<double>(c)) *
                            std::cos(fy * static_cast<double>(y) * static_cast<double>(1 + c));
        pixels[(y * width + x) * 3 + c] =
            static_cast<std::uint8_t>(128 + 90 * wave + 24 * (random.uniform_double() - 0.5));
      }
  return pixels;
}

std::string jpeg(std::size_t width, std::size_t height, std::uint64_t seed) {
  const auto pixels = picture(width, height, seed);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (std::size_t y = 0; y < height; ++y) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + y * width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

void per_second(benchmark::State& state, std::int64_t images) {
  state.counters["images/s"] = benchmark::Counter(static_cast<double>(images), benchmark::Counter::kIsRate);
}

void decode(benchmark::State& state) {
  const std::string file = jpeg(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)), 1);
  Decoder decoder;
  Scratch scratch;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        decoder.decode({reinterpret_cast<const unsigned char*>(file.data()), file.size()}, false, scratch).bytes);
  per_second(state, state.iterations());
}
BENCHMARK(decode)->Args({32, 32})->Args({500, 375})->Unit(benchmark::kMicrosecond);

// 500 x 375 pixels, a crop of 320 x 320 of it where the transform wants one.
void transform(benchmark::State& state, const Transform& t, std::int64_t width, std::int64_t height) {
  const auto pixels = picture(static_cast<std::size_t>(width), static_cast<std::size_t>(height), 1);
  Image image{{width, height, 3}, static_cast<std::size_t>(width * 3)};
  image.bytes = pixels.data();
  Scratch scratch;
  Resizer resizer;
  std::uint64_t i = 0;
  for (auto _ : state) {
    Work work{CounterRandom(1, ++i), 0, scratch, resizer};
    benchmark::DoNotOptimize(t(image, work).size.width);
  }
  per_second(state, state.iterations());
}
void scale(benchmark::State& state, Interpolation interpolation) {
  ScaleSettings s;
  s.width = s.height = 224;
  s.interpolation = interpolation;
  transform(state, make_scale(s), 320, 320);
}
BENCHMARK_CAPTURE(scale, linear, Interpolation::linear)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scale, cubic, Interpolation::cubic)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scale, lanczos, Interpolation::lanczos)->Unit(benchmark::kMicrosecond);
void crop_and_mirror(benchmark::State& state) {
  CropSettings s;
  s.width = s.height = 320;
  s.type = CropType::random_side;
  s.flip = true;
  transform(state, make_crop(s), 500, 375);
}
BENCHMARK(crop_and_mirror)->Unit(benchmark::kMicrosecond);
void color(benchmark::State& state) { transform(state, make_color({0.2, 0.2, 0.4}), 224, 224); }
BENCHMARK(color)->Unit(benchmark::kMicrosecond);
void mean(benchmark::State& state) {
  transform(state, make_mean({224, 224, 3}, std::vector<float>(224 * 224 * 3, 100)), 224, 224);
}
BENCHMARK(mean)->Unit(benchmark::kMicrosecond);

// Files as they lie on disk (in the system's cache after the first sweep) to minibatches.
class Files {
 public:
  Files(std::size_t width, std::size_t height, int n)
      : folder_(std::filesystem::temp_directory_path() / ("image_reading_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream map(path());
    for (int i = 0; i < n; ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      std::ofstream(folder_ / name, std::ios::binary) << jpeg(width, height, static_cast<std::uint64_t>(i));
      map << ".../" << name << "\t" << i % 10 << "\n";
    }
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::string path() const { return (folder_ / "map.txt").string(); }

 private:
  std::filesystem::path folder_;
};

void read(benchmark::State& state, const std::string& path, std::int64_t side) {
  ImageSourceOptions o;
  o.file = path;
  o.size = {side, side, 3};
  o.features = {"features", static_cast<std::size_t>(side * side * 3), false};
  o.labels = {"labels", 10, false};
  o.loaders = state.range(0);
  CropSettings crop;
  crop.type = CropType::random_side;
  crop.side = {0.6, 1};
  crop.jitter = crop.flip = true;
  ScaleSettings scale;
  scale.width = scale.height = side;
  o.chain.push_back(make_crop(crop));
  o.chain.push_back(make_scale(scale));
  o.chain.push_back(make_mean(o.size, std::vector<float>(o.features.dim, 100)));
  DirectReader reader(MinibatchMaker(std::make_unique<ImageSource>(std::move(o)), {}));
  std::int64_t images = 0;
  for (std::int64_t epoch = 0; auto _ : state) {
    reader.start_epoch({.epoch = epoch++, .minibatch = 128});
    while (const Batch* b = reader.next()) images += b->samples;
  }
  per_second(state, images);
}
void small_files(benchmark::State& state) {
  if (const char* path = std::getenv("IMAGES")) return read(state, path, 32);
  const Files files(32, 32, 2000);
  read(state, files.path(), 32);
}
BENCHMARK(small_files)
    ->Name("Files/32x32")
    ->Arg(1)
    ->Arg(2)
    ->ArgName("loaders")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
void large_files(benchmark::State& state) {
  const Files files(500, 375, 128);
  read(state, files.path(), 224);
}
BENCHMARK(large_files)
    ->Name("Files/500x375")
    ->Arg(1)
    ->Arg(2)
    ->ArgName("loaders")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::reader

BENCHMARK_MAIN();
