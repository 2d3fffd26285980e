// SPDX-License-Identifier: Apache-2.0
// Convolution and its transpose, pooling, unpooling.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/image_geometry.h"
#include "graph/kernels/makers.h"
#include "tutti/error.h"

namespace tutti::graph {
namespace {

// Plans by number of columns, the last ones that were asked for first. Shares have one size or two; a run that sees
// many sizes forgets plans no earlier than the captured graphs that were made with them.
template <class Plan>
class Plans {
 public:
  template <class Make>
  Plan& at(std::size_t columns, const Make& make) {
    auto known = std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return p.first == columns; });
    if (known == plans_.end()) {
      if (plans_.size() == most_shapes) plans_.pop_back();
      known = plans_.emplace(plans_.end(), columns, make());
    }
    std::rotate(plans_.begin(), known, known + 1);
    return *plans_.front().second;
  }

 private:
  std::vector<std::pair<std::size_t, std::unique_ptr<Plan>>> plans_;
};

// Weight (input 0), image (input 1) and, after fusion, a bias per channel (input 2) and ReLU.
class Convolution : public Kernel {
 public:
  explicit Convolution(Instruction i) : Kernel(std::move(i)), transposed_(flag(code.node, "transpose", false)) {
    const ImageGeometry g = convolution_geometry(code.node, code.in[1].shape, code.in[0].shape);
    shape_.window = g.window;
    shape_.in_channels = transposed_ ? g.maps : g.channels;
    shape_.out_channels = transposed_ ? g.channels : g.maps;
    shape_.groups = g.groups;
    shape_.in = (transposed_ ? code.out : code.in[1]).format;
    shape_.out = (transposed_ ? code.in[1] : code.out).format;
    shape_.in_element = (transposed_ ? code.out : code.in[1]).element;
    shape_.out_element = (transposed_ ? code.in[1] : code.out).element;
    shape_.bias = code.in.size() > 2;
    shape_.relu = flag(code.node, "relu", false);
    shape_.winograd = flag(code.node, "winograd", true);
    out_ = {0, g.maps, ImageWindow::product(transposed_ ? g.window.in : g.window.out), code.out.format,
            code.out.element};
    reads_output = shape_.relu;
    if (shape_.bias) reads_input[2] = false;
    last_input_first = true;  // the weight may change once its gradient is announced
  }

  void plan(Backend& backend, std::size_t columns) const override { planned(backend, columns); }

  void forward(Run& run) const override {
    if (run.rows(code.out) == 0) return;
    ConvolutionPlan& p = planned(run.backend, run.rows(code.out));
    if (transposed_)
      p.backward_data(in(run, 1), in(run, 0), out(run), false);
    else
      p.forward(in(run, 1), in(run, 0), shape_.bias ? in(run, 2) : nullptr, out(run), false);
  }

  void backward(Run& run) const override {
    ConvolutionPlan& p = planned(run.backend, run.rows(code.out));
    if (shape_.bias || shape_.relu) {
      const bool wanted = shape_.bias && write[2] != Write::none;
      if (wanted || shape_.relu)
        run.backend.images().bias_relu_gradient(with_columns(out_, run.rows(code.out)),
                                                shape_.relu ? out(run) : nullptr, out_gradient(run),
                                                wanted ? in_gradient(run, 2) : nullptr, wanted && adds(run, 2));
    }
    if (write[1] != Write::none) {
      if (transposed_)
        p.forward(out_gradient(run), in(run, 0), nullptr, in_gradient(run, 1), adds(run, 1), true);
      else
        p.backward_data(out_gradient(run), in(run, 0), in_gradient(run, 1), adds(run, 1), true);
    }
    if (write[0] == Write::none) return;
    if (transposed_)
      p.backward_weights(out_gradient(run), in(run, 1), in_gradient(run, 0), adds(run, 0));
    else
      p.backward_weights(in(run, 1), out_gradient(run), in_gradient(run, 0), adds(run, 0));
  }

 private:
  ConvolutionPlan& planned(Backend& backend, std::size_t columns) const {
    return plans_.at(columns, [&] { return backend.images().plan_convolution(with_columns(shape_, columns)); });
  }

  bool transposed_;
  ConvolutionShape shape_;
  ImageExtent out_;
  mutable Plans<ConvolutionPlan> plans_;
};

PoolingShape pooling_of(const Node& node, const Shape& image) {
  const ImageGeometry g = pooling_geometry(node, image);
  PoolingShape s;
  s.op = text(node, "poolingType", "max") == "average" ? PoolingOp::average : PoolingOp::max;
  s.window = g.window;
  s.channels = g.channels;
  s.include_padding = flag(node, "includePad", false);
  return s;
}

