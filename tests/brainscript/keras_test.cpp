// SPDX-License-Identifier: Apache-2.0
// Keras models become networks: parameter counts that Keras prints, shapes, orders of axes, initial values, mistakes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config/load.h"
#include "networks.h"
#include "tutti/builder.h"
#include "tutti/network.h"

namespace tutti::brainscript::keras_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Made : Built {
  std::map<std::string, Shape> trained;
  std::size_t parameters = 0;
  std::vector<Network::Input> inputs;
};

// The network of a model, made executable; `options` are further settings of the builder.
Made keras(const std::string& json, const std::string& options = "", const std::string& command = "") {
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("tutti_keras_{}.json", testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path) << json;
  Made b;
  Problems problems;
  config::Notices notices;
  BuildContext context;
  context.problems = &problems;
  context.notices = &notices;
  const std::string text = command + "\nKerasNetworkBuilder = [ file = \"" + path.string() + "\"\n" + options + " ]";
  try {
    b.graph = tutti::build_network(config::record_from_text(text, "a.cntk"), context);
    problems.throw_if_any();
    Network network(b.graph, {});
    network.initialize_parameters();
    for (const auto& s : network.parameters().slices) b.trained[s.name] = s.shape, b.parameters += s.size();
    b.inputs = network.inputs_for_training();
    b.graph = network.graph();
  } catch (const ConfigError& e) {
    b.errors = e.what();
  }
  b.notices = notices.lines;
  std::filesystem::remove(path);
  return b;
}

std::string sequential(const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"name": "sequential", "layers": [)" + layers +
         R"(]}, "keras_version": "2.2.4", "backend": "tensorflow"})";
}
std::string layer(const std::string& kind, const std::string& name, const std::string& config) {
  return fmt::format(R"({{"class_name": "{}", "config": {{"name": "{}", "trainable": true, "dtype": "float32"{}{}}}}})",
                     kind, name, config.empty() ? "" : ", ", config);
}
std::string dense(const std::string& name, int units, const std::string& activation, const std::string& more = "") {
  return layer(
      "Dense", name,
      fmt::format(
          R"({}"units": {}, "activation": "{}", "use_bias": true, "kernel_initializer": {{"class_name": "VarianceScaling",
        "config": {{"scale": 1.0, "mode": "fan_avg", "distribution": "uniform", "seed": null}}}}, "bias_initializer": {{"class_name": "Zeros", "config": {{}}}},
        "kernel_regularizer": null, "bias_regularizer": null, "activity_regularizer": null, "kernel_constraint": null, "bias_constraint": null)",
          more, units, activation));
}
std::string convolution(const std::string& name, int filters, int kernel, const std::string& more = "") {
  return layer(
      "Conv2D", name,
      fmt::format(R"({}"filters": {}, "kernel_size": [{}, {}], "activation": "relu")", more, filters, kernel, kernel));
}

const graph::Node& behind(const Built& b, const graph::Node& n, std::size_t input) {
  return b.graph.nodes[n.inputs[input]];
}

TEST(Keras, DigitsPerceptron) {
  const Made b =
      keras(sequential(dense("dense_1", 512, "relu", R"("batch_input_shape": [null, 784], )") + "," +
                       layer("Dropout", "dropout_1", R"("rate": 0.2)") + "," + dense("dense_2", 512, "relu") + "," +
                       layer("Dropout", "dropout_2", R"("rate": 0.2)") + "," + dense("dense_3", 10, "softmax")));
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.parameters, 669706u);
  EXPECT_EQ(b.trained.at("dense_1.W"), (Shape{{512, 784}}));
  EXPECT_EQ(b["loss"].operation, "CrossEntropyWithSoftmax");
  EXPECT_EQ(behind(b, b["loss"], 1).operation, "Plus") << "the criterion reads what stands before the softmax";
  EXPECT_EQ(b["errs"].operation, "ClassificationError");
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("dense_3_output"));
  EXPECT_EQ(b["dense_3_output"].operation, "Softmax");
  EXPECT_EQ(graph::number(b["dropout_1_output"], "rate", 0), 0.2);
  EXPECT_EQ(graph::text(b["dense_1.W"], "init"), "glorotUniform");
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_THAT(b.names_of(b.graph.labels), ElementsAre("labels"));
}

