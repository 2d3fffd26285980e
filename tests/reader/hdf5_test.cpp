// SPDX-License-Identifier: Apache-2.0
// HDF5 files: number types, samples and sequences, several files and ranks, and what is said about broken ones.
#include "reader/hdf5/hdf5_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "config/load.h"
#include "hdf5_support.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::hdf5_test {
namespace {

Hdf5ReaderOptions options(const std::vector<std::string>& paths,
                          std::vector<std::pair<std::string, Hdf5Stream>> streams) {
  Hdf5ReaderOptions o;
  for (const auto& p : paths) o.paths.push_back({p, {}});
  o.input = std::move(streams);
  return o;
}

using Everything = EverythingOf<Hdf5Source>;

void expect_error(const Hdf5ReaderOptions& o, const std::vector<std::string>& parts) {
  expect_parts(error_of([&] { Everything{o}; }), parts);
}

std::vector<float> counted(std::size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

TEST(Hdf5, EveryNumberType) {
  const TemporaryFile file("");
  const std::vector<double> numbers{1, 0, 3, 100};
  {
    Hdf5Writer w(file.path());
    int i = 0;
    for (const hid_t type : {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_STD_I8BE, H5T_STD_U8LE, H5T_STD_I16LE,
                             H5T_STD_I32BE, H5T_STD_I64LE, H5T_STD_U64BE, H5T_IEEE_F32BE, H5T_IEEE_F64BE})
      w.add(fmt::format("x{}", i++), {2, 2}, numbers, type);
  }
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(
        copy(Everything(options({file.path()}, {{"x", {.dataset = fmt::format("x{}", i)}}})).batch->streams[0].dense),
        (std::vector<float>{1, 0, 3, 100}));
}

TEST(Hdf5, PicturesAndClasses) {
  const TemporaryFile file("");
  {
    Hdf5Writer w(file.path());
    w.add("images/raw", {3, 2, 2, 1}, counted(12));
    w.add("label", {3}, std::vector<int>{2, 0, 1});
    w.add("column", {3, 1}, std::vector<float>{0, 1, 1});
  }
  Everything e(options({file.path()}, {{"x", {.dataset = "images/raw", .scale = 0.5}},
                                       {"y", {.dataset = "label", .classes = 3}},
                                       {"z", {.dataset = "column", .classes = 2, .sparse = true}}}));
  EXPECT_EQ(e.source.streams()[0].dim, 4u);
  EXPECT_EQ(e.batch->samples, 3);
  std::vector<float> half = counted(12);
  for (float& v : half) v /= 2;
  EXPECT_EQ(copy(e.batch->streams[0].dense), half);
  EXPECT_EQ(copy(e.batch->streams[1].dense), (std::vector<float>{0, 0, 1, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(e.batch->streams[2].indices.begin(), e.batch->streams[2].indices.end()),
            (std::vector<std::int32_t>{0, 1, 1}));
}

TEST(Hdf5, SequencesWithLabelsPerSequenceAndPerStep) {
  const TemporaryFile file("");
  {
    Hdf5Writer w(file.path());
    w.add("x", {2, 3, 2}, counted(12));
    std::vector<float> padded = counted(12);
    padded[10] = padded[11] = std::numeric_limits<float>::quiet_NaN();
    w.add("padded", {2, 3, 2}, padded);
    w.add("one", {2}, std::vector<int>{1, 0});
    w.add("each", {2, 3}, std::vector<int>{0, 1, 3, 3, 2, 9});
    w.add("steps", {2}, std::vector<int>{3, 2});
  }
  auto o = options({file.path()}, {{"x", {.dataset = "padded"}},
                                   {"one", {.dataset = "one", .classes = 2}},
                                   {"each", {.dataset = "each", .classes = 4, .sparse = true}}});
  o.lengths = "steps";
  Everything e(o);
  EXPECT_EQ(e.batch->samples, 5);
  EXPECT_EQ(copy(e.batch->streams[0].sequence_begin), (std::vector<std::int64_t>{0, 3, 5}));
  EXPECT_EQ(copy(e.batch->streams[0].dense), counted(10));
  EXPECT_EQ(copy(e.batch->streams[1].sequence_begin), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(std::vector<std::int32_t>(e.batch->streams[2].indices.begin(), e.batch->streams[2].indices.end()),
            (std::vector<std::int32_t>{0, 1, 3, 3, 2}));
  // dim says whether three axes are steps or a picture.
  o.lengths.clear();
  o.input = {{"x", {.dataset = "x", .dim = 6}}};
  EXPECT_EQ(Everything(o).batch->samples, 2);
}

// Three files, each row holding its own number in the whole data set.
struct ThreeFiles {
  TemporaryFile a{""}, b{""}, c{""};
  ThreeFiles() {
    float first = 0;
    for (const auto& [file, rows] : {std::pair{&a, 40}, {&b, 1}, {&c, 59}}) {
      Hdf5Writer w(file->path());
      w.add("x", {static_cast<hsize_t>(rows)}, counted(static_cast<std::size_t>(rows), first), H5T_NATIVE_DOUBLE,
            rows > 1 ? 7 : 0);
      first += static_cast<float>(rows);
    }
  }
  Hdf5ReaderOptions options(std::int64_t keep_bytes, std::int64_t chunk_bytes) const {
    auto o = hdf5_test::options({a.path(), b.path(), c.path()}, {{"x", {.dataset = "x"}}});
    o.keep_bytes = keep_bytes;
    o.chunk_bytes = chunk_bytes;
    return o;
  }
};

TEST(Hdf5, SameMinibatchesForAnyNumberOfRanks) {
  const ThreeFiles files;
  for (const std::int64_t keep : {0, 1 << 20})
    for (const std::int64_t chunk : {1, 200, 1 << 20})
      for (const std::int64_t window : {0, 10, 50}) {
        const auto reader = [&] {
          return DirectReader(
              MinibatchMaker(std::make_unique<Hdf5Source>(files.options(keep, chunk)), {true, window, 0}));
        };
        DirectReader alone = reader();
        for (const std::int64_t epoch : {0, 1}) {
          const auto whole = read_epoch(alone, {.epoch = epoch, .minibatch = 7});
          std::vector<std::uint32_t> all;
          for (const Seen& s : whole) all.insert(all.end(), s.sequences.begin(), s.sequences.end());
          std::vector<std::uint32_t> sorted = all, expected(100);
          std::sort(sorted.begin(), sorted.end());
          std::iota(expected.begin(), expected.end(), 0u);
          ASSERT_EQ(sorted, expected);
          ASSERT_NE(all, expected);
          for (const int ranks : {2, 3}) {
            std::vector<std::vector<Seen>> shares;
            for (int r = 0; r < ranks; ++r) {
              DirectReader one = reader();
              shares.push_back(read_epoch(one, {.epoch = epoch, .minibatch = 7, .rank = r, .ranks = ranks}));
              ASSERT_EQ(shares.back().size(), whole.size());
            }
            std::size_t place = 0;
            for (std::size_t step = 0; step < whole.size(); ++step)
              for (const std::uint32_t expected_row : whole[step].sequences) {
                auto& mine = shares[place++ % static_cast<std::size_t>(ranks)][step].sequences;
                ASSERT_FALSE(mine.empty());
                EXPECT_EQ(mine.front(), expected_row);
                mine.erase(mine.begin());
              }
          }
        }
      }
}

TEST(Hdf5, BrokenFilesAreNamedAndTolerated) {
  const ThreeFiles good;
  const TemporaryFile garbage("this is no HDF5 file"), other(""), cut("");
  {
    Hdf5Writer w(other.path());
    w.add("images", {2, 5}, counted(10));
    w.add("x", {2, 2, 2}, counted(8));
    w.add("one-hot", {2, 4}, counted(8));
    w.add("labels", {3}, std::vector<int>{1, 7, 0});
    w.add("single", {}, std::vector<int>{1});
  }
  {
    std::ifstream in(good.c.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    cut.write(bytes.substr(0, bytes.size() / 2));
  }
  const auto with = [&](const std::string& path, const std::string& dataset, std::int64_t dim = 0) {
    return options({path}, {{"x", {.dataset = dataset, .dim = dim}}});
  };
  expect_error(with(garbage.path(), "x"), {garbage.path(), "opening the HDF5 file"});
  expect_error(with(cut.path(), "x"), {cut.path(), "opening the HDF5 file"});
  expect_error(with("/nowhere/a.h5", "x"), {"/nowhere/a.h5"});
  expect_error(with(other.path(), "image"), {other.path(), "no dataset 'image'", "did you mean 'images'", "labels"});
  expect_error(with(other.path(), "x", 5), {other.path(), "'x'", "[2 x 2]", "dim = 5"});
  expect_error(with(other.path(), "single"), {"single value"});
  expect_error(options({other.path()}, {{"x", {.dataset = "x"}}, {"y", {.dataset = "labels", .classes = 9}}}),
               {"3 rows in the dataset 'labels'", "2 in 'x'"});
  expect_error(options({other.path()}, {{"y", {.dataset = "labels", .classes = 7}}}),
               {other.path(), "row 1", "label 7", "0 to 6"});
  expect_error(options({other.path()}, {{"y", {.dataset = "one-hot", .classes = 4}}}),
               {"write dim = 4 instead of labelDim"});

  // Files that cannot be used and rows with wrong labels are left out, up to the budget.
  auto o = good.options(0, 1 << 20);
  o.paths.insert(o.paths.begin() + 1, {{garbage.path(), {}}, {"/nowhere/a.h5", {}}, {other.path(), {}}});
  o.max_errors = 3;
  EXPECT_EQ(Everything(o).batch->samples, 100);
  o.max_errors = 2;
  expect_error(o, {"Reached the maximum number of allowed errors", garbage.path(), "/nowhere/a.h5", other.path()});
  auto labels = options({other.path()}, {{"y", {.dataset = "labels", .classes = 7}}});
  labels.max_errors = 1;
  EXPECT_EQ(copy(Everything(labels).batch->streams[0].dense).size(), 14u);
}

TEST(Hdf5, DamagedRowsAreLeftOutWhenTheyAreRead) {
  const TemporaryFile file("");
  {
    Hdf5Writer w(file.path());
    std::vector<float> x = counted(24, 1000);
    x[13] = std::numeric_limits<float>::quiet_NaN();
    w.add("x", {12, 2}, x, H5T_NATIVE_FLOAT, 2);
  }
  std::ifstream in(file.path(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const float tenth = 1020;  // the first number of row 10, in the last chunk
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&tenth), sizeof tenth));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  file.write(bytes);
  for (const std::int64_t keep : {0, 1 << 20}) {
    auto o = options({file.path()}, {{"x", {.dataset = "x"}}});
    o.keep_bytes = keep;
    o.max_errors = 3;
    Everything e(o);
    EXPECT_EQ(e.share.left_out(), (std::vector<std::uint32_t>{6, 10, 11}));
    EXPECT_EQ(e.batch->samples, 9);
    EXPECT_EQ(e.batch->streams[0].dense[12], 1014);
    EXPECT_EQ(e.source.place(6), fmt::format("row 6 of {}", file.path()));
    std::vector<std::uint32_t> again{11, 0};  // counted once
    e.share.clear();
    e.source.read(again, e.share);
    EXPECT_EQ(e.share.left_out(), std::vector<std::uint32_t>{11});
    o.max_errors = 2;
    expect_error(o, {file.path(), "row 6", "maximum number of allowed errors"});
  }
}

TEST(Hdf5, ARowIsOneErrorHoweverManyItHas) {
  const TemporaryFile file("");
  {
    Hdf5Writer w(file.path());
    std::vector<float> x = counted(12), y(12, 1);
    x[7] = std::numeric_limits<float>::quiet_NaN();
    y[7] = -1;
    w.add("x", {12, 1}, x, H5T_NATIVE_FLOAT, 0);
    w.add("y", {12}, y, H5T_NATIVE_FLOAT, 0);
  }
  for (const std::int64_t keep : {0, 1 << 20}) {
    auto o = options({file.path()}, {{"x", {.dataset = "x"}}, {"y", {.dataset = "y", .classes = 2}}});
    o.keep_bytes = keep;
    o.max_errors = 1;
    Everything e(o);
    EXPECT_EQ(e.batch->samples, 11);
    EXPECT_EQ(e.share.left_out(), std::vector<std::uint32_t>{});
  }
}

TEST(Hdf5, ChunksThatUnpackToAnotherSizeAreLeftOut) {
  const TemporaryFile file("");
  {
    Hdf5Writer w(file.path());
    w.add_deflated("x", {{0, 1, 2, 3}, {4, 5}, {8, 9, 10, 11}, {}, {16, 17, 18, 19, 20}, {20, 21, 22, 23}});
  }
  for (const std::int64_t keep : {0, 1 << 20}) {
    auto o = options({file.path()}, {{"x", {.dataset = "x"}}});
    o.keep_bytes = keep;
    o.max_errors = 6;
    Everything e(o);
    EXPECT_EQ(e.share.left_out(), (std::vector<std::uint32_t>{2, 3, 6, 7, 8, 9}));
    EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23}));
    o.max_errors = 0;
    expect_error(o, {file.path(), "'x'", "damaged chunk, at 2,0: it unpacks to 8 bytes, not 16"});
  }
}

// The last chunk reaches beyond the five rows, and is stored as it is.
TEST(Hdf5, ChunksAtTheEdgeMayBeStoredWithoutFilters) {
  const TemporaryFile path("");
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), how = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  const hsize_t axes[] = {5, 2}, chunk[] = {2, 2};
  H5Pset_chunk(how, 2, chunk);
  H5Pset_deflate(how, 6);
  ASSERT_GE(H5Pset_chunk_opts(how, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS), 0);
  const hid_t file = H5Fcreate(path.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hid_t space = H5Screate_simple(2, axes, nullptr);
  const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, how, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, counted(10).data()), 0);
  H5Dclose(set), H5Sclose(space), H5Fclose(file), H5Pclose(how), H5Pclose(access);
  EXPECT_EQ(copy(Everything(options({path.path()}, {{"x", {.dataset = "x"}}})).batch->streams[0].dense), counted(10));
}

