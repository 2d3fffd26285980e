// SPDX-License-Identifier: Apache-2.0
// The layers and operations of image networks: attributes, dims of parameters, seeds, names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "networks.h"
#include "tutti/network.h"

namespace tutti::brainscript::image_library_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double num(const graph::Node& n, const std::string& name) { return std::get<double>(n.attributes.at(name)); }
bool yes(const graph::Node& n, const std::string& name) { return std::get<bool>(n.attributes.at(name)); }
std::string str(const graph::Node& n, const std::string& name) { return std::get<std::string>(n.attributes.at(name)); }
std::vector<double> nums(const graph::Node& n, const std::string& name) {
  return std::get<std::vector<double>>(n.attributes.at(name));
}

// The outputs' values, one after the other, of one sample.
std::vector<float> values_of(const Built& b, const std::string& input, const std::vector<float>& sample) {
  Network network(b.graph, {});
  network.initialize_parameters();
  Batch batch;
  batch.streams.resize(1);
  batch.streams[0].columns = 1, batch.streams[0].dense = sample;
  batch.samples = batch.sequences = batch.columns = batch.global_samples = batch.global_columns = 1;
  network.bind({{input, sample.size(), false}});
  network.plan_evaluation(1, b.names_of(b.graph.outputs));
  std::vector<float> all;
  for (const auto& output : network.forward(batch)) all.insert(all.end(), output.values.begin(), output.values.end());
  return all;
}

const char* const small = R"({
  model = Sequential (
    ConvolutionalLayer {16, (5:4), pad=true, activation=ReLU, init='gaussian', initValueScale=0.5, initBias=0.1} :
    MaxPoolingLayer {(3:2), stride=(2:1)} :
    ConvolutionalLayer {32, (3:3), stride=2, bias=false, groups=2} :
    BatchNormalizationLayer {spatialRank=2, initialScale=0.5, normalizationTimeConstant=1#INF} :
    AveragePoolingLayer {2, pad=true} :
    DenseLayer {10}
  )
  features = Input {20:20:3}; labels = Input {10}
  z = model (features)
  ce = CrossEntropyWithSoftmax (labels, z)
  criterionNodes = (ce)
})";

TEST(ImageLayers, ConvolutionHasItsAttributesAndParameters) {
  const Built b = build(small);
  ASSERT_EQ(b.errors, "");
  const graph::Node& w = b["model.arrayOfFunctions[0].W"];
  EXPECT_THAT(nums(w, "dims"), ElementsAre(5, 4, 0, 16));
  EXPECT_EQ(num(w, "initFilterRank"), 2);
  EXPECT_EQ(num(w, "initOutputRank"), -1);
  EXPECT_EQ(str(w, "init"), "gaussian");
  EXPECT_EQ(num(w, "initValueScale"), 0.5);
  const graph::Node& bias = b["model.arrayOfFunctions[0].b"];
  EXPECT_THAT(nums(bias, "dims"), ElementsAre(1, 1, 16));
  EXPECT_EQ(num(bias, "value"), 0.1);
  std::vector<const graph::Node*> convolutions;
  for (const auto& n : b.graph.nodes)
    if (n.operation == "Convolution") convolutions.push_back(&n);
  ASSERT_EQ(convolutions.size(), 2u);
  const graph::Node &first = *convolutions[0], &second = *convolutions[1];
  EXPECT_EQ(b.graph.nodes[first.inputs[0]].name, "model.arrayOfFunctions[0].W");
  EXPECT_EQ(b.graph.nodes[first.inputs[1]].name, "features");
  EXPECT_THAT(nums(first, "kernelDims"), ElementsAre(5, 4));
  EXPECT_THAT(nums(first, "mapDims"), ElementsAre(16));
  EXPECT_THAT(nums(first, "stride"), ElementsAre(1));
  EXPECT_THAT(nums(first, "autoPadding"), ElementsAre(1));
  EXPECT_THAT(nums(first, "sharing"), ElementsAre(1));
  EXPECT_FALSE(yes(first, "transpose"));
  EXPECT_EQ(num(first, "groups"), 1);
  EXPECT_FALSE(first.attributes.contains("outputShape"));
  EXPECT_THAT(nums(second, "autoPadding"), ElementsAre(0));
  EXPECT_THAT(nums(second, "stride"), ElementsAre(2));
  EXPECT_EQ(num(second, "groups"), 2);
  EXPECT_THROW(b["model.arrayOfFunctions[2].b"], std::runtime_error);
}

