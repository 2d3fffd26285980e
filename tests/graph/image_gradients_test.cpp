// SPDX-License-Identifier: Apache-2.0
// Gradients of the operations on images against central differences, over odd shapes: few and many channels, even
// kernels, strides, uneven padding, groups, one and three spatial axes.
#include <gtest/gtest.h>

#include <cmath>

#include "graph_builder.h"
#include "tutti/gradient_check.h"

namespace tutti::image_gradients_test {
namespace {

using test::Attributes;
using test::Data;
using test::GraphBuilder;
using List = std::vector<double>;

double product(const List& dims) {
  double n = 1;
  for (const double d : dims) n *= d;
  return n;
}

// An image [dims] made of data and a parameter, so that its gradient is seen.
std::size_t image(GraphBuilder& b, const List& dims, double seed = 1) {
  const auto n = std::to_string(static_cast<int>(seed));
  const auto x = b.add("Reshape", "r" + n, {b.input("x" + n, {product(dims)})}, {{"dims", dims}});
  return b.add("ElementTimes", "px" + n, {b.parameter("P" + n, dims, seed, 20), x});
}

// Every element of `value` weighted differently and curved, then summed.
void criterion(GraphBuilder& b, std::size_t value, double elements) {
  const auto flat = b.add("Reshape", "flat", {value}, {{"dims", List{elements}}});
  const auto weighted = b.add("ElementTimes", "weighted", {b.parameter("Q", {elements}, 99, 10), flat});
  b.criterion("SumElements", "total", {b.add("Sin", "curved", {weighted})});
}

void expect_agreement(GraphBuilder& b, const std::vector<List>& images, std::size_t columns = 3, std::int64_t plan = 0,
                      std::size_t entries = 30) {
  Data data(columns);
  for (std::size_t i = 0; i < images.size(); ++i)
    data.random("x" + std::to_string(i + 1), static_cast<std::size_t>(product(images[i])));
  std::vector<float> order(columns * static_cast<std::size_t>(product(images[0])));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<float>((i * 7919) % 31) - 15;
  data.dense("order", order);
  Network network(b.graph(), {});
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(plan ? plan : static_cast<std::int64_t>(columns));
  // Running statistics that normalise are none in the first step.
  test::Announced sink;
  network.forward_backward(data.batch, sink);
  GradientCheckOptions check;
  check.entries = entries;
  for (const auto& m : check_gradients(network, data.batch, check))
    ADD_FAILURE() << m.parameter << "[" << m.index << "]: analytic " << m.analytic << ", numeric " << m.numeric;
}

double sizes_of(GraphBuilder& b, std::size_t value) {
  graph::Graph copy = b.graph();
  copy.criteria = {value};
  NetworkOptions options;
  options.criterion = copy.nodes[value].name;
  Network network(std::move(copy), options);
  network.plan_evaluation(1, {options.criterion});
  Data one(1);
  for (const auto& input : network.inputs_for({options.criterion})) one.random(input.name, input.shape.elements());
  network.bind(one.infos);
  network.initialize_parameters();
  return static_cast<double>(network.forward(one.batch)[0].shape.elements());
}

struct Window {
  std::string name;
  List image, kernel;  // spatial axes
  Attributes more;
};
void PrintTo(const Window& w, std::ostream* out) { *out << w.name; }

std::vector<Window> windows() {
  return {{"OneCell", {1, 1}, {1, 1}, {}},
          {"Odd", {7, 5}, {3, 2}, {}},
          {"Strided", {9, 6}, {3, 3}, {{"stride", List{2, 3}}}},
          {"Same", {6, 5}, {3, 3}, {{"autoPadding", List{1}}}},
          {"SameEven", {6, 7}, {2, 4}, {{"autoPadding", List{1, 1}}}},
          {"SameStrided", {8, 9}, {3, 5}, {{"autoPadding", List{1, 1}}, {"stride", List{2}}}},
          {"SameOneAxis", {5, 6}, {3, 3}, {{"autoPadding", List{1, 0}}}},
          {"Uneven", {5, 6}, {3, 4}, {{"lowerPad", List{2, 0}}, {"upperPad", List{1, 3}}}},
          {"Skipping", {9, 6}, {2, 1}, {{"autoPadding", List{1}}, {"stride", List{3}}}},
          {"Whole", {4, 3}, {4, 3}, {}},
          {"MissingAxis", {5, 3}, {2}, {}},
          {"Line", {9}, {4}, {{"stride", List{2}}}},
          {"Volume", {4, 3, 3}, {2, 2, 2}, {{"autoPadding", List{1}}}}};
}

class Windows : public testing::TestWithParam<Window> {};

List with(List dims, std::initializer_list<double> more) {
  dims.insert(dims.end(), more);
  return dims;
}

std::size_t convolution(GraphBuilder& b, const Window& w, std::size_t x, double channels, double maps, double groups,
                        Attributes more = {}, double scale = 8) {
  Attributes attributes = w.more;
  attributes["kernelDims"] = w.kernel, attributes["mapDims"] = List{maps}, attributes["groups"] = groups;
  for (auto& [key, value] : more) attributes[key] = value;
  List dims = w.kernel;
  for (std::size_t axis = dims.size(); axis < w.image.size(); ++axis) dims.push_back(w.image[axis]);
  return b.add("Convolution", "conv", {b.parameter("W", with(dims, {channels / groups, maps}), 3, scale), x},
               attributes);
}

TEST_P(Windows, Convolution) {
  for (const auto& [channels, maps, groups] :
       {std::array{1.0, 2.0, 1.0}, {3.0, 5.0, 1.0}, {17.0, 16.0, 1.0}, {6.0, 4.0, 2.0}, {5.0, 5.0, 5.0}}) {
    SCOPED_TRACE(testing::Message() << channels << " channels, " << maps << " maps, " << groups << " groups");
    const List dims = with(GetParam().image, {channels});
    GraphBuilder b;
    const auto y = convolution(b, GetParam(), image(b, dims), channels, maps, groups);
    criterion(b, y, sizes_of(b, y));
    expect_agreement(b, {dims}, 3, 0, 12);
  }
}

TEST_P(Windows, ConvolutionWithBiasAndReluInParts) {
  const List dims = with(GetParam().image, {3});
  GraphBuilder b;
  const auto x = image(b, dims);
  const auto conv = convolution(b, GetParam(), x, 3, 18, 1, {}, 0.5);
  // Biases that are large against the sums: no step of the differences crosses the kink of ReLU.
  const auto bias = b.parameter("B", with(List(GetParam().image.size(), 1), {18}), 5, 200);
  const auto y = b.add("RectifiedLinear", "y", {b.add("Plus", "p", {conv, bias})});
  // The image is used twice, so that one gradient is added to the other.
  const auto total = b.add(
      "Plus", "both",
      {b.add("SumElements", "s", {b.add("Tanh", "t", {x})}), b.add("SumElements", "u", {b.add("Sin", "v", {y})})});
  b.graph().criteria = {total};
  expect_agreement(b, {dims}, 5, 2, 25);
}

TEST_P(Windows, WithoutSharing) {
  for (const auto& sharing : {List{0}, List{1, 0}, List{0, 1, 0}}) {
    SCOPED_TRACE(testing::Message() << sharing.size() << " flags");
    const List dims = with(GetParam().image, {3});
    Attributes attributes = GetParam().more;
    attributes["kernelDims"] = GetParam().kernel, attributes["mapDims"] = List{2}, attributes["sharing"] = sharing;
    GraphBuilder b;
    const auto y = b.add("Convolution", "conv", {b.parameter("W", {2, 0}, 3, 8), image(b, dims)}, attributes);
    criterion(b, y, sizes_of(b, y));
    expect_agreement(b, {dims}, 3, 2, 25);
  }
}

TEST_P(Windows, TransposedWithoutSharing) {
  if (GetParam().name == "Skipping" || GetParam().name == "MissingAxis" || GetParam().name == "Uneven") return;
  const List dims = with(GetParam().image, {3});
  Attributes attributes = GetParam().more;
  attributes["kernelDims"] = with(GetParam().kernel, {4}), attributes["mapDims"] = List{3};
  attributes["sharing"] = List{0, 1, 0}, attributes["transpose"] = true;
  GraphBuilder b;
  const auto y = b.add("Convolution", "conv", {b.parameter("W", {0, 3}, 3, 8), image(b, dims)}, attributes);
  criterion(b, y, sizes_of(b, y));
  expect_agreement(b, {dims}, 3, 0, 25);
}

TEST_P(Windows, Transposed) {
  if (GetParam().name == "Skipping" || GetParam().name == "MissingAxis" || GetParam().name == "Uneven") return;
  const List dims = with(GetParam().image, {3});
  GraphBuilder b;
  const auto y = convolution(b, GetParam(), image(b, dims), 4, 3, 1, {{"transpose", true}, {"mapDims", List{4}}});
  criterion(b, y, sizes_of(b, y));
  expect_agreement(b, {dims}, 3, 0, 40);
}

TEST_P(Windows, Pooling) {
  for (const char* type : {"max", "average"})
    for (const double channels : {1.0, 3.0, 16.0}) {
      SCOPED_TRACE(testing::Message() << type << " over " << channels << " channels");
      const List dims = with(GetParam().image, {channels});
      Attributes attributes = GetParam().more;
      attributes["kernelDims"] = GetParam().kernel, attributes["poolingType"] = std::string(type);
      GraphBuilder b;
      // Whole numbers in disorder and something small: no step of the differences changes which one is the largest.
      const auto whole = b.add("Reshape", "whole", {b.input("order", {product(dims)})}, {{"dims", dims}});
      const auto small = b.add("ElementTimes", "small", {b.constant("k", 0.2), image(b, dims)});
      const auto pooled = b.add("Pooling", "pool", {b.add("Plus", "x", {whole, small})}, attributes);
      criterion(b, b.add("ElementTimes", "near", {b.constant("n", 0.1), pooled}), sizes_of(b, pooled));
      expect_agreement(b, {dims}, 3, 0, 15);
    }
}

INSTANTIATE_TEST_SUITE_P(Images, Windows, testing::ValuesIn(windows()),
                         [](const auto& info) { return info.param.name; });

TEST(ImageGradients, PoolingThatRoundsUpAndCountsPadding) {
  for (const char* type : {"max", "average"})
    for (const bool include : {false, true})
      for (const double channels : {3.0, 16.0}) {
        SCOPED_TRACE(testing::Message() << type << (include ? " with padding over " : " over ") << channels);
        const List dims = {5, 4, channels};
        GraphBuilder b;
        const auto whole = b.add("Reshape", "whole", {b.input("order", {product(dims)})}, {{"dims", dims}});
        const auto small = b.add("ElementTimes", "small", {b.constant("k", 0.2), image(b, dims)});
        const auto pooled = b.add("Pooling", "pool", {b.add("Plus", "x", {whole, small})},
                                  {{"kernelDims", List{2, 3}},
                                   {"stride", List{2, 2}},
                                   {"autoPadding", List{0}},
                                   {"ceilOutDim", true},
                                   {"includePad", include},
                                   {"poolingType", std::string(type)}});
        ASSERT_EQ(sizes_of(b, pooled), 3 * 2 * channels);
        criterion(b, b.add("ElementTimes", "near", {b.constant("n", 0.1), pooled}), 3 * 2 * channels);
        expect_agreement(b, {dims}, 3, 0, 15);
      }
}

TEST(ImageGradients, ChannelsFirst) {
  GraphBuilder b;
  const List dims = {3, 5, 4};
  const auto w = b.parameter("W", {3, 2, 3, 4}, 3, 8);
  const auto conv = b.add("Convolution", "conv", {w, image(b, dims)},
                          {{"kernelDims", List{3, 2}}, {"mapDims", List{4}}, {"imageLayout", std::string("HWC")}});
  const auto pool = b.add(
      "Pooling", "pool", {conv},
      {{"kernelDims", List{2, 2}}, {"poolingType", std::string("average")}, {"imageLayout", std::string("legacy")}});
  criterion(b, pool, 4 * 2 * 2);
  expect_agreement(b, {dims});
}

TEST(ImageGradients, GreyImageWithoutChannelAxis) {
  GraphBuilder b;
  const auto conv = b.add("Convolution", "conv", {b.parameter("W", {3, 3, 1, 2}, 3, 8), image(b, {5, 4})},
                          {{"kernelDims", List{3, 3}}, {"mapDims", List{2}}});
  EXPECT_EQ(sizes_of(b, conv), 3 * 2 * 2);
  criterion(b, conv, 12);
  expect_agreement(b, {{5, 4}});
}

struct Normalized {
  const char* name;
  List image;
  bool spatial;
  double blend;
  bool relu, add;
  bool add_own = false;  // the input of the normalisation
};
void PrintTo(const Normalized& n, std::ostream* out) { *out << n.name; }
class BatchNormalizations : public testing::TestWithParam<Normalized> {};

TEST_P(BatchNormalizations, Gradient) {
  const Normalized& n = GetParam();
  GraphBuilder b;
  const double channels = n.spatial ? n.image.back() : product(n.image);
  const auto x = image(b, n.image);
  // Biases that are large against the rest: no step of the differences crosses the kink of ReLU.
  const auto scale = b.parameter("S", {channels}, 4, n.relu ? 1 : 20);
  const auto bias = b.parameter("B", {channels}, 5, n.relu ? 300 : 10);
  const auto mean = b.constant("mean", 0.2, {channels}), variance = b.constant("variance", 1.3, {channels});
  auto y = b.add("BatchNormalization", "bn", {x, scale, bias, mean, variance},
                 {{"spatial", n.spatial}, {"normalizationTimeConstant", INFINITY}, {"blendTimeConstant", n.blend}});
  if (n.add) y = b.add("Plus", "sum", {y, b.add("ElementTimes", "less", {b.constant("k", 0.1), image(b, n.image, 2)})});
  if (n.add_own) y = b.add("Plus", "own", {y, x});
  if (n.relu) y = b.add("RectifiedLinear", "relu", {y});
  criterion(b, y, product(n.image));
  expect_agreement(b, n.add ? std::vector<List>{n.image, n.image} : std::vector<List>{n.image}, 6, 2);
}

INSTANTIATE_TEST_SUITE_P(Images, BatchNormalizations,
                         testing::Values(Normalized{"Elements", {5}, false, 0, false, false},
                                         Normalized{"ManyElements", {7, 5}, false, 0, true, false},
                                         Normalized{"OneChannel", {3, 3, 1}, true, 0, false, false},
                                         Normalized{"Channels", {3, 2, 5}, true, 0, false, false},
                                         Normalized{"ChannelsRelu", {4, 1, 17}, true, 0, true, false},
                                         Normalized{"ChannelsAddRelu", {4, 5, 3}, true, 0, true, true},
                                         Normalized{"ChannelsAdd", {2, 2, 18}, true, 0, false, true},
                                         Normalized{"ElementsAddOwn", {5}, false, 0, false, false, true},
                                         Normalized{"ChannelsAddOwn", {2, 2, 18}, true, 0, false, false, true},
                                         Normalized{"ChannelsAddOwnRelu", {4, 5, 3}, true, 0, true, false, true},
                                         Normalized{"Blended", {3, 3, 4}, true, 9, false, false},
                                         Normalized{"RunningOnly", {3, 3, 4}, true, INFINITY, true, false}),
                         [](const auto& info) { return info.param.name; });

TEST(ImageGradients, LocalResponseNormalization) {
  for (const double channels : {1.0, 3.0, 5.0, 18.0})
    for (const double radius : {0.0, 1.0, 2.0})
      for (const double beta : {0.75, 0.5}) {
        SCOPED_TRACE(testing::Message() << channels << " channels, radius " << radius);
        GraphBuilder b;
        const List dims = {5, 4, channels};
        const auto y = b.add("LocalResponseNormalization", "lrn", {image(b, dims)},
                             {{"depthRadius", radius}, {"bias", 1.5}, {"alpha", 0.7}, {"beta", beta}});
        criterion(b, y, product(dims));
        expect_agreement(b, {dims}, 2, 0, 30);
      }
}

TEST(ImageGradients, Unpooling) {
  GraphBuilder b;
  const List large = {6, 5, 3}, small = {3, 2, 3};
  const auto x = b.add("Reshape", "x", {b.input("x2", {90})}, {{"dims", large}});
  const auto y =
      b.add("MaxUnpooling", "unpool", {image(b, small), x}, {{"kernelDims", List{2, 2}}, {"stride", List{2}}});
  criterion(b, y, product(large));
  expect_agreement(b, {small, large});
}

TEST(ImageGradients, Regions) {
  GraphBuilder b;
  const List dims = {6, 5, 2};
  const auto x = b.add("ElementTimes", "far", {b.constant("f", 40), image(b, dims)});
  const auto rois = b.add("Sigmoid", "rois", {image(b, {4, 3}, 2)});
  const auto y = b.add("ROIPooling", "pool", {x, rois}, {{"shape", List{2, 3}}});
  const auto near = b.add("ElementTimes", "near", {b.constant("n", 0.02), y});
  criterion(b, near, 2 * 3 * 2 * 3);
  expect_agreement(b, {dims, {4, 3}}, 2, 0, 1);
}

TEST(ImageGradients, RegionsInPixels) {
  GraphBuilder b;
  const List dims = {6, 5, 2};
  const auto x = b.add("ElementTimes", "far", {b.constant("f", 40), image(b, dims)});
  const auto rois = b.add("ElementTimes", "rois", {b.constant("r", 48), b.add("Sigmoid", "s", {image(b, {4, 3}, 2)})});
  const auto y = b.add("ROIPooling", "pool", {x, rois}, {{"shape", List{2, 3}}, {"spatialScale", 0.125}});
  const auto near = b.add("ElementTimes", "near", {b.constant("n", 0.02), y});
  criterion(b, near, 2 * 3 * 2 * 3);
  expect_agreement(b, {dims, {4, 3}}, 2, 0, 1);
}

}  // namespace
}  // namespace tutti::image_gradients_test