class Pooling : public Kernel {
 public:
  explicit Pooling(Instruction i) : Kernel(std::move(i)), shape_(pooling_of(code.node, code.in[0].shape)) {
    shape_.format = code.out.format, shape_.element = code.out.element;
    reads_no_values();
    constexpr std::size_t cells_of_a_byte = 255;
    if (shape_.op == PoolingOp::max)
      work_per_column = ImageWindow::product(shape_.window.kernel) < cells_of_a_byte ? (code.out.elements + 3) / 4
                                                                                     : code.out.elements;
  }
  void plan(Backend& backend, std::size_t columns) const override { planned(backend, columns); }
  void forward(Run& run) const override {
    if (run.rows(code.out) == 0) return;
    planned(run.backend, run.rows(code.out)).forward(in(run, 0), out(run), run.work[code.out.tensor]);
  }
  void backward(Run& run) const override {
    planned(run.backend, run.rows(code.out))
        .backward(out_gradient(run), run.work[code.out.tensor], in_gradient(run, 0), adds(run, 0));
  }

 private:
  PoolingPlan& planned(Backend& backend, std::size_t columns) const {
    return plans_.at(columns, [&] { return backend.images().plan_pooling(with_columns(shape_, columns)); });
  }
  PoolingShape shape_;
  mutable Plans<PoolingPlan> plans_;
};

// Small image (input 0) and the large one whose maxima say where its values go (input 1). Both are plain.
class Unpooling : public Kernel {
 public:
  explicit Unpooling(Instruction i) : Kernel(std::move(i)), shape_(pooling_of(code.node, code.in[1].shape)) {
    reads_input[0] = false;
    reads_output = false;
    differentiable[1] = false;
  }
  void forward(Run& run) const override { run.backend.images().unpool(shape(run), in(run, 0), in(run, 1), out(run)); }
  void backward(Run& run) const override {
    run.backend.images().unpool_gradient(shape(run), in(run, 1), out_gradient(run), in_gradient(run, 0), adds(run, 0));
  }

 private:
  PoolingShape shape(const Run& run) const { return with_columns(shape_, run.rows(code.out)); }
  PoolingShape shape_;
};

class RegionPooling : public Kernel {
 public:
  explicit RegionPooling(Instruction i) : Kernel(std::move(i)) {
    const Shape &image = code.in[0].shape, &out = code.out.shape;
    shape_ = {0, image[0], image[1], image[2], out[3], out[0], out[1], number(code.node, "spatialScale", 0)};
    replayable = shape_.scale > 0;
    reads_no_values();
    differentiable[1] = false;
    work_per_column = code.out.elements;
  }
  void forward(Run& run) const override {
    if (shape_.scale == 0 && !checked_) check_regions(run);
    run.backend.images().pool_regions(shape(run), in(run, 0), in(run, 1), out(run), run.work[code.out.tensor]);
  }
  void backward(Run& run) const override {
    run.backend.images().pool_regions_gradient(shape(run), out_gradient(run), run.work[code.out.tensor],
                                               in_gradient(run, 0), adds(run, 0));
  }

 private:
  // Of the first minibatch, for the device waits. Relative regions lie within the image, apart from rounding; other
  // values are pixels.
  void check_regions(Run& run) const {
    constexpr float most = 1.01f;
    checked_ = true;
    run.host.resize(run.count(code.in[1]));
    run.backend.download(in(run, 1), run.host.data(), run.host.size());
    for (const float v : run.host)
      if (v > most)
        throw Error(fmt::format(
            "ROIPooling '{}': a region has the value {}, but without spatialScale regions are x, y, width, height as "
            "fractions of the image\nfix: for regions x1, y1, x2, y2 in pixels of the picture, add spatialScale, such "
            "as spatialScale = 1/16 for an image 16 times smaller than the picture",
            code.node.name, v));
  }
  tutti::RegionPooling shape(const Run& run) const { return with_columns(shape_, run.rows(code.out)); }
  tutti::RegionPooling shape_;
  mutable bool checked_ = false;
};

// The same image in another format or type.
class Reorder : public Kernel {
 public:
  explicit Reorder(Instruction i) : Kernel(std::move(i)) { reads_no_values(); }
  void forward(Run& run) const override {
    run.backend.images().reorder(extent(run, code.in[0]), extent(run, code.out), in(run, 0), out(run), false);
  }
  void backward(Run& run) const override {
    run.backend.images().reorder(extent(run, code.out), extent(run, code.in[0]), out_gradient(run), in_gradient(run, 0),
                                 adds(run, 0));
  }

 private:
  ImageExtent extent(const Run& run, const Operand& o) const {
    const std::size_t channels = o.shape.dims.back();
    return {run.rows(o), channels, o.shape.elements() / channels, o.format, o.element};
  }
};

}  // namespace

void list_images(Makers& makers) {
  makers.insert({{"Convolution", make<Convolution>},
                 {"Pooling", make<Pooling>},
                 {"MaxUnpooling", make<Unpooling>},
                 {"ROIPooling", make<RegionPooling>},
                 {"Reorder", make<Reorder>}});  // made by the choice of layouts
}

}  // namespace tutti::graph
