// SPDX-License-Identifier: Apache-2.0
// Convolution by oneDNN. A step is a primitive and, for each tensor that it needs in another layout than the caller's
// (nearly always the weights), a reorder through the shared scratch memory. Weights change from step to step, so they
// are reordered each time and are in cache when the primitive reads them. bfloat16 convolutions are the same with
// operands copied to bfloat16; their results are float32.
#include <algorithm>
#include <optional>

#include "backend/cpu/channel_gradient.h"
#include "backend/cpu/images.h"
#include "backend/cpu/onednn_versions.h"
#include "backend/cpu/winograd.h"

namespace tutti::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

// One tensor of a step.
struct Argument {
  int index = 0;
  bool output = false;
  memory::desc outer, inner;  // as the caller has it, as the primitive wants it
  std::size_t offset = 0;     // in the scratch memory
  Prepared copy, sum;         // between the two; outputs can be added as well
};

class Step {
 public:
  template <class Description>
  Step(OneDnn& dnnl, const Kernels& kernels, const Description& pd, const dnnl::primitive& primitive,
       std::vector<Argument> arguments)
      : dnnl_(dnnl), kernels_(kernels), arguments_(std::move(arguments)) {
    std::vector<std::pair<int, memory::desc>> all;
    std::size_t used = 0;
    for (auto& a : arguments_) {
      all.emplace_back(a.index, a.inner);
      a.offset = used;
      if (a.inner == a.outer) continue;
      used += floats_of(a.inner);
      const auto& [from, to] = a.output ? std::pair{a.inner, a.outer} : std::pair{a.outer, a.inner};
      a.copy = reorder(from, to, false);
      if (a.output) a.sum = reorder(from, to, true);
    }
    scratchpad_ = used;
    all.emplace_back(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
    used += floats_of(pd.scratchpad_desc());
    dnnl_.reserve(used);
    // A result that is added needs temporary memory behind all that; allocated on first use.
    for (auto& a : arguments_)
      if (a.output && !a.copy) a.offset = used, summing_ = used + floats_of(a.inner);
    primitive_ = Prepared(primitive, dnnl_.engine, all);
  }

  // Data in the order of the arguments; outputs are added to where `accumulate` says so.
  void run(std::initializer_list<const float*> data, bool accumulate) {
    if (accumulate) dnnl_.reserve(summing_);
    float* scratch = dnnl_.scratch.data();
    auto pointer = data.begin();
    for (auto& a : arguments_) {
      const float* outer = *pointer++;
      float* own = scratch + a.offset;
      if (!a.output && a.copy) a.copy.set(DNNL_ARG_FROM, outer).set(DNNL_ARG_TO, own).run(dnnl_.stream);
      primitive_.set(a.index, a.copy || (a.output && accumulate) ? own : outer);
    }
    primitive_.set(DNNL_ARG_SCRATCHPAD, scratch + scratchpad_).run(dnnl_.stream);
    pointer = data.begin();
    for (auto& a : arguments_) {
      float* outer = const_cast<float*>(*pointer++);
      float* own = scratch + a.offset;
      if (!a.output) continue;
      if (a.copy)
        (accumulate ? a.sum : a.copy).set(DNNL_ARG_FROM, own).set(DNNL_ARG_TO, outer).run(dnnl_.stream);
      else if (accumulate)
        kernels_.add(own, outer, a.outer.get_size() / sizeof(float));
    }
  }

 private:
  Prepared reorder(const memory::desc& from, const memory::desc& to, bool add) {
    dnnl::primitive_attr attributes;
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::reorder::primitive_desc pd(dnnl_.engine, from, dnnl_.engine, to, attributes);
    return Prepared(dnnl::reorder(pd), dnnl_.engine, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  OneDnn& dnnl_;
  const Kernels& kernels_;
  std::vector<Argument> arguments_;
  Prepared primitive_;
  std::size_t scratchpad_ = 0, summing_ = 0;
};

// oneDNN has it for AVX-512, without groups.
bool onednn_winograd_pays(const ConvolutionShape& s) { return s.groups == 1 && winograd_pays(s); }

class CpuConvolution : public ConvolutionPlan {
 public:
  CpuConvolution(const ConvolutionShape& shape, OneDnn& dnnl, const Kernels& kernels, std::size_t block,
                 ComputeType type)
      : dnnl_(dnnl),
        kernels_(kernels),
        shape_(shape),
        operands_(type == ComputeType::bfloat16 && !onednn_winograd_pays(shape) ? memory::data_type::bf16
                                                                                : memory::data_type::f32) {
    const ImageWindow& w = shape.window;
    x_ = image_memory(shape.columns, shape.in_channels, w, w.in, shape.in, block);
    y_ = image_memory(shape.columns, shape.out_channels, w, w.out, shape.out, block);
    strides_ = spatial(w, w.stride), before_ = spatial(w, w.pad), behind_ = padding_behind(w);
    auto dims = spatial(w, w.kernel);
    dims.insert(dims.begin(),
                {dimension(shape.out_channels / shape.groups), dimension(shape.in_channels / shape.groups)});
    if (shape.groups > 1) dims.insert(dims.begin(), dimension(shape.groups));
    memory::dims steps(dims.size(), 1);
    for (std::size_t axis = dims.size() - 1; axis-- > 0;) steps[axis] = steps[axis + 1] * dims[axis + 1];
    w_ = memory::desc(dims, memory::data_type::f32, steps);
    x_operand_ = image_memory(shape.columns, shape.in_channels, w, w.in, shape.in, block, operands_);
    y_operand_ = image_memory(shape.columns, shape.out_channels, w, w.out, shape.out, block, operands_);
    any_w_ = memory::desc(dims, operands_, memory::format_tag::any);
    any_dw_ = memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    if (shape.bias)
      bias_ = memory::desc({dimension(shape.out_channels)}, memory::data_type::f32, memory::format_tag::x);
    attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (ChannelGradient::fits(shape)) few_channels_.emplace(shape, kernels.images);
  }

  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate, bool) override {
    if (!forward_) with_errors("planning a convolution", [&] { plan_forward(); });
    with_errors("convolving", [&] {
      shape_.bias ? forward_->run({x, w, bias, y}, accumulate) : forward_->run({x, w, y}, accumulate);
    });
  }
  void backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool) override {
    if (!data_) with_errors("planning the gradient of a convolution", [&] { plan_data(); });
    with_errors("computing the gradient of a convolution", [&] { data_->run({dy, w, dx}, accumulate); });
  }
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) override {
    if (few_channels_) return few_channels_->run(x, dy, dw, accumulate);
    if (!weights_) with_errors("planning the gradient of a convolution", [&] { plan_weights(); });
    with_errors("computing the gradient of a convolution", [&] { weights_->run({x, dy, dw}, accumulate); });
  }