TEST(ImageLayers, ConvolutionsCanBeTransposedByEveryName) {
  const Built b = build(R"({
    x = Input {6:6:2}
    W = ParameterTensor {3:3:2:2}
    plain = Convolution (W, x, (3:3), mapDims=2, transpose=false, imageLayout='CHW', maxTempMemSizeInSamples=1)
    wide = Convolution (W, x, (3:3:2), mapDims=2, stride=2, autoPadding=false, transpose=true, outputShape=(13:13))
    old = Convolution (W, x, (3:3:2), mapDims=2, deconv=true)
    named = ConvolutionTranspose (W, x, (3:3:2), mapDims=2, sharing=true, lowerPad=0, upperPad=0)
    layer = ConvolutionTransposeLayer {2, (3:3), 2, pad=true, bias=false} (x)
    outputNodes = (plain : wide : old : named : layer)
  })");
  ASSERT_EQ(b.errors, "");
  EXPECT_FALSE(yes(b["plain"], "transpose"));
  EXPECT_THAT(nums(b["wide"], "outputShape"), ElementsAre(13, 13));
  EXPECT_THAT(nums(b["layer"], "mapDims"), ElementsAre(2));
  for (const char* name : {"wide", "old", "named", "layer"}) EXPECT_TRUE(yes(b[name], "transpose")) << name;
  for (const char* name : {"plain", "old", "named"}) EXPECT_THAT(nums(b[name], "autoPadding"), ElementsAre(1)) << name;
}

TEST(ImageLayers, OrthogonalFiltersHaveTheirOutputsLast) {
  const Built b = build(R"({
    x = Input {6:6:2}
    wide = ConvolutionTransposeLayer {2, (3:3), 2, init='orthogonal'} (x)
    plain = ConvolutionTransposeLayer {2, (3:3), 2} (x)
    narrow = ConvolutionalLayer {2, (3:3), init='orthogonal'} (x)
    outputNodes = (wide : plain : narrow)
  })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(num(b["wide.W"], "initOutputRank"), -1);
  EXPECT_EQ(num(b["plain.W"], "initOutputRank"), 1);
  EXPECT_EQ(num(b["narrow.W"], "initOutputRank"), -1);
}

TEST(ImageLayers, SeedsCountFromTheLastLayer) {
  const Built b = build(small);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[5].arrayOfFunctions[0].W"), 1);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[2].W"), 2);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[0].W"), 3);
}

