// SPDX-License-Identifier: Apache-2.0
// Broken scripts of every kind: each either builds or reports a mistake with a place; none crashes or hangs.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "networks.h"

namespace tutti::brainscript::mutation_test {
namespace {

const std::vector<std::string> scripts = {
    R"({ imageShape = 28:28:1; labelDim = 10; Scale{f} = x => Constant(f) .* x
  model = Sequential ( Scale {1/256} : DenseLayer {200, activation=ReLU, init="gaussian"} : LinearLayer {labelDim} )
  features = Input {imageShape}; labels = Input (labelDim); ol = model (features)
  ce = CrossEntropyWithSoftmax (labels, ol); errs = ClassificationError (labels, ol, topN=5)
  featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (ol) })",
    R"([ f (x, k=2) = if x <= 0 then [| 1; 2 |] else k : f (x - 1); a = f (3) << 1 ; b = array[0..3] (i => i * i)
  x[i:0..5] = if i < 2 then 1 else x[i-1] + x[i-2]; s = 'abc' + Format (x[3], '%d'); r = { y = 2 ; z = { w = y ** 2 } }.z.w
  in = Input (3, tag='feature'); W = Parameter (2, 3); p = Sigmoid (W * in + 1) .* (1 / Exp (SumElements (in))) # comment
  new1 = new ComputationNetwork { q = 1 }; n = !true && false || 1 < 2 /* end */ ])",
    R"({ g = (x => x + 1) >> (x => x * 2); v = g (3) % 4; Stack (n, h) = if n == 0 then h else Stack (n - 1, Tanh (h))
  e = Stack (5, Input {4}); d = e.dim; o = Slice (0, 2, e) - BS.Boolean.Not (RowSlice (0, 2, e)); t = ReduceSum (o, axis=1) })"};

const std::vector<std::string> parts = {"{",
                                        "}",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "[|",
                                        "|]",
                                        ":",
                                        ";",
                                        "=",
                                        "==",
                                        "=>",
                                        ",",
                                        ".",
                                        "..",
                                        "+",
                                        "-",
                                        "*",
                                        ".*",
                                        "/",
                                        "**",
                                        "%",
                                        "!",
                                        "&&",
                                        "||",
                                        ">>",
                                        "<<",
                                        "\n",
                                        " ",
                                        "'",
                                        "\"",
                                        "#",
                                        "/*",
                                        "*/",
                                        "if ",
                                        "then ",
                                        "else ",
                                        "array",
                                        "new ",
                                        "with",
                                        "include ",
                                        "true",
                                        "x",
                                        "0",
                                        "1e9",
                                        "f (x)",
                                        "model",
                                        "\xff",
                                        "Sequential",
                                        "$",
                                        "_",
                                        "a = a",
                                        "x[i:0..9] = x[i]",
                                        std::string(1, '\0')};

std::string mutated(std::mt19937& random) {
  const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::string s = scripts[pick(scripts.size())];
  for (std::size_t edits = 1 + pick(2); edits > 0 && !s.empty(); --edits) {
    const std::size_t at = pick(s.size()), length = std::min<std::size_t>(1 + pick(8), s.size() - at);
    switch (pick(4)) {
      case 0:
        s.erase(at, length);
        break;
      case 1:
        s.insert(at, parts[pick(parts.size())]);
        break;
      case 2:
        s.replace(at, length, parts[pick(parts.size())]);
        break;
      case 3:
        s.insert(at, s.substr(pick(s.size()), 1 + pick(30)));
        break;
    }
  }
  return s;
}

TEST(Mutations, EndInANetworkOrAMistakeWithAPlace) {
  for (const auto& script : scripts) ASSERT_EQ(build(script).errors, "");
  std::mt19937 random(1);
  int good = 0, bad = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string script = mutated(random);
    SCOPED_TRACE(script);
    const Built b = build(script);
    if (b.errors.empty()) {
      ++good;
      for (std::size_t n = 0; n < b.graph.nodes.size(); ++n)
        for (const auto input : b.graph.nodes[n].inputs) ASSERT_LT(input, n);
    } else {
      ++bad;
      ASSERT_TRUE(b.errors.starts_with("net.cntk:")) << b.errors;
      ASSERT_TRUE(b.graph.nodes.empty());
    }
  }
  EXPECT_GT(good, 20);  // the mutations are neither all harmless nor all fatal
  EXPECT_GT(bad, 100);
}

TEST(Mutations, TruncatedScriptsNameAPlace) {
  for (const auto& script : scripts)
    for (std::size_t n = 0; n < script.size(); n += 3)
      EXPECT_TRUE(build(script.substr(0, n)).errors.starts_with("net.cntk:")) << script.substr(0, n);
}

TEST(Mutations, GrowthIsBounded) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{ f (s) = f (s + s); a = f ('x') }", "levels deep"},
      {"{ f (n, a) = if n == 0 then Length (a) else f (n - 1, a : a); b = f (60, 1:2) }", "grow beyond"},
      {"{ s (n, t) = if n == 0 then Length (t) else s (n - 1, t + t); b = s (60, 'x') }", "grow beyond"},
      {"{ f (n) = if n < 2 then n else f (n-1) + f (n-2); a = f (60) }", "steps"},
      {"{ a = array[-1e15..1e15] (i => i) }", "grow beyond"},
      {"{ a = Repeat (1e10, 1) }", "grow beyond"},
      {"{ f (g) = g (g); a = f (f) }", "levels deep"},
      {"{ r = { s = r.s }; a = r.s }", "defined by itself"}};
  for (const auto& [script, expected] : cases) {
    const Built b = build(script);
    EXPECT_TRUE(b.errors.starts_with("net.cntk:")) << script << b.errors;
    EXPECT_NE(b.errors.find(expected), std::string::npos) << script << b.errors;
  }
}

TEST(Mutations, RecordsInACircleCanBePrinted) {
  const Built b = build("{ b = { x = b; y = 1 }; a = Print (b) }");
  EXPECT_EQ(b.errors, "");
  EXPECT_EQ(b.notices.size(), 1u);
}

}  // namespace
}  // namespace tutti::brainscript::mutation_test