std::string digits_convolution(const std::string& format) {
  const std::string f = R"("data_format": ")" + format + "\", ";
  const std::string shape = format == "channels_last" ? "[null, 28, 26, 3]" : "[null, 3, 28, 26]";
  return sequential(convolution("conv_1", 32, 3, "\"batch_input_shape\": " + shape + ", " + f) + "," +
                    convolution("conv_2", 64, 3, f) + "," +
                    layer("MaxPooling2D", "pool", f + R"("pool_size": [2, 2], "strides": [2, 2], "padding": "valid")") +
                    "," + layer("Flatten", "flatten", "") + "," + dense("dense_1", 128, "relu") + "," +
                    dense("dense_2", 10, "softmax"));
}

TEST(Keras, ImagesInEitherOrderOfAxes) {
  const Made last = keras(digits_convolution("channels_last")), first = keras(digits_convolution("channels_first")),
             ready = keras(digits_convolution("channels_last"), "imageLayout = CHW");
  ASSERT_EQ(last.errors + first.errors + ready.errors, "");
  // 3*32*9+32 + 32*64*9+64 + (12*11*64)*128+128 + 1290
  EXPECT_EQ(last.parameters, 1102154u);
  EXPECT_EQ(first.parameters, last.parameters);
  EXPECT_EQ(ready.parameters, last.parameters);
  EXPECT_EQ(last.trained.at("conv_1.W"), (Shape{{3, 3, 3, 32}}));
  EXPECT_EQ(last.inputs.at(1).shape, (Shape{{3, 26, 28}})) << "the memory order of a Keras array";
  EXPECT_EQ(first.inputs.at(1).shape, (Shape{{26, 28, 3}}));
  EXPECT_EQ(ready.inputs.at(1).shape, (Shape{{26, 28, 3}})) << "the order of ImageReader";
  const auto turns = [](const Made& m) {
    return std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                         [](const auto& n) { return n.operation == "TransposeDimensions"; });
  };
  EXPECT_EQ(turns(first), 0);
  EXPECT_EQ(turns(last), 4);  // two swaps in front, two before the vector
  EXPECT_THAT(keras(digits_convolution("channels_first"), "imageLayout = HWC").errors,
              HasSubstr("images must come as CHW"));
}