TEST(Hdf5, ChangedFilesEndTheRun) {
  const ThreeFiles files;
  Hdf5Source source(files.options(0, 1 << 20));
  source.index();
  source.begin_epoch();
  std::filesystem::last_write_time(files.b.path(),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(error_of([&] { source.begin_epoch(); }).find(files.b.path()), std::string::npos);
}

TEST(Hdf5, Blocks) {
  const ThreeFiles files;
  const std::string folder = std::filesystem::path(files.a.path()).parent_path().string();
  const TemporaryFile list("# two files\n  .../" + std::filesystem::path(files.a.path()).filename().string() +
                           "\r\n\n" + files.c.path() + "\t# the third");
  const auto make = [](const std::string& settings) {
    return make_reader(
        config::record_from_text("reader=[readerType=HDF5Reader\n" + settings + "]", "run.cntk").block("reader"), {});
  };
  const std::string input = "\ninput=[x=[dataset=x]]";
  EXPECT_EQ(make("file=\"" + files.a.path() + "\"" + input)->sweep_samples(), 40);
  EXPECT_EQ(make("files=\"" + files.a.path() + "\":\"" + files.b.path() + "\"" + input)->sweep_samples(), 41);
  EXPECT_EQ(make("fileList=\"" + list.path() + "\"" + input)->sweep_samples(), 99);
  const auto expect = [&](const std::string& settings, const std::vector<std::string>& parts) {
    const std::string error = error_of([&] { make(settings); });
    for (const auto& part : parts) EXPECT_NE(error.find(part), std::string::npos) << part << " is not in:\n" << error;
  };
  expect(input, {"exactly one of file, files and fileList"});
  expect("file=gone" + input, {"run.cntk:2:", "'gone' cannot be read"});
  const TemporaryFile bad_list(files.a.path() + "\ngone.h5\n");
  expect("fileList=\"" + bad_list.path() + "\"" + input, {bad_list.path() + ":2:1", "gone.h5"});
  expect("file=\"" + files.a.path() + "\"\ninput=[x=[datset=x]]", {"did you mean 'dataset'"});
  expect("file=\"" + files.a.path() + "\"\ninput=[x=[dataset=y]]", {"no dataset 'y'"});
  expect("file=\"" + files.a.path() + "\"\ninput=[x=[dataset=x;dim=5;labelDim=5]]", {"either dim or labelDim"});
}

}  // namespace
}  // namespace tutti::reader::hdf5_test