 private:
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;

  // The first of these that is not oneDNN's reference code: the algorithm of the rule, the direct one, the direct one
  // in layouts that the library chooses. `make` takes an algorithm and a function that changes the layout of images.
  template <class Description, class Make>
  Description choose(const Make& make) const {
    struct Candidate {
      dnnl::algorithm algorithm;
      bool own_layouts;
    };
    std::vector<Candidate> candidates;
    if (onednn_winograd_pays(shape_)) candidates.push_back({dnnl::algorithm::convolution_winograd, false});
    candidates.push_back({dnnl::algorithm::convolution_direct, false});
    candidates.push_back({dnnl::algorithm::convolution_direct, true});
    for (const auto& candidate : candidates) {
      const auto layout = [&](const memory::desc& md) { return candidate.own_layouts ? in_any_layout(md) : md; };
      try {
        Description pd = make(candidate.algorithm, layout);
        if (candidate.own_layouts || std::string(pd.impl_info_str()).find("ref") == std::string::npos) return pd;
      } catch (const dnnl::error& e) {
        if (e.status != dnnl_unimplemented || candidate.own_layouts) throw;
      }
    }
    throw dnnl::error(dnnl_unimplemented, "no implementation");
  }

  // The forward pass of the gradient to be planned: the library needs one, with operands of the compute type.
  template <class Layout>
  Forward::primitive_desc forward_hint(dnnl::algorithm algorithm, const Layout& layout) const {
    return plan<Forward>(dnnl_.engine, attributes_, prop_kind::forward_training, algorithm, layout(x_operand_), any_w_,
                         layout(y_operand_), strides_, before_, behind_);
  }