TEST(Keras, PaddingAndStridesAreThoseOfKeras) {
  const std::string in = R"("batch_input_shape": [null, 8, 7, 2], )";
  const Made b = keras(sequential(
      layer("ZeroPadding2D", "pad", in + R"("padding": [[1, 2], [2, 0]], "data_format": "channels_last")") + "," +
      layer(
          "Conv2D", "valid",
          R"("filters": 4, "kernel_size": [3, 3], "strides": [2, 1], "padding": "valid", "activation": "relu", "use_bias": false)") +
      "," +
      layer(
          "Conv2D", "same",
          R"("filters": 6, "kernel_size": [3, 2], "strides": [2, 2], "padding": "same", "activation": "linear", "groups": 2)") +
      "," +
      layer("BatchNormalization", "norm",
            R"("axis": [3], "momentum": 0.9, "epsilon": 0.001, "center": true, "scale": true)") +
      "," + layer("GlobalAveragePooling2D", "pool", R"("data_format": "channels_last")") + "," +
      dense("top", 2, "linear")));
  ASSERT_EQ(b.errors, "");
  const graph::Node* valid = nullptr;
  const graph::Node* same = nullptr;
  for (const auto& n : b.graph.nodes)
    if (n.operation == "Convolution") (valid ? same : valid) = &n;
  ASSERT_TRUE(same);
  EXPECT_THAT(graph::numbers(*valid, "lowerPad"), ElementsAre(2, 1)) << "width, height";
  EXPECT_THAT(graph::numbers(*valid, "upperPad"), ElementsAre(0, 2));
  EXPECT_THAT(graph::numbers(*valid, "stride"), ElementsAre(1, 2));
  // 7 wide and 5 high; the odd cell of the padding is behind the image.
  EXPECT_THAT(graph::numbers(*same, "kernelDims"), ElementsAre(2, 3));
  EXPECT_THAT(graph::numbers(*same, "lowerPad"), ElementsAre(0, 1));
  EXPECT_THAT(graph::numbers(*same, "upperPad"), ElementsAre(1, 1));
  EXPECT_EQ(graph::number(*same, "groups", 1), 2);
  EXPECT_EQ(b.trained.at("norm.scale"), (Shape{{1, 1, 6}}));
  EXPECT_EQ(b.trained.at("top.W"), (Shape{{2, 6}}));
  EXPECT_EQ(b["loss"].operation, "SquareError");
  // momentum 0.9 per minibatch of 256 samples
  for (const auto& n : b.graph.nodes)
    if (n.operation == "BatchNormalization") {
      EXPECT_NEAR(std::exp(-256 / graph::number(n, "normalizationTimeConstant", 0)), 0.9, 1e-9);
    }
}

// What a model makes of one image.
std::vector<float> values(const std::string& layers, const std::vector<float>& image) {
  const Made b = keras(sequential(layers + "," + layer("Flatten", "flatten", "")));
  EXPECT_EQ(b.errors, "");
  if (!b.errors.empty()) return {};
  const std::string output = b.names_of(b.graph.outputs).at(0);
  Network network(b.graph, {});
  network.initialize_parameters();
  const std::vector<std::int64_t> begin = {0, 1};
  Batch batch;
  batch.streams.resize(1);
  batch.streams[0].columns = 1, batch.streams[0].dense = image, batch.streams[0].sequence_begin = begin;
  batch.samples = batch.columns = batch.global_samples = batch.global_columns = batch.sequences = 1;
  network.bind({{"features", image.size(), false}});
  network.plan_evaluation(1, {output});
  const auto outputs = network.forward(batch);
  return {outputs[0].values.begin(), outputs[0].values.end()};
}

// As in the last block of VGG on small images: the kernel fits into the padded image only. A frame of zeros in the data
// gives the same values.
TEST(Keras, KernelsMayBeLargerThanTheImage) {
  const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8};  // 2 x 2 pixels of 2 channels
  std::vector<float> framed(4 * 4 * 2);
  for (std::size_t i = 0; i < 8; ++i) framed[((i / 4 + 1) * 4 + i / 2 % 2 + 1) * 2 + i % 2] = image[i];
  const auto in = [](int size) { return fmt::format(R"("batch_input_shape": [null, {0}, {0}, 2], )", size); };
  const auto expect_same = [](const std::vector<float>& a, const std::vector<float>& b, std::size_t size) {
    EXPECT_EQ(a.size(), size);
    EXPECT_THAT(a, testing::Pointwise(testing::FloatNear(1e-5f), b));
    EXPECT_GT(std::count_if(a.begin(), a.end(), [](float v) { return v != 0; }), 0);
  };
  expect_same(values(convolution("conv", 32, 3, in(2) + R"("padding": "same", )"), image),
              values(convolution("conv", 32, 3, in(4)), framed), 4u * 32);
  const std::string pad = layer("ZeroPadding2D", "pad", in(2) + R"("padding": 1)");
  expect_same(values(pad + "," + convolution("conv", 16, 4), image),
              values(convolution("conv", 16, 4, in(4)), framed), 16);
  const auto pooled = [&](const std::string& kind) {
    return values(layer(kind, "pool", in(2) + R"("pool_size": 3, "strides": 1, "padding": "same")"), image);
  };
  EXPECT_THAT(pooled("MaxPooling2D"), ElementsAre(7, 8, 7, 8, 7, 8, 7, 8));
  EXPECT_THAT(pooled("AveragePooling2D"), ElementsAre(4, 5, 4, 5, 4, 5, 4, 5)) << "of the pixels inside of the image";
}