TEST(ImageLayers, PoolingAndNormalisation) {
  const Built b = build(small);
  std::vector<const graph::Node*> pools;
  const graph::Node* norm = nullptr;
  for (const auto& n : b.graph.nodes) {
    if (n.operation == "Pooling") pools.push_back(&n);
    if (n.operation == "BatchNormalization") norm = &n;
  }
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(str(*pools[0], "poolingType"), "max");
  EXPECT_THAT(nums(*pools[0], "kernelDims"), ElementsAre(3, 2));
  EXPECT_THAT(nums(*pools[0], "stride"), ElementsAre(2, 1));
  EXPECT_THAT(nums(*pools[0], "autoPadding"), ElementsAre(0));
  EXPECT_EQ(str(*pools[1], "poolingType"), "average");
  EXPECT_THAT(nums(*pools[1], "autoPadding"), ElementsAre(1));
  ASSERT_TRUE(norm);
  EXPECT_TRUE(yes(*norm, "spatial"));
  EXPECT_EQ(num(*norm, "normalizationTimeConstant"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(num(*norm, "blendTimeConstant"), 0);
  EXPECT_EQ(num(*norm, "epsilon"), 1e-5);
  for (const auto& [name, value, multiplier] :
       {std::tuple("scale", 0.5, 1.0), {"bias", 0.0, 1.0}, {"runMean", 0.0, 0.0}, {"runVariance", 0.0, 0.0}}) {
    const graph::Node& p = b[std::string("model.arrayOfFunctions[3].") + name];
    EXPECT_THAT(nums(p, "dims"), ElementsAre(1, 1, 0)) << name;
    EXPECT_EQ(num(p, "value"), value) << name;
    EXPECT_EQ(num(p, "learningRateMultiplier"), multiplier) << name;
  }
  const Built flat = build("{ x = Input {5}; y = BatchNormalizationLayer {} (x) }");
  EXPECT_THAT(nums(flat["y.scale"], "dims"), ElementsAre(0));
  EXPECT_FALSE(yes(flat["y"], "spatial"));
  EXPECT_EQ(num(flat["y"], "normalizationTimeConstant"), 5000);
}

TEST(ImageLayers, Deconvolution) {
  const Built b = build(
      "{ x = Input {7:7:8}; y = DeconvLayer {3, (5:5), 8, stride=2, lowerPad=(2:2:0), upperPad=2, init='bilinear'} (x) "
      "}");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["y.W"], "dims"), ElementsAre(5, 5, 3, 8));
  EXPECT_EQ(str(b["y.W"], "init"), "bilinear");
  EXPECT_EQ(num(b["y.W"], "initFilterRank"), 2);
  EXPECT_THAT(nums(b["y.b"], "dims"), ElementsAre(1, 1, 3));
  const graph::Node& c = b["y.x.PlusArgs[0]"];
  EXPECT_TRUE(yes(c, "transpose"));
  EXPECT_THAT(nums(c, "kernelDims"), ElementsAre(5, 5, 3));
  EXPECT_THAT(nums(c, "mapDims"), ElementsAre(8));
  EXPECT_THAT(nums(c, "lowerPad"), ElementsAre(2, 2, 0));
  EXPECT_THAT(nums(c, "upperPad"), ElementsAre(2));
}

// The original's attributes of a transposed convolution, and the plain ones: the same values.
TEST(ImageLayers, DeconvolutionInBothForms) {
  const Built b = build(R"({ x = Input {4:3:2}; W = ParameterTensor {3:3:5:2, initFilterRank=2, initOutputRank=-1}
    a = Convolution (W, x, (3:3:5), mapDims=2, stride=2, autoPadding=false, lowerPad=1, upperPad=0, deconv=true)
    c = Convolution (W, x, (3:3), mapDims=5, stride=2, autoPadding=false, lowerPad=1, upperPad=0, deconv=true)
    d = DeconvLayer {5, (3:3), 2, stride=2, lowerPad=1, bias=false} (x); shown = Print (d.dims); outputNodes = (a : c : d) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr(": note: (8:6:5)")));
  Network network(b.graph, {});
  network.initialize_parameters();
  std::vector<float> values(2 * 24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
  Batch batch;
  batch.streams.resize(1);
  batch.streams[0].columns = 2, batch.streams[0].dense = values;
  batch.samples = batch.sequences = batch.columns = batch.global_samples = batch.global_columns = 2;
  network.bind({{"x", 24, false}});
  network.plan_evaluation(2, {"a", "c"});
  const auto outputs = network.forward(batch);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].shape, (Shape{{8, 6, 5}}));
  EXPECT_EQ(std::vector<float>(outputs[0].values.begin(), outputs[0].values.end()),
            std::vector<float>(outputs[1].values.begin(), outputs[1].values.end()));
  EXPECT_NE(*std::max_element(outputs[0].values.begin(), outputs[0].values.end()), 0);
}

TEST(ImageLayers, OneWindowOverTheWholeImage) {
  const Built b = build(
      "{ x = Input {7:5:8}; a = GlobalAveragePoolingLayer {} (x); m = GlobalMaxPoolingLayer {} (x)\n"
      "t = AveragePooling (x, 3, 2, 2, 1); u = MaxPooling (x, 3, 2, 2, 1, imageLayout='HWC')\n"
      "l = LocalResponseNormalizationLayer {2, 3, 7, 0.75} (x) }");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["a"], "kernelDims"), ElementsAre(7, 5));
  EXPECT_EQ(str(b["a"], "poolingType"), "average");
  EXPECT_EQ(str(b["m"], "poolingType"), "max");
  EXPECT_THAT(nums(b["t"], "kernelDims"), ElementsAre(3, 2));
  EXPECT_THAT(nums(b["t"], "stride"), ElementsAre(2, 1));
  EXPECT_EQ(str(b["u"], "imageLayout"), "HWC");
  EXPECT_EQ(num(b["l"], "depthRadius"), 3);
  EXPECT_EQ(num(b["l"], "bias"), 2);
  EXPECT_EQ(num(b["l"], "alpha"), 1);
  EXPECT_EQ(num(b["l"], "beta"), 0.75);
  EXPECT_THAT(build("{ x = Input {7}; a = GlobalMaxPoolingLayer {} (x) }").errors, HasSubstr("axes of an image"));
}

