// SPDX-License-Identifier: Apache-2.0
// Whatever the text: settings or a ConfigError with a place, never a crash; dumps of random nestings read back.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "config/command_line.h"
#include "config/load.h"
#include "tutti/config.h"

namespace tutti::config::robustness_test {
namespace {

using Engine = std::mt19937_64;

std::size_t draw(Engine& engine, std::size_t below) { return engine() % below; }

const std::string sample =
    "# a comment\nRunDir = \"/tmp/run\"\ncommand = Train:Test # list\ninclude=\nTrain = {\n  action = \"train\"\n  "
    "modelPath = \"$RunDir$/m\"\n"
    "  SGD = [ maxEpochs = 3 ; learningRatesPerMB = 0.8*10:0.2 ; ParallelTrain = [ DataParallelSGD = [ gradientBits = "
    "1 ] ] ]\n"
    "  reader = [ input = [ features = [ dim = 2 ; alias = \"F\" ] : [x=1] ] ; list = ([a=1]:[b=2]) ]\n"
    "  BrainScriptNetworkBuilder = { z = W * x + b ; f (x) = x }\n}\nTrain = [ SGD = [ maxEpochs = 4 ] "
    "]\nv=$v2$\nv2=$RunDir$\nflag\n[q=[|a=1|b=2]]\n";

// Asks for everything there is.
void visit(const Record& r, int& errors, int depth = 0) {
  for (const auto& key : r.keys()) {
    for (const auto& ask : std::initializer_list<std::function<void()>>{
             [&] { r.find(key); }, [&] { r.integer(key, 0); }, [&] { r.number(key, 0); },
             [&] { r.boolean(key, false); }, [&] { r.strings(key); }, [&] { r.blocks(key); },
             [&] {
               if (r.is_block(key)) visit(r.block(key), errors, depth + 1);
             }}) {
      try {
        ask();
      } catch (const ConfigError& e) {
        ASSERT_FALSE(e.diagnostics().empty());
        ASSERT_NE(e.diagnostics()[0].where.source, nullptr);
        ++errors;
      }
    }
  }
}

TEST(Robustness, MutatedConfigsNeverCrash) {
  const std::string alphabet = "[]{}()\"$$=;:,*#\n\r\t |xv1.-+_\\'\x80\x01";
  int errors = 0, records = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Engine engine(seed);
    std::string text = sample;
    for (std::size_t n = 1 + draw(engine, 6); n > 0; --n) {
      const std::size_t at = draw(engine, text.size());
      switch (draw(engine, 5)) {
        case 0:
          text.erase(at, 1 + draw(engine, 4));
          break;
        case 1:
          text.insert(at, 1, alphabet[draw(engine, alphabet.size())]);
          break;
        case 2:
          text[at] = alphabet[draw(engine, alphabet.size())];
          break;
        case 3:
          text.insert(at, text.substr(draw(engine, text.size()), draw(engine, 40)));
          break;
        default:
          text.resize(at + 1);
      }
      if (text.empty()) text = "x";
    }
    try {
      const Record r = record_from_text(text);
      ++records;
      visit(r, errors);
      dump_config(r);
    } catch (const ConfigError& e) {
      ASSERT_FALSE(e.diagnostics().empty()) << text;
      ++errors;
    }
  }
  EXPECT_GT(records, 100);  // both ways are walked
  EXPECT_GT(errors, 100);
}

TEST(Robustness, DeepNestingIsRefusedAndManySettingsAreNot) {
  for (const char open : {'[', '{', '('}) {
    EXPECT_THROW(record_from_text("a=" + std::string(100'000, open)), ConfigError);
    std::string nested = "a=";
    for (int i = 0; i < 5000; ++i) nested += std::string("[b=") + open;
    EXPECT_THROW(record_from_text(nested), ConfigError);
  }
  std::string deep = "a=1", close;
  for (int i = 0; i < 150; ++i) deep = "a=[" + deep + "]";
  int errors = 0;
  const Record r = record_from_text(deep);
  visit(r, errors);
  EXPECT_EQ(dump_config(record_from_text(dump_config(r))), dump_config(r));
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "k" + std::to_string(i) + "=" + std::to_string(i) + "\n";
  EXPECT_EQ(record_from_text(many).integer("k19999", 0), 19999);
}

TEST(Robustness, VariablesThatGrowEnd) {
  for (const char* base : {"xxxxxxxxxx", "\"\""}) {
    std::string text = std::string("v0=") + base + "\n";
    for (int i = 1; i < 70; ++i) {
      const std::string v = "$v" + std::to_string(i - 1) + "$";
      text += "v" + std::to_string(i) + "=" + v + v + "\n";
    }
    EXPECT_EQ(record_from_text(text).value("v3").text.size(), base[0] == 'x' ? 80u : 0u);
    EXPECT_THROW(record_from_text(text).find("v69"), ConfigError);
  }
  std::string chain = "v0=x\n";
  for (int i = 1; i < 2'000; ++i) chain += "v" + std::to_string(i) + "=$v" + std::to_string(i - 1) + "$\n";
  EXPECT_THROW(record_from_text(chain).find("v1999"), ConfigError);
  EXPECT_EQ(record_from_text(chain).value("v50").text, "x");
  EXPECT_THROW(record_from_text("a=b$c$\nc=$d$ $\nd=\"$\"\nx=$a$$").find("x"), ConfigError);
  EXPECT_THROW(record_from_text("a=0*999999999").strings("a"), ConfigError);
  EXPECT_THROW(record_from_text("a=1:0*9223372036854775807").strings("a"), ConfigError);
  EXPECT_THROW(record_from_text("a=((((x*1000)*1000)*1000)*1000000)").strings("a"), ConfigError);
  EXPECT_THROW(record_from_text("a=((x*1000000)*1000000):y").strings("a"), ConfigError);
  EXPECT_EQ(record_from_text("a=((x*10)*10:(y)*2)").strings("a").size(), 102u);
}

struct Random {
  Engine engine;
  std::map<std::string, std::string> expected;

  std::string word() {
    static const char* const words[] = {"x",  "0.5:0.2*20", "two words", "a;b", "[c",   "d]}",   "1e-3", "",
                                        "$5", "p=q",        "it's",      "a,b", "(1:2", "C:\\d", "ünï"};
    return words[draw(engine, std::size(words))];
  }
  std::string block(const std::string& path, int depth) {
    std::string text;
    for (std::size_t i = 0, n = 1 + draw(engine, 4); i < n; ++i) {
      const std::string key = "k" + std::to_string(i);
      if (depth > 0 && draw(engine, 2)) {
        const bool curly = draw(engine, 2);
        text += key + (draw(engine, 2) ? " = " : "") + (curly ? "{" : "[") + "\n" + block(path + key + ".", depth - 1) +
                (curly ? "}" : "]");
      } else {
        const std::string value = word();
        text += key + "=\"" + value + "\"";
        expected[path + key] = value;
      }
      static const char* const separators[] = {"\n", " ; ", ",\n", " # note\n", "\r\n"};
      text += separators[draw(engine, std::size(separators))];
    }
    return text;
  }
};

std::string fetch(const Record& top, const std::string& path) {
  Record r = top;
  std::size_t from = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; from = dot + 1, dot = path.find('.', from))
    r = r.block(path.substr(from, dot - from));
  return r.find_own(path.substr(from)).value_or(Value{"absent", {}}).text;
}

TEST(Robustness, RandomNestingReadsBackFromItsDump) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random{Engine(seed), {}};
    const std::string text = random.block("", 4);
    const Record first = record_from_text(text);
    const std::string dumped = dump_config(first);
    const Record second = record_from_text(dumped);
    for (const auto& [path, value] : random.expected) {
      ASSERT_EQ(fetch(first, path), value) << path << "\n" << text;
      ASSERT_EQ(fetch(second, path), value) << path << "\n" << text << "\n--\n" << dumped;
    }
    ASSERT_EQ(dump_config(second), dumped);
  }
}

}  // namespace
}  // namespace tutti::config::robustness_test