TEST(Keras, MomentumCountsSamplesOfTheFirstMinibatchSize) {
  const std::string model = sequential(dense("a", 6, "relu", R"("batch_input_shape": [null, 6], )") + "," +
                                       layer("BatchNormalization", "norm", R"("axis": -1, "momentum": 0.9)"));
  for (const char* size : {"10", "10:20", "10*3:20", "(10:20)", "(10*2:20)"}) {
    const Made b = keras(model, "", fmt::format("SGD = [ minibatchSize = {} ]", size));
    ASSERT_EQ(b.errors, "") << size;
    const auto n = std::find_if(b.graph.nodes.begin(), b.graph.nodes.end(),
                                [](const auto& node) { return node.operation == "BatchNormalization"; });
    ASSERT_NE(n, b.graph.nodes.end());
    EXPECT_NEAR(std::exp(-10 / graph::number(*n, "normalizationTimeConstant", 0)), 0.9, 1e-9) << size;
  }
}

std::string node(const std::string& kind, const std::string& name, const std::string& config,
                 const std::string& inbound) {
  return fmt::format(R"({{"name": "{}", "class_name": "{}", "config": {{"name": "{}"{}{}}}, "inbound_nodes": {}}})",
                     name, kind, name, config.empty() ? "" : ", ", config, inbound);
}

TEST(Keras, ModelsWithSeveralBranches) {
  const Made b = keras(
      R"({"class_name": "Model", "config": {"name": "m", "layers": [)" +
      node("InputLayer", "input_1", R"("batch_input_shape": [null, 6])", "[]") + "," +
      node("InputLayer", "input_2", R"("batch_input_shape": [null, 6])", "[]") + "," +
      node("Dense", "shared", R"("units": 5, "activation": "tanh")",
           R"([[["input_1", 0, 0, {}]], [["input_2", 0, 0, {}]]])") +
      "," + node("Add", "add", "", R"([[["shared", 0, 0, {}], ["shared", 1, 0, {}]]])") + "," +
      node("Concatenate", "join", R"("axis": -1)", R"([[["add", 0, 0, {}], ["input_1", 0, 0, {}]]])") + "," +
      node("Dense", "out", R"("units": 1, "activation": "sigmoid")", R"([[["join", 0, 0, {}]]])") +
      R"(], "input_layers": [["input_1", 0, 0], ["input_2", 0, 0]], "output_layers": [["out", 0, 0]]}, "keras_version": "2.1.2"})");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.parameters, 5u * 6 + 5 + 11 + 1);
  EXPECT_EQ(b["loss"].operation, "Logistic");
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("input_1", "input_2"));
}

TEST(Keras, VersionThreeWritesReferencesInItsOwnWay) {
  const auto from = [](const std::string& name) {
    return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 4], "dtype": "float32", "keras_history": [")" +
           name + R"(", 0, 0]}})";
  };
  const Made b = keras(
      R"({"module": "keras.src.models.functional", "class_name": "Functional", "config": {"name": "f", "trainable": true, "layers": [)" +
      node("InputLayer", "input_layer", R"("batch_shape": [null, 4], "sparse": false)", "[]") + "," +
      node(
          "Dense", "dense",
          R"("units": 4, "activation": "relu", "dtype": {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}},
                            "kernel_initializer": {"module": "keras.initializers", "class_name": "HeNormal", "config": {"seed": null}})",
          R"([{"args": [)" + from("input_layer") + R"(], "kwargs": {}}])") +
      "," +
      node("Multiply", "multiply", "",
           R"([{"args": [[)" + from("dense") + ", " + from("input_layer") + R"(]], "kwargs": {}}])") +
      "," +
      node("Dense", "dense_1", R"("units": 3, "activation": "softmax")",
           R"([{"args": [)" + from("multiply") + R"(], "kwargs": {}}])") +
      R"(], "input_layers": ["input_layer", 0, 0], "output_layers": ["dense_1", 0, 0]}, "registered_name": "Functional"})");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.parameters, 20u + 15);
  EXPECT_EQ(graph::text(b["dense.W"], "init"), "heNormal");
}

