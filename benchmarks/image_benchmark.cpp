// SPDX-License-Identifier: Apache-2.0
// Training steps of the image networks of the field on made-up data, momentum update included: milliseconds per step,
// GFLOP/s of the convolutions and products, that as a share of a large matrix product's rate measured beside it, and
// the memory planned. Usage: image_benchmark [--plain] [--direct] [--bfloat16] [--seconds S] NAME...
#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../tests/graph/graph_builder.h"
#include "momentum_sink.h"
#include "tutti/network.h"

namespace tutti {
namespace {

using List = std::vector<double>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Layers on a graph. A value knows its size, so that parameters can be declared in full.
class Layers {
 public:
  struct Image {
    std::size_t node;
    double width, height, channels;
  };
  Image input(double size, double channels) {
    return {b.input("features", {size, size, channels}), size, size, channels};
  }
  Image convolution(Image x, double maps, double kernel, double stride = 1, double pad = 0, double groups = 1,
                    bool bias = true) {
    const auto w = b.add("LearnableParameter", name("W"), {},
                         {{"dims", List{kernel, kernel, x.channels / groups, maps}},
                          {"init", std::string("gaussian")},
                          {"randomSeed", ++seed_}});
    Image y = resized(x,
                      b.add("Convolution", name("conv"), {w, x.node},
                            {{"kernelDims", List{kernel, kernel}},
                             {"mapDims", List{maps}},
                             {"stride", List{stride}},
                             {"lowerPad", List{pad}},
                             {"upperPad", List{pad}},
                             {"groups", groups}}),
                      kernel, stride, pad);
    y.channels = maps;
    flops_ += (first_ ? 4.0 : 6.0) * y.width * y.height * maps * kernel * kernel * x.channels / groups;
    first_ = false;
    if (bias) y.node = b.add("Plus", name("biased"), {y.node, b.parameter(name("b"), {1, 1, maps}, ++seed_, 0.1)});
    return y;
  }
  Image relu(Image x) { return x.node = b.add("RectifiedLinear", name("relu"), {x.node}), x; }
  Image normalized(Image x) {
    const auto scale = b.add("LearnableParameter", name("scale"), {},
                             {{"dims", List{x.channels}}, {"init", std::string("fixedValue")}, {"value", 1.0}});
    const auto bias = b.parameter(name("shift"), {x.channels}, ++seed_, 0.1);
    x.node = b.add(
        "BatchNormalization", name("bn"),
        {x.node, scale, bias, b.constant(name("mean"), 0, {x.channels}), b.constant(name("variance"), 0, {x.channels})},
        {{"spatial", true}, {"normalizationTimeConstant", 5000.0}});
    return x;
  }
  Image pool(Image x, const char* type, double kernel, double stride, double pad = 0) {
    return resized(x,
                   b.add("Pooling", name("pool"), {x.node},
                         {{"kernelDims", List{kernel, kernel}},
                          {"poolingType", std::string(type)},
                          {"stride", List{stride}},
                          {"lowerPad", List{pad}},
                          {"upperPad", List{pad}}}),
                   kernel, stride, pad);
  }
  Image response(Image x) {
    x.node = b.add("LocalResponseNormalization", name("lrn"), {x.node},
                   {{"depthRadius", 2.0}, {"bias", 1.0}, {"alpha", 0.0001}, {"beta", 0.75}});
    return x;
  }
  Image plus(Image x, Image y) { return x.node = b.add("Plus", name("sum"), {x.node, y.node}), x; }
  Image stacked(const std::vector<Image>& parts) {
    Image all = parts[0];
    std::vector<std::size_t> nodes;
    all.channels = 0;
    for (const auto& p : parts) nodes.push_back(p.node), all.channels += p.channels;
    all.node = b.add("RowStack", name("stack"), nodes, {{"axis", 3.0}});
    return all;
  }
  Image dense(Image x, double out) {
    const double in = x.width * x.height * x.channels;
    const auto w = b.add("LearnableParameter", name("W"), {},
                         {{"dims", List{out, in}}, {"init", std::string("gaussian")}, {"randomSeed", ++seed_}});
    const auto flat = b.add("Reshape", name("flat"), {x.node}, {{"dims", List{in}}});
    const auto times = b.add("Times", name("t"), {w, flat});
    flops_ += 6 * in * out;
    return {b.add("Plus", name("z"), {times, b.parameter(name("b"), {out}, ++seed_, 0.1)}), out, 1, 1};
  }
  Image dropped(Image x) { return x.node = b.add("Dropout", name("drop"), {x.node}), x; }
  void criterion(Image z) {
    b.criterion("CrossEntropyWithSoftmax", "ce", {b.input("labels", {z.width}), z.node});
    classes = static_cast<std::size_t>(z.width);
  }
  double flops() const { return flops_; }

