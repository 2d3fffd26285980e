// SPDX-License-Identifier: Apache-2.0
// ImageReader from its block to minibatches: layouts, maps, folders, archives; the same data for any number of ranks
// and loaders; what is damaged is left out and counted.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "block_support.h"
#include "config/load.h"
#include "image_support.h"
#include "tutti/reader.h"

namespace tutti::reader::image_reader_test {
namespace {

struct Sample {
  std::vector<float> image, label;
  bool operator==(const Sample&) const = default;
};
// What one rank sees of each minibatch.
using Epoch = std::vector<std::vector<Sample>>;

Epoch read_images(Reader& reader, const EpochPlan& plan) {
  Epoch epoch;
  reader.start_epoch(plan);
  const auto& streams = reader.streams();
  while (const Batch* b = reader.next()) {
    auto& batch = epoch.emplace_back();
    EXPECT_EQ(b->samples, b->sequences);
    for (std::size_t i = 0; i < static_cast<std::size_t>(b->sequences); ++i) {
      const auto column = [&](std::size_t s) {
        const auto d = b->streams[s].dense.subspan(i * streams[s].dim, streams[s].dim);
        return std::vector<float>(d.begin(), d.end());
      };
      batch.push_back({column(0), column(1)});
    }
  }
  return epoch;
}

class ImageReaderTest : public ::testing::Test {
 protected:
  // Pictures 0 to n-1 of 9 x 8 pixels, PNG and JPEG in turn, their number modulo 3 as label.
  std::string map_of(int n, const std::string& name = "map.txt") {
    std::string map;
    for (int i = 0; i < n; ++i) {
      const Picture p = numbered(9, 8, 3, static_cast<unsigned>(i));
      const std::string file = "images/" + std::to_string(i) + (i % 2 ? ".jpg" : ".png");
      folder_.write(file, i % 2 ? jpeg_of(p) : png_of(p));
      map += ".../" + file + "\t" + std::to_string(i % 3) + "\n";
    }
    return folder_.write(name, map);
  }
  static std::string block(const std::string& file, const std::string& features = "", const std::string& more = "") {
    return "readerType=ImageReader\nfile=\"" + file + "\"\n" + more + "\nx=[width=9\nheight=8\nchannels=3\n" +
           features + "]\ny=[labelDim=3]";
  }
  std::unique_ptr<Reader> reader(const std::string& settings, const std::string& action = "train") {
    Outcome o = make(settings, action);
    EXPECT_TRUE(o.reader) << o.errors;
    return std::move(o.reader);
  }
  static void expect_error(const std::string& settings, const std::vector<std::string>& parts) {
    std::string text;
    Outcome o = make(settings);
    text = o.errors;
    if (o.reader) {
      try {
        read_images(*o.reader, {.minibatch = 100});
      } catch (const std::exception& e) {
        text = e.what();
      }
    }
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }
  TemporaryFolder folder_;
};

TEST_F(ImageReaderTest, LayoutAndLabels) {
  const Picture p = numbered(9, 8);
  folder_.write("a.png", png_of(p));
  const std::string map = folder_.write("map.txt", folder_.path("a.png") + "\t2\r\n\n.../a.png\t0");
  auto chw = reader(block(map), "test");
  EXPECT_EQ(chw->streams()[0].name, "x");
  EXPECT_EQ(chw->streams()[0].dim, 9u * 8 * 3);
  EXPECT_EQ(chw->streams()[1].dim, 3u);
  EXPECT_EQ(chw->sweep_samples(), 2);
  const Epoch epoch = read_images(*chw, {.minibatch = 2});
  ASSERT_EQ(epoch.size(), 1u);
  EXPECT_EQ(epoch[0][0].label, (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(epoch[0][1].label, (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(epoch[0][0].image, epoch[0][1].image);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t y = 0; y < 8; ++y)
      for (std::size_t x = 0; x < 9; ++x) EXPECT_EQ(epoch[0][0].image[x + 9 * (y + 8 * c)], p.at(x, y, c));
  for (const char* format : {"nhwc", "legacy"}) {
    const Epoch hwc = read_images(*reader(block(map, std::string("mbFormat=") + format), "test"), {});
    EXPECT_EQ(hwc[0][0].image, std::vector<float>(p.pixels.begin(), p.pixels.end()));
  }
  const std::string grey =
      "readerType=ImageReader;file=\"" + map + "\"\nf=[width=9;height=8;channels=1]\nl=[labelDim=3;format=sparse]";
  auto g = reader(grey);
  EXPECT_EQ(g->streams()[0].dim, 72u);
  EXPECT_TRUE(g->streams()[1].sparse);
  g->start_epoch({});
  EXPECT_EQ(g->next()->streams[1].indices.size(), 2u);
}

// Shares put together are the whole, for every number of ranks and loaders, over two sweeps, from any place on.
TEST_F(ImageReaderTest, SameImagesForAnyRanksAndLoaders) {
  const std::string map = map_of(23);
  const std::string random =
      "cropType=randomarea\nareaRatio=0.3:1\naspectRatio=0.6:1\njitterType=uniratio\n"
      "brightnessRadius=0.2\ncontrastRadius=0.2\nsaturationRadius=0.4";
  const EpochPlan plan{.samples = 46, .minibatch = 5};
  const Epoch whole = read_images(*reader(block(map, random, "numCPUThreads=1")), plan);
  ASSERT_EQ(whole.size(), 10u) << "minibatches end with the sweep";
  for (const int ranks : {1, 2, 3})
    for (const char* loaders : {"numCPUThreads=1", "numCPUThreads=4"}) {
      Epoch together(whole.size());
      std::vector<Epoch> parts;
      for (int r = 0; r < ranks; ++r) {
        EpochPlan mine = plan;
        mine.rank = r, mine.ranks = ranks;
        parts.push_back(read_images(*reader(block(map, random, loaders)), mine));
        ASSERT_EQ(parts.back().size(), whole.size());
      }
      std::vector<std::size_t> next(static_cast<std::size_t>(ranks));
      std::size_t place = 0;
      for (std::size_t b = 0; b < whole.size(); ++b) {
        std::fill(next.begin(), next.end(), 0);
        for (std::size_t i = 0; i < whole[b].size(); ++i, ++place) {
          if (place == 23) place = 0;
          const std::size_t r = place % static_cast<std::size_t>(ranks);
          together[b].push_back(parts[r][b][next[r]++]);
        }
      }
      EXPECT_TRUE(together == whole) << ranks << " ranks, " << loaders;
    }
  // Resumed in the middle of the second sweep.
  EpochPlan late = plan;
  late.start = 33;
  const Epoch rest = read_images(*reader(block(map, random)), late);
  EXPECT_TRUE(rest == Epoch(whole.begin() + 7, whole.end()));
  // Sweeps differ in crops as well as in order, and so do seeds.
  std::map<std::vector<float>, int> images;
  for (const auto& batch : whole)
    for (const auto& s : batch) ++images[s.image];
  EXPECT_GT(images.size(), 40u);
  EXPECT_FALSE(read_images(*reader(block(map, random, "randomizationSeed=5")), plan) == whole);
  EXPECT_TRUE(read_images(*reader(block(map, random, "randomize=none")), plan) !=
              read_images(*reader(block(map, random, "randomize=none")), {.epoch = 1, .samples = 46, .minibatch = 5}))
      << "file order, but new crops";
}

TEST_F(ImageReaderTest, TenViewsOfEachImage) {
  const std::string map = map_of(4);
  auto r = reader(block(map, "cropType=multiview10\ncropSize=6:5\n"), "test");
  EXPECT_EQ(r->sweep_samples(), 40);
  const Epoch epoch = read_images(*r, {.minibatch = 7});
  std::vector<Sample> all;
  for (const auto& batch : epoch) all.insert(all.end(), batch.begin(), batch.end());
  ASSERT_EQ(all.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(all[i].label[i / 10 % 3], 1) << i;
  EXPECT_NE(all[0].image, all[1].image);
  // The mirrored views are the others from right to left (here after scaling, which treats both sides alike).
  for (std::size_t v = 0; v < 5; ++v)
    for (std::size_t row = 0; row < 24; ++row)
      for (std::size_t x = 0; x < 9; ++x)
        EXPECT_NEAR(all[v].image[row * 9 + x], all[v + 5].image[row * 9 + 8 - x], 1) << v;
}

// 75 * 0.9 is 67.5, but the ratio is a float, which is a little less than 0.9.
TEST_F(ImageReaderTest, RatiosAreFloats) {
  const Picture p = numbered(75, 75, 1);
  folder_.write("a.png", png_of(p));
  const std::string map = folder_.write("map.txt", ".../a.png\t0\n");
  const auto crop = reader("readerType=ImageReader\nfile=\"" + map +
                               "\"\nx=[width=67\nheight=67\nchannels=1\nsideRatio=0.9]\ny=[labelDim=3]",
                           "test");
  const auto image = read_images(*crop, {})[0][0].image;
  for (std::size_t y = 0; y < 67; ++y)
    for (std::size_t x = 0; x < 67; ++x) ASSERT_EQ(image[x + 67 * y], p.at(x + 4, y + 4)) << x << ' ' << y;
}

TEST_F(ImageReaderTest, FoldersThatLackAClass) {
  folder_.write("cat/a.png", png_of(plain(9, 8, 1, 2, 3)));
  folder_.write("dog/a.png", png_of(plain(9, 8, 1, 2, 3)));
  const auto logged = [&] {
    testing::internal::CaptureStderr();
    reader(block(folder_.path()), "test")->sweep_samples();
    return testing::internal::GetCapturedStderr();
  };
  const std::string warning = logged();
  EXPECT_NE(warning.find("has 2 sub-folders, but labelDim = 3"), std::string::npos) << warning;
  EXPECT_NE(warning.find("fix: give every class a sub-folder"), std::string::npos) << warning;
  std::filesystem::create_directories(folder_.path("ant"));
  EXPECT_EQ(logged(), "");
}

TEST_F(ImageReaderTest, FoldersOfClasses) {
  for (const char* name : {"b/2.png", "b/1.png", "a/x.png", "c/.hidden", "c/z.png"})
    folder_.write(name, png_of(plain(9, 8, static_cast<std::uint8_t>(name[2]), 0, 0)));
  const Epoch epoch = read_images(*reader(block(folder_.path()), "test"), {.minibatch = 10});
  ASSERT_EQ(epoch[0].size(), 4u);
  const char expected[] = "x12z";
  const std::size_t labels[] = {0, 1, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(epoch[0][i].image[0], expected[i]);
    EXPECT_EQ(epoch[0][i].label[labels[i]], 1);
  }
  folder_.write("d/q.png", png_of(plain(9, 8, 1, 2, 3)));
  expect_error(block(folder_.path()), {"d/q.png", "the label 3 is outside 0 to 2"});
  const TemporaryFolder empty;
  expect_error(block(empty.path()), {"names no usable image"});
}

TEST_F(ImageReaderTest, Archives) {
  int error = 0;
  const std::string path = folder_.path("a.zip");
  zip_t* z = zip_open(path.c_str(), ZIP_CREATE, &error);
  ASSERT_TRUE(z);
  std::vector<std::string> files;
  for (unsigned i = 0; i < 6; ++i) files.push_back(png_of(numbered(9, 8, 3, i)));
  for (unsigned i = 0; i < 6; ++i)
    zip_file_add(z, ("train/" + std::to_string(i) + ".png").c_str(),
                 zip_source_buffer(z, files[i].data(), files[i].size(), 0), 0);
  ASSERT_EQ(zip_close(z), 0);
  std::string map;
  for (int i = 0; i < 6; ++i)
    map +=
        "...\x2F"
        "a.zip@/train/" +
        std::to_string(i) + ".png\t1\n";
  const Epoch epoch =
      read_images(*reader(block(folder_.write("map.txt", map), "", "numCPUThreads=3"), "test"), {.minibatch = 10});
  ASSERT_EQ(epoch[0].size(), 6u);
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(epoch[0][i].image[0], numbered(9, 8, 3, i).pixels[0]);
  expect_error(block(folder_.write("map.txt", map + ".../a.zip@/train/7.png\t1\n")),
               {"map.txt:7:", "the archive has no 'train/7.png'"});
}

// Only the archive has a checksum of what it stores.
TEST_F(ImageReaderTest, DamagedArchives) {
  int error = 0;
  const std::string path = folder_.path("a.zip"), image = jpeg_of(numbered(9, 8, 3, 0));
  zip_t* z = zip_open(path.c_str(), ZIP_CREATE, &error);
  ASSERT_TRUE(z);
  const auto index = zip_file_add(z, "0.jpg", zip_source_buffer(z, image.data(), image.size(), 0), 0);
  ASSERT_EQ(zip_set_file_compression(z, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0), 0);
  ASSERT_EQ(zip_close(z), 0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::size_t at = bytes.find("\xff\xdb") + 5;  // in a table of divisors, which may hold any numbers
  ASSERT_LT(at, bytes.size());
  file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ 64));
  file.close();
  expect_error(block(folder_.write("map.txt", ".../a.zip@/0.jpg\t1\n")), {"map.txt:1:", "a.zip@/0.jpg", "CRC"});
}

TEST_F(ImageReaderTest, MeanImage) {
  std::string numbers;
  for (int i = 0; i < 216; ++i) numbers += std::to_string(i) + " ";
  const auto mean = [&](const std::string& size) {
    return folder_.write(
        "mean.xml", "<opencv_storage><Channel>3</Channel>" + size +
                        "<MeanImg type_id=\"opencv-matrix\"><rows>1</rows><cols>216</cols><dt>f</dt><data>" + numbers +
                        "</data></MeanImg></opencv_storage>");
  };
  const std::string map = map_of(1);
  const std::string features = "mbFormat=nhwc\nmeanFile=\"" + mean("<Row>8</Row><Col>9</Col>") + "\"";
  const Epoch epoch = read_images(*reader(block(map, features)), {});
  const Picture p = numbered(9, 8, 3, 0);
  for (std::size_t i = 0; i < 216; ++i)
    EXPECT_EQ(epoch[0][0].image[i], static_cast<float>(p.pixels[i]) - static_cast<float>(i));
  mean("<Row>9</Row><Col>8</Col>");
  expect_error(block(map, features), {"the mean image", "8 x 9 x 3", "9 x 8 x 3"});
  mean("<Row>9</Row><Col>9</Col>");
  expect_error(block(map, features), {"MeanImg has 216 numbers"});
  expect_error(block(map, "meanFile=gone.xml"), {"'gone.xml' cannot be read"});
}

TEST_F(ImageReaderTest, WrongLines) {
  const std::string good = map_of(2);
  const std::string start = ".../images/0.png\t1\n";
  const auto with = [&](const std::string& line) {
    return block(folder_.write("bad.txt", start + line + "\n" + start));
  };
  expect_error(with(".../images/0.png\t3"), {"bad.txt:2:", "the label 3 is outside 0 to 2"});
  expect_error(with(".../images/0.png\t-1"), {"bad.txt:2:", "the label -1 is outside 0 to 2"});
  expect_error(with(".../images/0.png\tcat"), {"bad.txt:2:18:", "the label 'cat' is not a whole number"});
  expect_error(with(".../images/0.png\t1.5"), {"'1.5' is not a whole number"});
  expect_error(with(".../images/0.png\t99999999999999999999"), {"is outside 0 to 2"});
  expect_error(with(".../images/0.png 1"), {"bad.txt:2:", "the line has 1 column", "path<TAB>label"});
  expect_error(with("a\tb\tc\td"), {"the line has 4 columns"});
  expect_error(with("\t1"), {"names no image"});
  expect_error(with(".../images/none.png\t1"), {"bad.txt:2:", "images/none.png' cannot be read: No such file"});
  expect_error(block(folder_.write("bad.txt", "\n \n")), {"names no usable image"});
  expect_error(block(folder_.write("bad.txt", "x\ty\nx\ty\n"), "", "maxErrors=5"), {"names no usable image"});
}

// One image of each kind of damage in the middle of good ones.
TEST_F(ImageReaderTest, DamagedImagesAreLeftOutUpToMaxErrors) {
  map_of(9);
  folder_.write("images/2.png", png_of(numbered(9, 8)).substr(0, 80));
  const std::string jpeg = jpeg_of(numbered(9, 8, 3, 5));
  folder_.write("images/5.jpg", jpeg.substr(0, jpeg.size() * 3 / 4));
  folder_.write("images/6.png", "no image at all");
  const std::string map = folder_.path("map.txt");
  expect_error(block(map, "", "maxErrors=2"), {"maximum number of allowed errors", "map.txt:3:", "map.txt:6:",
                                               "map.txt:7:", "broken PNG", "broken JPEG", "neither JPEG nor PNG"});
  expect_error(block(map), {"maximum number of allowed errors"});
  expect_error(block(map, "", "maxErrors=2\ncheckData=images"), {"map.txt:3:", "map.txt:6:", "map.txt:7:"});
  for (const char* loaders : {"maxErrors=3\nnumCPUThreads=1", "maxErrors=3\nnumCPUThreads=3"}) {
    auto r = reader(block(map, "", loaders), "test");
    // Two sweeps: the same images are met again and not counted again. All steps are there.
    const EpochPlan plan{.samples = 18, .minibatch = 2};
    const Epoch epoch = read_images(*r, plan);
    ASSERT_EQ(epoch.size(), 10u);
    const std::size_t sizes[] = {2, 1, 1, 1, 1};
    for (std::size_t b = 0; b < 10; ++b) EXPECT_EQ(epoch[b].size(), sizes[b % 5]) << b;
    EXPECT_EQ(
        epoch[1][0].image[0],
        static_cast<float>(read_images(*reader(block(map, "", loaders), "test"), {.minibatch = 4})[0][2].image[0]));
    // As many minibatches for a rank that has nothing but damage.
    EpochPlan third = plan;
    third.rank = 2, third.ranks = 3;
    EXPECT_EQ(read_images(*r, third).size(), 10u);
    auto checked = reader(block(map, "", std::string(loaders) + "\ncheckData=images"), "test");
    EXPECT_EQ(checked->sweep_samples(), 6);
  }
}

TEST_F(ImageReaderTest, ChangedMapsEndTheRun) {
  const std::string map = map_of(3);
  auto r = reader(block(map));
  read_images(*r, {});
  folder_.write("map.txt", ".../images/0.png\t1\n");
  EXPECT_THROW(r->start_epoch({.epoch = 1}), Error);
}

TEST_F(ImageReaderTest, MistakesInTheBlock) {
  const std::string map = map_of(1);
  expect_error("readerType=ImageReader;file=\"" + map + "\"\ny=[labelDim=3]", {"no block has 'width'"});
  expect_error("readerType=ImageReader;file=\"" + map + "\"\nx=[width=3;height=3;channels=3]",
               {"no block has 'labelDim'"});
  expect_error("readerType=ImageReader;file=gone\nx=[width=3;height=3;channels=3]\ny=[labelDim=3]",
               {"'gone' cannot be read"});
  expect_error(block(map, "cropTyp=center"), {"did you mean 'cropType'"});
  expect_error(block(map, "cropType=middle"), {"'cropType' cannot be 'middle'"});
  expect_error(block(map, "sideRatio=1.5"), {"sideRatio is a ratio"});
  expect_error(block(map, "sideRatio=0.5\nareaRatio=0.5"), {"keep one of them"});
  expect_error(block(map, "", "grayscale=true"), {"grayscale = true, but channels = 3"});
  expect_error(block(map, "", "maxErrors=-1"), {"maxErrors is a count"});
  expect_error(block(map, "padValue=300"), {"padValue"});
}

TEST_F(ImageReaderTest, SettingsWithoutEffectAreNoted) {
  const std::string map = map_of(1);
  const auto matrix = [](const std::string& name, int rows, const std::string& numbers) {
    return fmt::format("<{0} type_id=\"opencv-matrix\"><rows>{1}</rows><cols>3</cols><dt>f</dt><data>{2}</data></{0}>",
                       name, rows, numbers);
  };
  const std::string light =
      folder_.write("light.xml", "<opencv_storage>" + matrix("EigVal", 1, "1 2 3") +
                                     matrix("EigVec", 3, "1 0 0 0 1 0 0 0 1") + "</opencv_storage>");
  const std::string file = "intensityFile=\"" + light + "\"";
  const std::pair<std::string, std::string> cases[] = {
      {"intensityStdDev=0.1", "intensityStdDev has no effect without intensityFile"},
      {file, "intensityFile has no effect without intensityStdDev"},
      {"cropSize=4\nsideRatio=0.5", "sideRatio has no effect with cropSize"},
      {"padValue=3", "padValue has no effect without scaleMode = pad"}};
  for (const auto& [features, note] : cases) {
    const Outcome o = make(block(map, features));
    EXPECT_EQ(o.errors, "");
    EXPECT_NE(o.notices.find(note), std::string::npos) << note << " is not in:\n" << o.notices;
  }
  EXPECT_EQ(make(block(map, file + "\nintensityStdDev=0.1\ncropSize=4\nscaleMode=pad\npadValue=3")).notices, "");
}

TEST_F(ImageReaderTest, SettingsInEffectAndInheritance) {
  const std::string map = map_of(1);
  const auto outer =
      config::record_from_text("numCPUThreads=7\nreader=[" + block(map, "cropType=randomside\nhflip=false") + "]");
  const ReaderType effective = effective_reader(outer.block("reader"), {.action = "train"});
  const std::string dump = config::dump_fields(effective.name, effective.describe);
  EXPECT_NE(dump.find("numCPUThreads = 0"), std::string::npos) << "the outer one is about training\n" << dump;
  EXPECT_NE(dump.find("cropType = randomside"), std::string::npos) << dump;
  EXPECT_NE(dump.find("hflip = false"), std::string::npos) << dump;
  EXPECT_NE(dump.find("labelDim = 3"), std::string::npos) << dump;
}

}  // namespace
}  // namespace tutti::reader::image_reader_test