TEST(Keras, VersionOne) {
  const Made b = keras(R"({"class_name": "Sequential", "keras_version": "1.2.2", "config": [
    {"class_name": "Convolution2D", "config": {"name": "convolution2d_1", "batch_input_shape": [null, 1, 28, 28], "nb_filter": 8, "nb_row": 5, "nb_col": 3,
      "border_mode": "valid", "subsample": [1, 1], "dim_ordering": "th", "init": "glorot_uniform", "activation": "linear", "bias": true, "W_regularizer": null}},
    {"class_name": "LeakyReLU", "config": {"name": "leakyrelu_1", "alpha": 0.2}},
    {"class_name": "MaxPooling2D", "config": {"name": "maxpooling2d_1", "pool_size": [2, 2], "strides": [2, 2], "border_mode": "valid", "dim_ordering": "th"}},
    {"class_name": "Flatten", "config": {"name": "flatten_1"}},
    {"class_name": "Dropout", "config": {"name": "dropout_1", "p": 0.5}},
    {"class_name": "Dense", "config": {"name": "dense_1", "output_dim": 3, "init": "lecun_uniform", "activation": "softmax", "W_regularizer": {"l2": 0.1, "l1": 0.0, "name": "WeightRegularizer"}}}]})");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.trained.at("convolution2d_1.W"), (Shape{{3, 5, 1, 8}}));
  EXPECT_EQ(b.parameters, 8u * 15 + 8 + 8 * 12 * 13 * 3 + 3);
  ASSERT_EQ(b.notices.size(), 1u);
  EXPECT_THAT(b.notices[0], HasSubstr("'W_regularizer' has no effect"));
}

TEST(Keras, RecurrentLayersHaveTheirCounts) {
  const std::string in = R"("batch_input_shape": [null, 100, 19], )";
  const auto top = [](int n) { return "," + dense("top", n, n == 1 ? "sigmoid" : "softmax"); };
  const Made events =
      keras(sequential(layer("LSTM", "lstm", in + R"("units": 20, "return_sequences": false)") + top(3)));
  ASSERT_EQ(events.errors, "");
  EXPECT_EQ(events.parameters, 3263u);
  EXPECT_THAT(events.inputs.at(0).name + " " + events.inputs.at(1).name,
              testing::AnyOf("features labels", "labels features"));
  const Made words = keras(sequential(
      layer("Embedding", "words", R"("batch_input_shape": [null, null], "input_dim": 20000, "output_dim": 128)") + "," +
      layer("LSTM", "lstm", R"("units": 128)") + top(1)));
  ASSERT_EQ(words.errors, "");
  EXPECT_EQ(words.parameters, 2691713u);
  const Made both = keras(sequential(
      layer(
          "Bidirectional", "both",
          in +
              R"("merge_mode": "concat", "layer": {"class_name": "LSTM", "config": {"name": "lstm", "units": 64, "return_sequences": true}})") +
      "," +
      layer("TimeDistributed", "each",
            R"("layer": {"class_name": "Dense", "config": {"name": "d", "units": 4, "activation": "softmax"}})")));
  ASSERT_EQ(both.errors, "");
  EXPECT_EQ(both.parameters, 2u * 4 * 64 * (19 + 64 + 1) + 128 * 4 + 4);
  const Made gru =
      keras(sequential(layer("GRU", "gru", in + R"("units": 7, "reset_after": true, "return_sequences": true)") + "," +
                       layer("GRU", "gru_1", R"("units": 5, "reset_after": false)") + top(2)));
  ASSERT_EQ(gru.errors, "");
  EXPECT_EQ(gru.parameters, 3u * 7 * (19 + 7 + 2) + 3 * 5 * (7 + 5 + 1) + 12);
  const Made simple = keras(sequential(layer("SimpleRNN", "rnn", in + R"("units": 6, "go_backwards": true)") + top(2)));
  ASSERT_EQ(simple.errors, "");
  EXPECT_EQ(simple.parameters, 6u * (19 + 6 + 1) + 14);
}