  test::GraphBuilder b;
  std::size_t classes = 0;

 private:
  std::string name(const char* kind) { return kind + std::to_string(++count_); }
  static Image resized(Image x, std::size_t node, double kernel, double stride, double pad) {
    const auto size = [&](double in) { return std::floor((in + 2 * pad - kernel) / stride) + 1; };
    return {node, size(x.width), size(x.height), x.channels};
  }
  double flops_ = 0, seed_ = 0;
  bool first_ = true;
  int count_ = 0;
};

using Image = Layers::Image;

void lenet(Layers& l) {
  Image x = l.input(28, 1);
  x = l.pool(l.relu(l.convolution(x, 20, 5)), "max", 2, 2);
  x = l.pool(l.relu(l.convolution(x, 50, 5)), "max", 2, 2);
  l.criterion(l.dense(l.relu(l.dense(x, 500)), 10));
}

void resnet20(Layers& l) {
  Image x = l.relu(l.normalized(l.convolution(l.input(32, 3), 16, 3, 1, 1, 1, false)));
  for (const double maps : {16.0, 32.0, 64.0})
    for (int block = 0; block < 3; ++block) {
      const double stride = maps > 16 && block == 0 ? 2 : 1;
      Image y = l.relu(l.normalized(l.convolution(x, maps, 3, stride, 1, 1, false)));
      y = l.normalized(l.convolution(y, maps, 3, 1, 1, 1, false));
      if (stride > 1) x = l.normalized(l.convolution(x, maps, 1, 2, 0, 1, false));
      x = l.relu(l.plus(y, x));
    }
  l.criterion(l.dense(l.pool(x, "average", 8, 1), 10));
}

void alexnet(Layers& l) {
  Image x = l.relu(l.convolution(l.input(227, 3), 96, 11, 4));
  x = l.pool(l.response(x), "max", 3, 2);
  x = l.pool(l.response(l.relu(l.convolution(x, 256, 5, 1, 2, 2))), "max", 3, 2);
  x = l.relu(l.convolution(x, 384, 3, 1, 1));
  x = l.relu(l.convolution(x, 384, 3, 1, 1, 2));
  x = l.pool(l.relu(l.convolution(x, 256, 3, 1, 1, 2)), "max", 3, 2);
  x = l.dropped(l.relu(l.dense(x, 4096)));
  x = l.dropped(l.relu(l.dense(x, 4096)));
  l.criterion(l.dense(x, 1000));
}

Image inception(Layers& l, Image x, double a, double b3, double b, double c5, double c, double d) {
  return l.stacked({l.relu(l.convolution(x, a, 1)), l.relu(l.convolution(l.relu(l.convolution(x, b3, 1)), b, 3, 1, 1)),
                    l.relu(l.convolution(l.relu(l.convolution(x, c5, 1)), c, 5, 1, 2)),
                    l.relu(l.convolution(l.pool(x, "max", 3, 1, 1), d, 1))});
}

void googlenet(Layers& l) {
  Image x = l.pool(l.relu(l.convolution(l.input(224, 3), 64, 7, 2, 3)), "max", 3, 2, 1);
  x = l.relu(l.convolution(l.response(x), 64, 1));
  x = l.pool(l.response(l.relu(l.convolution(x, 192, 3, 1, 1))), "max", 3, 2, 1);
  x = inception(l, x, 64, 96, 128, 16, 32, 32);
  x = l.pool(inception(l, x, 128, 128, 192, 32, 96, 64), "max", 3, 2, 1);
  x = inception(l, x, 192, 96, 208, 16, 48, 64);
  x = inception(l, x, 160, 112, 224, 24, 64, 64);
  x = inception(l, x, 128, 128, 256, 24, 64, 64);
  x = inception(l, x, 112, 144, 288, 32, 64, 64);
  x = l.pool(inception(l, x, 256, 160, 320, 32, 128, 128), "max", 3, 2, 1);
  x = inception(l, x, 256, 160, 320, 32, 128, 128);
  x = inception(l, x, 384, 192, 384, 48, 128, 128);
  l.criterion(l.dense(l.dropped(l.pool(x, "average", 7, 1)), 1000));
}

void vgg16(Layers& l) {
  Image x = l.input(224, 3);
  for (const auto& [maps, count] : {std::pair{64.0, 2}, {128.0, 2}, {256.0, 3}, {512.0, 3}, {512.0, 3}}) {
    for (int i = 0; i < count; ++i) x = l.relu(l.convolution(x, maps, 3, 1, 1));
    x = l.pool(x, "max", 2, 2);
  }
  x = l.dropped(l.relu(l.dense(x, 4096)));
  x = l.dropped(l.relu(l.dense(x, 4096)));
  l.criterion(l.dense(x, 1000));
}

void resnet50(Layers& l) {
  Image x = l.relu(l.normalized(l.convolution(l.input(224, 3), 64, 7, 2, 3, 1, false)));
  x = l.pool(x, "max", 3, 2, 1);
  for (const auto& [maps, count] : {std::pair{64.0, 3}, {128.0, 4}, {256.0, 6}, {512.0, 3}})
    for (int block = 0; block < count; ++block) {
      const double stride = maps > 64 && block == 0 ? 2 : 1;
      Image y = l.relu(l.normalized(l.convolution(x, maps, 1, 1, 0, 1, false)));
      y = l.relu(l.normalized(l.convolution(y, maps, 3, stride, 1, 1, false)));
      y = l.normalized(l.convolution(y, 4 * maps, 1, 1, 0, 1, false));
      if (block == 0) x = l.normalized(l.convolution(x, 4 * maps, 1, stride, 0, 1, false));
      x = l.relu(l.plus(y, x));
    }
  l.criterion(l.dense(l.pool(x, "average", 7, 1), 1000));
}

struct Model {
  void (*build)(Layers&);
  std::size_t batch;
};
const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> all = {{"lenet", {lenet, 64}},     {"resnet20", {resnet20, 128}},
                                                   {"alexnet", {alexnet, 32}}, {"googlenet", {googlenet, 32}},
                                                   {"vgg16", {vgg16, 8}},      {"resnet50", {resnet50, 8}}};
  return all;
}

double product_rate() {
  constexpr dnnl_dim_t n = 1536;
  FloatBuffer a(n * n), b(n * n), c(n * n);
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    const auto begin = Clock::now();
    dnnl_sgemm('N', 'N', n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    best = std::min(best, seconds_since(begin));
  }
  return 2.0 * n * n * n / best;
}

void measure(const std::string& name, const NetworkOptions& options, double budget) {
  const Model& model = models().at(name);
  Layers layers;
  model.build(layers);
  Network network(layers.b.graph(), options);
  test::Data data(model.batch);
  data.random("features", network.inputs_for_training()[0].shape.elements() == layers.classes
                              ? network.inputs_for_training()[1].shape.elements()
                              : network.inputs_for_training()[0].shape.elements());
  data.one_hot("labels", layers.classes);
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(static_cast<std::int64_t>(model.batch));
  MomentumSink sink(network.parameters(), 1e-6f);
  double criterion = 0;
  for (int i = 0; i < 2; ++i) criterion = network.forward_backward(data.batch, sink).criterion;
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 3 || seconds_since(begin) < budget) {
    const auto start = Clock::now();
    criterion = network.forward_backward(data.batch, sink).criterion;
    times.push_back(seconds_since(start));
  }
  std::sort(times.begin(), times.end());
  const double step = times[times.size() / 2], rate = layers.flops() * static_cast<double>(model.batch) / step;
  fmt::print(
      "{:10} {:8.2f} ms/step  {:7.1f} samples/s  {:6.1f} GFLOP/s  {:4.2f} of a product  criterion {:.5g}\n  {}\n", name,
      step * 1e3, static_cast<double>(model.batch) / step, rate * 1e-9, rate / product_rate(), criterion,
      network.describe());
}

int run(int argc, char** argv) {
  NetworkOptions options;
  double budget = 5;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--plain")
      options.image_layouts = false;
    else if (word == "--bfloat16")
      options.compute_type = ComputeType::bfloat16;
    else if (word == "--direct")
      options.winograd = false;
    else if (word == "--seconds" && i + 1 < argc)
      budget = std::atof(argv[++i]);
    else if (models().contains(word))
      names.push_back(word);
    else
      return fmt::print(stderr, "there is no network '{}'\n", word), 2;
  }
  if (names.empty())
    for (const auto& [name, model] : models()) names.push_back(name);
  for (const auto& name : names) measure(name, options, budget);
  return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::run(argc, argv); }