TEST(ImageOperations, TakeTheirArguments) {
  const Built b = build(R"({ x = Input {8:8:3}; W = ParameterTensor {3:3:3:4}; r = Input {4:2}
    c = Convolution (W, x, (3:3:3), mapDims=4, stride=(2:2:3), autoPadding=(true:true:false))
    d = Convolution (W, x, (3:3:3), deconv=true, outputShape=(9:9:3))
    p = Pooling (x, 'max', (2:2)); n = MaxUnpooling (p, x, (2:2), stride=2); g = ROIPooling (x, r, (2:2))
    q = CNTK2.Pooling (x, 'average', 3); s = CNTK2.ROIPooling (x, r, 5, spatialScale=1/8); k = CNTK2.Plus (x, x) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["c"], "autoPadding"), ElementsAre(1, 1, 0));
  EXPECT_THAT(nums(b["c"], "stride"), ElementsAre(2, 2, 3));
  EXPECT_THAT(nums(b["d"], "outputShape"), ElementsAre(9, 9, 3));
  EXPECT_TRUE(yes(b["d"], "transpose"));
  EXPECT_THAT(nums(b["p"], "autoPadding"), ElementsAre(1));
  EXPECT_THAT(nums(b["p"], "stride"), ElementsAre(1));
  EXPECT_EQ(b["n"].inputs.size(), 2u);
  EXPECT_EQ(b.graph.nodes[b["n"].inputs[0]].name, "p");
  EXPECT_THAT(nums(b["g"], "shape"), ElementsAre(2, 2));
  EXPECT_EQ(str(b["q"], "poolingType"), "average");
  EXPECT_THAT(nums(b["s"], "shape"), ElementsAre(5));
  EXPECT_EQ(num(b["s"], "spatialScale"), 0.125);
  EXPECT_FALSE(b["g"].attributes.contains("spatialScale"));
  EXPECT_EQ(b["k"].operation, "Plus");
}

TEST(ImageOperations, PoolingRoundsUpAndCountsPadding) {
  const Built b = build(R"({ x = Input {3:3:1}
    a = AveragePoolingLayer {(2:2), stride=2, ceilOutDim=true} (x)
    c = AveragePoolingLayer {(2:2), stride=2, ceilOutDim=true, includePad=true} (x)
    m = MaxPoolingLayer {(2:2), stride=2, ceilOutDim=true} (x); d = MaxPoolingLayer {(2:2), stride=2} (x)
    shown = Print (m.dim : d.dim); outputNodes = (a : c) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr(": note: (4:1)")));
  EXPECT_THAT(values_of(b, "x", std::vector<float>(9, 4)), ElementsAre(4, 4, 4, 4, 4, 2, 2, 1));
}

TEST(ImageLayers, BilinearUpsampling) {
  const Built b = build("{ x = Input {2:2:2}; y = BilinearUpsamplingLayer {2, 4, 2} (x); outputNodes = (y) }");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(num(b["y.W"], "learningRateMultiplier"), 0);
  const auto y = values_of(b, "x", {4, 4, 4, 4, 8, 8, 8, 8});
  ASSERT_EQ(y.size(), 72u);
  EXPECT_THAT(std::vector<float>(y.begin() + 12, y.begin() + 18), ElementsAre(1, 3, 4, 4, 3, 1));
  EXPECT_THAT(std::vector<float>(y.begin() + 48, y.begin() + 54), ElementsAre(2, 6, 8, 8, 6, 2));
}