TEST(Keras, GatesBeginAsInKeras) {
  const Made b = keras(
      sequential(layer("LSTM", "lstm", R"("batch_input_shape": [null, 5, 3], "units": 2, "unit_forget_bias": true)") +
                 "," + dense("top", 2, "softmax")));
  ASSERT_EQ(b.errors, "");
  Network network(b.graph, {});
  network.initialize_parameters();
  for (const auto& s : network.parameters().slices) {
    const auto v = network.parameters().weights.span().subspan(s.offset, s.size());
    if (s.name == "lstm.input.b") {
      EXPECT_THAT(std::vector<float>(v.begin(), v.end()), ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
    }
    if (s.name == "lstm.H") {
      const auto dot = [&](std::size_t a, std::size_t c) {
        float sum = 0;
        for (std::size_t i = 0; i < 8; ++i) sum += v[a * 8 + i] * v[c * 8 + i];
        return sum;
      };
      EXPECT_NEAR(dot(0, 0), 1, 1e-6);
      EXPECT_NEAR(dot(0, 1), 0, 1e-6);
      EXPECT_NEAR(dot(1, 1), 1, 1e-6);
    }
  }
  EXPECT_TRUE(b.trained.contains("lstm.input.b") && b.trained.contains("lstm.H"));
  for (const auto& n : b.graph.nodes)
    if (n.operation == "PastValue" || n.operation == "LSTM") {
      EXPECT_EQ(graph::number(n, "defaultHiddenActivation", 1), 0);
    }
}

// The one operation gives what the steps written out give.
TEST(Keras, UsualActivationsMakeOneOperation) {
  const auto text = [](const std::string& activation) {
    return sequential(
        layer(
            "LSTM", "lstm",
            R"("batch_input_shape": [null, null, 3], "units": 4, "go_backwards": true, "return_sequences": true, "activation": ")" +
                activation + R"(", "recurrent_activation": "sigmoid")") +
        "," + dense("top", 2, "softmax"));
  };
  const Made fused = keras(text("tanh"));
  ASSERT_EQ(fused.errors, "");
  Made steps = keras(text("softsign"));
  ASSERT_EQ(steps.errors, "");
  const auto count = [](const Made& m, const std::string& operation) {
    return std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                         [&](const auto& n) { return n.operation == operation; });
  };
  EXPECT_EQ(count(fused, "LSTM"), 1);
  EXPECT_EQ(count(steps, "LSTM"), 0);
  EXPECT_EQ(count(steps, "FutureValue"), 2);
  const Built both = build(R"({ x = Input {3, dynamicAxis='t'}
    layer (plain) = _Keras.Lstm {4, (Repeat (8, 0) : Repeat (4, 1) : Repeat (4, 0)), Tanh, Sigmoid, 'glorotUniform', 1, 'orthogonal', 1, true, plain}
    a = layer (true) (x); b = layer (false) (x); outputNodes = (a : b) })");
  ASSERT_EQ(both.errors, "");
  graph::Graph graph = both.graph;
  for (auto& n : graph.nodes)  // the same weights in both
    if (n.attributes.contains("randomSeed"))
      n.attributes["randomSeed"] = graph::numbers(n, "dims").at(1) == 4 ? 7.0 : 8.0;
  Network network(std::move(graph), {});
  network.initialize_parameters();
  std::vector<float> values(3 * 7);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5) - 2;
  const std::vector<std::int64_t> begin = {0, 4, 5, 7};
  Batch batch;
  batch.streams.resize(1);
  batch.streams[0].columns = 7, batch.streams[0].dense = values, batch.streams[0].sequence_begin = begin;
  batch.samples = batch.columns = batch.global_samples = batch.global_columns = 7, batch.sequences = 3;
  network.bind({{"x", 3, false}});
  network.plan_evaluation(7, {"a", "b"});
  const auto outputs = network.forward(batch);
  ASSERT_EQ(outputs[0].values.size(), 28u);
  for (std::size_t i = 0; i < 28; ++i) EXPECT_NEAR(outputs[0].values[i], outputs[1].values[i], 1e-5) << i;
  EXPECT_GT(std::abs(outputs[0].values[0]), 1e-3);
}

