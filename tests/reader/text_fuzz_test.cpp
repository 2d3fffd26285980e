// SPDX-License-Identifier: Apache-2.0
// Damaged text files: whatever stands in them, the outcome is data or an error, and scanning and reading agree.
#include <gtest/gtest.h>

#include <random>

#include "reader_support.h"

namespace tutti::reader::text_fuzz_test {
namespace {

const std::vector<TextStream> streams{{"a", "x", 3, false}, {"b", "s", 50, true}, {"c", "label", 1, false}};

std::string healthy(bool ids) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    if (ids) text += std::to_string(i / 3) + " ";
    text += "|x " + std::to_string(i) + " -1.5e-3 0.25 |s 3:1 49:" + std::to_string(i) + " |label 1 |# note\n";
  }
  return text;
}

std::string damaged(std::string text, std::mt19937& random) {
  static const std::string characters = "|#:.e+-0123456789 \t\r\n\x01\x7F\xFFxsl";
  for (int n = static_cast<int>(1 + random() % 6); n > 0 && !text.empty(); --n) {
    const std::size_t at = random() % text.size();
    switch (random() % 5) {
      case 0:
        text[at] = characters[random() % characters.size()];
        break;
      case 1:
        text.insert(at, 1, characters[random() % characters.size()]);
        break;
      case 2:
        text.erase(at, 1 + random() % 9);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      case 4:
        text.resize(at);
        break;
    }
  }
  return text;
}

// Reads everything twice; the walk must deliver what the index promised.
void read_all(const std::string& path, std::int64_t budget, std::uint64_t keep) {
  TextReaderOptions o = text_options(path, streams, budget);
  o.keep_bytes = keep;
  DirectReader reader(MinibatchMaker(std::make_unique<TextSource>(o), {}));
  const std::int64_t samples = reader.sweep_samples();
  for (int epoch = 0; epoch < 2; ++epoch) {
    reader.start_epoch({.epoch = epoch, .minibatch = 5});
    std::int64_t seen = 0;
    while (const Batch* b = reader.next()) {
      ASSERT_EQ(b->samples, b->global_samples);
      for (const auto& s : b->streams) {
        ASSERT_EQ(s.sequence_begin.size(), static_cast<std::size_t>(b->sequences) + 1);
        ASSERT_EQ(static_cast<std::size_t>(s.sequence_begin.back()), s.columns);
        for (std::size_t i = 1; i < s.sequence_begin.size(); ++i)
          ASSERT_LT(s.sequence_begin[i - 1], s.sequence_begin[i]);
        for (const auto i : s.indices) ASSERT_TRUE(i >= 0 && i < 50);
      }
      ASSERT_EQ(b->streams[0].dense.size(), 3 * b->streams[0].columns);
      ASSERT_EQ(b->streams[1].column_begin.size(), b->streams[1].columns + 1);
      seen += b->samples;
    }
    ASSERT_EQ(seen, samples);
  }
}

TEST(TextFuzz, DataOrAnErrorButNeverACrash) {
  std::mt19937 random(7);
  const TemporaryFile file("");
  int good = 0, bad = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = damaged(healthy(i % 2 == 0), random);
    file.write(text);
    try {
      read_all(file.path(), i % 3 == 0 ? 0 : 100, i % 5 == 0 ? 0 : 1 << 20);
      ++good;
    } catch (const ConfigError& e) {
      ASSERT_NE(std::string(e.what()).find("error: "), std::string::npos);
      ++bad;
    }
    ASSERT_FALSE(HasFatalFailure()) << text;
  }
  EXPECT_GT(good, 400);
  EXPECT_GT(bad, 400);
}

TEST(TextFuzz, Noise) {
  std::mt19937 random(8);
  const TemporaryFile file("");
  for (int i = 0; i < 500; ++i) {
    std::string text = i % 2 ? "|" : "1 ";
    for (unsigned n = random() % 300; n > 0; --n) text += static_cast<char>(random());
    file.write(text + "\n|x 1 2 3 |s 1:1 |label 0\n");
    try {
      read_all(file.path(), 1000, 1 << 20);
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace
}  // namespace tutti::reader::text_fuzz_test