TEST(ImageOperations, NormalizationsOfBothVersions) {
  const Built b =
      build(R"({ x = Input {3}; P = ParameterTensor {3}; n = ParameterTensor {1, initValue=0, learningRateMultiplier=0}
    a = BatchNormalization (x, P, P, P, P); c = BatchNormalization (x, P, P, P, P, n, spatial=true)
    d = BatchNormalization (x, P, P, P, P, runCount=n, disableRegularization=true); e = BatchNormalization (x, P, P, P, P, true)
    f = BatchNormalization (x, P, P, P, P, false, 10, 0, 0.001); g = BatchNormalization (x, P, P, P, P, true, 10, 20, 0.001, false)
    h = BatchNormalization (x, P, P, P, P, true, blendTimeConstant=30, epsilon=0.01); i = BatchNormalization (x, P, P, P, P, true, 10, epsilon=0.01)
    l = BatchNormalizationLayer {disableRegularization=true} (x); s = CNTK2.BatchNormalization (x, P, P, P, P, n, true) })");
  ASSERT_EQ(b.errors, "");
  for (const auto& [name, spatial] : {std::pair("a", false),
                                      {"c", true},
                                      {"d", false},
                                      {"e", true},
                                      {"s", true},
                                      {"f", false},
                                      {"g", true},
                                      {"h", true},
                                      {"i", true}})
    EXPECT_EQ(yes(b[name], "spatial"), spatial) << name;
  const auto constants = [&](const char* name) {
    return std::vector<double>{num(b[name], "normalizationTimeConstant"), num(b[name], "blendTimeConstant"),
                               num(b[name], "epsilon")};
  };
  EXPECT_THAT(constants("f"), ElementsAre(10, 0, 0.001));
  EXPECT_THAT(constants("g"), ElementsAre(10, 20, 0.001));
  EXPECT_THAT(constants("h"), ElementsAre(0, 30, 0.01));
  EXPECT_THAT(constants("i"), ElementsAre(10, 0, 0.01));
  EXPECT_FALSE(yes(b["g"], "useCntkEngine"));
  EXPECT_EQ(b["c"].inputs.size(), 5u);
  EXPECT_FALSE(yes(b["a"], "disableRegularization"));
  EXPECT_TRUE(yes(b["d"], "disableRegularization"));
  EXPECT_TRUE(yes(b["l"], "disableRegularization"));
}

TEST(ImageOperations, RegularizationLeavesOutNormalizations) {
  const Built b = build(R"({ x = Input {3}; y = BatchNormalizationLayer {disableRegularization=true} (x)
    z = BatchNormalizationLayer {} (y); ce = SumElements (z); criterionNodes = (ce) })");
  ASSERT_EQ(b.errors, "");
  Network network(b.graph, {});
  for (const auto& slice : network.parameters().slices)
    EXPECT_EQ(slice.regularization_multiplier, slice.name.starts_with("y.") ? 0 : 1) << slice.name;
}

TEST(ImageOperations, WrongArgumentsAreNamed) {
  EXPECT_THAT(build("{ x = Input {8:8:3}; c = ConvolutionalLayer {2, (3:3), dilation=(1:2)} (x) }").errors,
              HasSubstr("dilation is not part of this version"));
  EXPECT_EQ(build("{ x = Input {8:8:3}; c = ConvolutionalLayer {2, (3:3), dilation=(1:1)} (x) }").errors, "");
  EXPECT_THAT(build("{ x = Input {3}; n = CNTK2.BatchNormalization (x, 1, 1, 1, 1, true, 5000) }").errors,
              HasSubstr("'||' does not go with the number 5000"));
  EXPECT_THAT(build("{ x = Input {8:8:3}; p = Pooling (x, 'max', (2:2), autoPadding=1) }").errors,
              HasSubstr("'autoPadding' of Pooling 'p' must be true or false"));
  EXPECT_THAT(build("{ x = Input {8:8:3}; p = MaxPoolingLayer {(2.5:2)} (x) }").errors,
              HasSubstr("'kernelDims' of Pooling 'p' must be a whole number"));
  EXPECT_THAT(build("{ p = ConvolutionalLayer {3, (2:2), strides=2} (Input {4:4:1}) }").errors,
              HasSubstr("did you mean 'stride'?"));
}

}  // namespace
}  // namespace tutti::brainscript::image_library_test