TEST(Keras, ModelsInsideOfModels) {
  const std::string inner = R"({"name": "inner", "class_name": "Sequential", "config": {"name": "inner", "layers": [)" +
                            dense("dense_1", 4, "relu", R"("batch_input_shape": [null, 6], )") + "]}}";
  const Made b = keras(R"({"class_name": "Sequential", "config": {"name": "outer", "layers": [)" +
                       layer("InputLayer", "x", R"("batch_input_shape": [null, 6])") + "," + inner + "," +
                       dense("dense_1", 2, "softmax") + "]}}");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.trained.at("inner_dense_1.W"), (Shape{{4, 6}}));
  EXPECT_EQ(b.trained.at("dense_1.W"), (Shape{{2, 4}}));
}

TEST(Keras, MistakesAreNamedWithTheirPlace) {
  const std::string in = R"("batch_input_shape": [null, 6], )";
  const auto says = [&](const std::string& layers) { return keras(sequential(layers)).errors; };
  EXPECT_THAT(says(dense("a", 3, "relu", in) + ",\n" + layer("Lambda", "b", "")),
              HasSubstr(".json:4:16: error: Lambda 'b': this layer is not known here"));
  EXPECT_THAT(says(dense("a", 3, "gelu", in)), HasSubstr("the activation 'gelu' is not known here"));
  EXPECT_THAT(says(dense("a", 3, "relu")), HasSubstr("the shape of the input is not in the file"));
  EXPECT_THAT(says(layer("Dense", "a", in + R"("activation": "relu")")), HasSubstr("has no 'units'"));
  EXPECT_THAT(says(layer("Dense", "a", in + R"("units": "many")")), HasSubstr("cannot be understood"));
  EXPECT_THAT(says(layer("Conv2D", "c", in + R"("filters": 3, "kernel_size": 3)")),
              HasSubstr("takes images with 3 axes, not 1"));
  EXPECT_THAT(says(layer("ZeroPadding2D", "p", R"("batch_input_shape": [null, 4, 4, 1], "padding": 3)") + "," +
                   convolution("c", 3, 3)),
              HasSubstr("Conv2D 'c': its padding of 3 is not less than its window of 3"));
  EXPECT_THAT(says(layer("LSTM", "l", R"("batch_input_shape": [null, 4, 6], "units": 3, "return_sequences": true)") +
                   "," + layer("Flatten", "f", "")),
              HasSubstr("sequences have any length"));
  EXPECT_THAT(keras("{\"class_name\": ").errors, HasSubstr("this is no JSON"));
  EXPECT_THAT(keras("[1, 2]").errors, HasSubstr("this is no Keras model"));
  EXPECT_THAT(keras(sequential(dense("a", 3, "relu", in)), "loss = hinge").errors,
              HasSubstr("the loss 'hinge' is not known here"));
  EXPECT_THAT(keras(sequential(dense("a", 3, "relu", in)), "los = mse").errors, HasSubstr("did you mean 'loss'?"));
}

}  // namespace
}  // namespace tutti::brainscript::keras_test