  void plan_forward() {
    const auto pd = choose<Forward::primitive_desc>([&](auto algorithm, const auto& layout) {
      dnnl::primitive_attr attributes;  // copies of attributes_ would share what they hold
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      if (shape_.relu) {
        dnnl::post_ops after;
        append_relu(after);
        attributes.set_post_ops(after);
      }
      const auto described = [&](const auto&... bias) {
        return plan<Forward>(dnnl_.engine, attributes, prop_kind::forward_training, algorithm, layout(x_operand_),
                             any_w_, bias..., layout(y_), strides_, before_, behind_);
      };
      return shape_.bias ? described(bias_) : described();
    });
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, false, x_, pd.src_desc(), 0, {}, {}},
                                       {DNNL_ARG_WEIGHTS, false, w_, pd.weights_desc(), 0, {}, {}}};
    if (shape_.bias) arguments.push_back({DNNL_ARG_BIAS, false, bias_, pd.bias_desc(), 0, {}, {}});
    arguments.push_back({DNNL_ARG_DST, true, y_, pd.dst_desc(), 0, {}, {}});
    forward_.emplace(dnnl_, kernels_, pd, Forward(pd), std::move(arguments));
  }

  void plan_data() {
    const auto pd = choose<Data::primitive_desc>([&](auto algorithm, const auto& layout) {
      return plan_gradient<Data>(dnnl_.engine, attributes_, forward_hint(algorithm, layout), algorithm, layout(x_),
                                 any_w_, layout(y_operand_), strides_, before_, behind_);
    });
    data_.emplace(dnnl_, kernels_, pd, Data(pd),
                  std::vector<Argument>{{DNNL_ARG_DIFF_DST, false, y_, pd.diff_dst_desc(), 0, {}, {}},
                                        {DNNL_ARG_WEIGHTS, false, w_, pd.weights_desc(), 0, {}, {}},
                                        {DNNL_ARG_DIFF_SRC, true, x_, pd.diff_src_desc(), 0, {}, {}}});
  }

  void plan_weights() {
    const auto pd = choose<Weights::primitive_desc>([&](auto algorithm, const auto& layout) {
      return plan_gradient<Weights>(dnnl_.engine, attributes_, forward_hint(algorithm, layout), algorithm,
                                    layout(x_operand_), any_dw_, layout(y_operand_), strides_, before_, behind_);
    });
    weights_.emplace(dnnl_, kernels_, pd, Weights(pd),
                     std::vector<Argument>{{DNNL_ARG_SRC, false, x_, pd.src_desc(), 0, {}, {}},
                                           {DNNL_ARG_DIFF_DST, false, y_, pd.diff_dst_desc(), 0, {}, {}},
                                           {DNNL_ARG_DIFF_WEIGHTS, true, w_, pd.diff_weights_desc(), 0, {}, {}}});
  }

  OneDnn& dnnl_;
  const Kernels& kernels_;
  ConvolutionShape shape_;
  memory::data_type operands_;
  memory::desc x_, y_, w_, bias_;  // the caller's
  memory::desc x_operand_, y_operand_, any_w_, any_dw_;
  memory::dims strides_, before_, behind_;
  dnnl::primitive_attr attributes_;
  std::optional<Step> forward_, data_, weights_;
  std::optional<ChannelGradient> few_channels_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> CpuImages::plan_convolution(const ConvolutionShape& shape) {
  if (own_winograd() && channel_block() == WinogradKernels::block && WinogradConvolution::pays(shape))
    return std::make_unique<WinogradConvolution>(shape, dnnl_, *own_winograd());
  return with_errors("planning a convolution", [&] {
    return std::make_unique<CpuConvolution>(shape, dnnl_, kernels_, channel_block(), compute_type_);
  });
}

}  // namespace tutti::cpu
