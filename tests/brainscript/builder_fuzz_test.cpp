// SPDX-License-Identifier: Apache-2.0
// Broken networks of the older language and broken Keras files: each either builds or reports a mistake with its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "config/load.h"
#include "tutti/builder.h"
#include "tutti/network.h"

namespace tutti::brainscript::builder_fuzz_test {
namespace {

const std::string ndl = R"(load=M
run=N
M=[ Layer(in, out, x, scale=1) { W=Parameter(out, in, init=uniform, initValueScale=scale)
      b=Parameter(out, 1, init=fixedValue, value=0.5)
      z=Plus(Times(W, x), b) }
    Twice(a) = Plus(a, a) ]
N=[ features=ImageInput(8, 8, 2); labels=Input(3, tag=label)
    K = Parameter(4, 18)  # kernel
    c = Convolution(K, features, 3, 3, 4, 1, 1, zeroPadding=true)
    p = MaxPooling(ReLU(c), 2, 2, 2, 2); d = PastValue(5, h, defaultHiddenActivity=0)
    h = Tanh(Plus(Layer(64, 5, p), d))
    o = Layer(5, 3, Twice(h), scale=2)
    s = RowStack(RowSlice(0, 1, o), o.b); q = Convolution(ParameterTensor({3, 3, 2, 1}), features, {3, 3}, mapCount=1, autoPadding={true})
    ce = CrossEntropyWithSoftmax(labels, o); FeatureNodes=(features); CriterionNodes=(ce : ce) ; OutputNodes=(o, h)
])";

const std::string keras = R"({"class_name": "Model", "config": {"name": "m", "layers": [
 {"name": "in", "class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [null, 8, 8, 2]}, "inbound_nodes": []},
 {"name": "c", "class_name": "Conv2D", "config": {"name": "c", "filters": 4, "kernel_size": [3, 3], "padding": "same", "strides": [1, 1], "activation": "relu",
   "kernel_initializer": {"class_name": "VarianceScaling", "config": {"scale": 1.0, "mode": "fan_avg", "distribution": "uniform"}}}, "inbound_nodes": [[["in", 0, 0, {}]]]},
 {"name": "b", "class_name": "BatchNormalization", "config": {"name": "b", "axis": 3, "momentum": 0.9, "epsilon": 0.001}, "inbound_nodes": [[["c", 0, 0, {}]]]},
 {"name": "a", "class_name": "Add", "config": {"name": "a"}, "inbound_nodes": [[["b", 0, 0, {}], ["c", 0, 0, {}]]]},
 {"name": "p", "class_name": "MaxPooling2D", "config": {"name": "p", "pool_size": [2, 2], "strides": null}, "inbound_nodes": [[["a", 0, 0, {}]]]},
 {"name": "f", "class_name": "Flatten", "config": {"name": "f"}, "inbound_nodes": [[["p", 0, 0, {}]]]},
 {"name": "d", "class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "softmax", "use_bias": true}, "inbound_nodes": [[["f", 0, 0, {}]]]}],
 "input_layers": [["in", 0, 0]], "output_layers": [["d", 0, 0]]}})";

const std::string recurrent = R"({"class_name": "Sequential", "config": [
 {"class_name": "Embedding", "config": {"name": "e", "batch_input_shape": [null, null], "input_dim": 20, "output_dim": 4}},
 {"class_name": "Bidirectional", "config": {"name": "bi", "merge_mode": "concat", "layer": {"class_name": "GRU", "config": {"units": 3, "return_sequences": true, "reset_after": true}}}},
 {"class_name": "LSTM", "config": {"name": "l", "units": 3, "activation": "tanh", "recurrent_activation": "hard_sigmoid", "dropout": 0.2, "return_sequences": false}},
 {"class_name": "Dense", "config": {"name": "d", "units": 1, "activation": "sigmoid"}}]})";

// A change of one place: something left out, doubled, replaced by another part or by a word of the trade.
std::string changed(std::string s, std::mt19937& draw) {
  static const std::vector<std::string> parts = {
      "{",  "}",     "(",    ")",    "[",        "]",     ",",    ":",  "=",    "\"",
      "\n", ";",     "null", "0",    "-1",       "1e300", "true", "x",  "in",   "#",
      "$",  "Plus(", "LSTM", "\xff", "features", "W",     "3x",   "{}", "[[]]", std::string(1, '\0')};
  const auto at = [&] { return draw() % (s.size() + 1); };
  for (unsigned n = 1 + draw() % 3; n > 0; --n) {
    const std::size_t from = at(), length = std::min<std::size_t>(draw() % 20, s.size() - from);
    switch (draw() % 4) {
      case 0:
        s.erase(from, length);
        break;
      case 1:
        s.insert(at(), s.substr(from, length));
        break;
      case 2:
        s.replace(from, length, parts[draw() % parts.size()]);
        break;
      default:
        s.insert(from, parts[draw() % parts.size()]);
        break;
    }
  }
  return s;
}

// Builds and makes executable; what the user would read when it does not work.
std::string outcome(const std::string& builder, const std::string& key, const std::string& file,
                    const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / file;
  std::ofstream(path, std::ios::binary) << text;
  Problems problems;
  config::Notices notices;
  BuildContext context;
  context.problems = &problems;
  context.notices = &notices;
  std::string said;
  try {
    graph::Graph graph = tutti::build_network(
        config::record_from_text(builder + " = [ " + key + " = \"" + path.string() + "\" ]", "a.cntk"), context);
    problems.throw_if_any();
    const Network network(std::move(graph), {});
  } catch (const ConfigError& e) {
    said = e.what();
    EXPECT_NE(said.find("error: "), std::string::npos);
  }
  std::filesystem::remove(path);
  return said;
}

struct Subject {
  const char *builder, *key, *file;
  const std::string* text;
};
class Broken : public testing::TestWithParam<Subject> {};
TEST_P(Broken, BuildsOrSaysWhy) {
  const Subject& s = GetParam();
  ASSERT_EQ(outcome(s.builder, s.key, s.file, *s.text), "");
  std::mt19937 draw(11);
  int failed = 0;
  for (int i = 0; i < 400; ++i) failed += !outcome(s.builder, s.key, s.file, changed(*s.text, draw)).empty();
  EXPECT_GT(failed, 100) << "the changes must matter";
}
INSTANTIATE_TEST_SUITE_P(All, Broken,
                         testing::Values(Subject{"NDLNetworkBuilder", "networkDescription", "tutti_fuzz.ndl", &ndl},
                                         Subject{"KerasNetworkBuilder", "file", "tutti_fuzz_images.json", &keras},
                                         Subject{"KerasNetworkBuilder", "file", "tutti_fuzz_sequences.json",
                                                 &recurrent}));

}  // namespace
}  // namespace tutti::brainscript::builder_fuzz_test
