// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN. For each direction every candidate is timed once: the layouts of the operands, and in each
// layout cuDNN's older calls and the plans of its graph interface, with all copies that they need. The fastest one is
// kept under one name (algorithms.h), so a run, its repetition and its ranks use the same.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/cuda/convolution_layout.h"
#include "backend/cuda/images.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti::cuda {
namespace {

using Kind = ConvolutionEngine::Kind;

constexpr std::size_t most_tried = 10;  // plans of a graph
// Milliseconds by which a single call may seem slower than several. Of the plans proposed last, some take many times as
// long as the first.
constexpr float of_starting = 0.05f;

// Images with their channels last are for tensor cores; plain ones are only worth a try then.
std::vector<ConvolutionLayout> layouts_of(const ConvolutionShape& s, ComputeType type) {
  if (s.in == Format::plain && s.out == Format::plain) return {ConvolutionLayout::plain};
  if (type == ComputeType::bfloat16 || type == ComputeType::float16)
    return {ConvolutionLayout::last_in_16_bits, ConvolutionLayout::last, ConvolutionLayout::plain};
  return {ConvolutionLayout::last, ConvolutionLayout::plain};
}

// A choice is an algorithm and a math type of the older calls, and one word: layout, kind, and the name of the plan.
std::string word_of(ConvolutionLayout layout, Kind kind, const std::string& plan) {
  return fmt::format("{}{}{}", static_cast<int>(layout), "caw"[static_cast<int>(kind)], plan);
}

class CudaConvolution : public ConvolutionPlan {
 public:
  CudaConvolution(const ConvolutionShape& s, CudaImages& images) : shape_(s), images_(images) {
    for (const ConvolutionLayout layout : layouts_of(s, images.compute_type()))
      layouts_.push_back(std::make_unique<LaidOutConvolution>(s, layout, images));
  }

  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate,
               bool same_weights) override {
    run({ConvolutionGraph::y, {x, w, y}, bias, accumulate, same_weights});
  }
  void backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool same_weights) override {
    run({ConvolutionGraph::x, {dx, w, dy}, nullptr, accumulate, same_weights});
  }
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) override {
    run({ConvolutionGraph::w, {x, dw, dy}, nullptr, accumulate, false});
  }

 private:
  struct Chosen {
    LaidOutConvolution* layout = nullptr;
    ConvolutionEngine engine;
    bool with_plans = false;
  };
  struct Timed {
    float milliseconds;
    LaidOutConvolution* layout;
    Algorithms::Choice choice;
  };
  static bool quicker(const Timed& a, const Timed& b) { return a.milliseconds < b.milliseconds; }

  void run(ConvolutionPass p) {
    Chosen& c = chosen_[p.result][p.accumulate];
    // Plans need aligned operands. Operands that are not aligned say nothing about those of later calls.
    const bool aligned = ConvolutionPlans::lie_well({p.values[0], p.values[1], p.values[2]});
    if (!c.layout || (aligned && !c.with_plans)) choose(p, aligned, c);
    // The weights were arranged for the layout of the last call with others, so every step makes the same calls, also
    // when it is captured.
    if (p.result != ConvolutionGraph::w) {
      if (!p.same_weights) made_for_ = c.layout;
      p.same_weights = p.same_weights && made_for_ == c.layout;
    }
    c.layout->run(p, c.engine);
  }

  void choose(const ConvolutionPass& p, bool with_plans, Chosen& chosen) {
    not_while_capturing(images_.stream());
    Algorithms& algorithms = images_.algorithms();
    const std::string shape = key(p, with_plans);
    for (const std::string& name :
         {algorithms.name_of(shape, shape_.columns), Algorithms::own_name(shape, shape_.columns)}) {
      const auto choice = algorithms.at(name, [&] { return measured(p, with_plans, name); });
      chosen.with_plans = with_plans;
      if (take(p, choice, chosen)) return;
    }
    throw Error("cuDNN has no algorithm for this convolution that gives the same bits every time");
  }

  // False if the choice, perhaps made for another number of columns, cannot be used for this one. Without its plan the
  // older calls are used.
  bool take(const ConvolutionPass& p, const Algorithms::Choice& choice, Chosen& chosen) const {
    for (const auto& layout : layouts_) {
      if (choice.plan.size() < 2 || choice.plan[0] - '0' != static_cast<int>(layout->layout())) continue;
      auto engine = layout->engine(p.result, choice);
      if (!engine) return false;
      const Kind kind = choice.plan[1] == 'w' ? Kind::whole : choice.plan[1] == 'a' ? Kind::alone : Kind::calls;
      if (kind != Kind::calls &&
          !(layout->describe_graph(p, kind, *engine) && engine->plans->take(choice.plan.substr(2))))
        engine->plans.reset();
      chosen.layout = layout.get();
      chosen.engine = std::move(*engine);
      return true;
    }
    return false;
  }

  // Times every candidate on a result of its own.
  Algorithms::Choice measured(ConvolutionPass p, bool with_plans, const std::string& name) {
    Scratch scratch;
    const std::size_t count = result_count(p.result);
    auto* result = scratch.reserve<float>(count);
    clear_memory(result, count * sizeof(float), images_.stream());
    p.values[p.result] = result;
    p.same_weights = false;
    Stopwatch watch(images_.stream());
    std::vector<Timed> calls;
    bool lasts = true;
    for (const auto& layout : layouts_) {
      auto choice = layout->find_calls(p.result);
      lasts = lasts && choice.lasts;
      if (choice.algorithm == LaidOutConvolution::no_algorithm) continue;
      const auto engine = layout->engine(p.result, choice);
      const auto taken = watch.time([&] { return layout->run(p, *engine), true; });
      choice.plan = word_of(layout->layout(), Kind::calls, "");
      calls.push_back({*taken, layout.get(), choice});
    }
    if (calls.empty()) return {.algorithm = LaidOutConvolution::no_algorithm, .lasts = lasts};
    const Algorithms::Choice by_calls = std::min_element(calls.begin(), calls.end(), quicker)->choice;
    // An engine that faults makes the device unusable, which no process survives. The next start must not try it again.
    try {
      Algorithms::Choice best = with_plans ? best_plan(p, calls, watch) : by_calls;
      best.lasts = best.lasts && lasts;
      return best;
    } catch (const Error& e) {
      images_.algorithms().keep(name, by_calls);
      throw Error(fmt::format(
          "{}\nwhile engines of cuDNN were tried for the convolution {}. fix: start again{}: cuDNN's older calls are "
          "used there from now on",
          e.what(), name, images_.algorithms().lasts() ? "" : " with TUTTI_CACHE set to a folder, and once more"));
    }
  }

  // The fastest plan that computes what the calls compute, or the fastest calls.
  Algorithms::Choice best_plan(const ConvolutionPass& p, const std::vector<Timed>& calls, Stopwatch& watch) {
    std::vector<Timed> timed = calls;
    float least = std::min_element(calls.begin(), calls.end(), quicker)->milliseconds;
    bool lasts = true;
    for (const Timed& t : calls) {
      // On tensor cores, plans of the layout that is made for them are hardly ever beaten by those of another.
      if (t.layout != layouts_.front().get() && images_.compute_type() != ComputeType::float32) continue;
      for (const Kind kind : {Kind::whole, Kind::alone}) {
        auto engine = t.layout->engine(p.result, t.choice);
        if (!t.layout->describe_graph(p, kind, *engine)) continue;
        for (const std::string& plan : engine->plans->names(t.layout->rules(), most_tried)) {
          if (!engine->plans->take(plan) || engine->plans->workspace() > most_workspace) continue;
          if (engine->plans->workspace() > 0 && !trial_memory(engine->plans->workspace()).get()) {
            lasts = false;
            continue;
          }
          const auto taken = watch.time([&] { return t.layout->try_plan(p, *engine); }, 2 * least + of_starting);
          if (!taken) continue;
          least = std::min(least, *taken);
          Algorithms::Choice choice = t.choice;
          choice.plan = word_of(t.layout->layout(), kind, plan);
          timed.push_back({*taken, t.layout, choice});
        }
      }
    }
    std::stable_sort(timed.begin(), timed.end(), quicker);
    for (Timed& t : timed) {
      Chosen chosen;
      if (!take(p, t.choice, chosen)) continue;
      t.choice.lasts = lasts;
      if (!chosen.engine.plans || t.layout->plan_is_right(p, chosen.engine)) return t.choice;
      log::warning_of_rank(fmt::format(
          "cuDNN's engine {} computes other results than its older calls for the convolution {}; the engine is not "
          "used.",
          t.choice.plan, key(p, true)));
    }
    return calls.front().choice;
  }

  std::size_t result_count(ConvolutionGraph::Operand result) const {
    const ImageWindow& w = shape_.window;
    if (result == ConvolutionGraph::w)
      return ImageWindow::product(w.kernel) * (shape_.in_channels / shape_.groups) * shape_.out_channels;
    const bool forward = result == ConvolutionGraph::y;
    return shape_.columns * (forward ? shape_.out_channels : shape_.in_channels) *
           ImageWindow::product(forward ? w.out : w.in);
  }

  std::string key(const ConvolutionPass& p, bool with_plans) const {
    const ImageWindow& w = shape_.window;
    std::string key =
        fmt::format("convolution:{}{}:{}:{}x{}/{}:{}{}{}{}:{}{}{}{}", "xwy"[p.result], p.accumulate ? "+" : "",
                    static_cast<int>(images_.compute_type()), shape_.in_channels, shape_.out_channels, shape_.groups,
                    static_cast<int>(shape_.in), static_cast<int>(shape_.out), static_cast<int>(shape_.in_element),
                    static_cast<int>(shape_.out_element), p.bias ? 'b' : '-', shape_.relu ? 'r' : '-',
                    shape_.winograd ? "" : ":direct", with_plans ? "" : ":calls");
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
      key += fmt::format(":{},{},{},{},{}", w.in[axis], w.out[axis], w.kernel[axis], w.stride[axis], w.pad[axis]);
    return key;
  }

  const ConvolutionShape shape_;
  CudaImages& images_;
  std::vector<std::unique_ptr<LaidOutConvolution>> layouts_;
  Chosen chosen_[3][2];
  const LaidOutConvolution* made_for_ = nullptr;
};

}  // namespace

Scratch& CudaImages::made_of(const float* w, const WeightArrangement& a) { return made_[{w, a}]; }

CudaImages::CudaImages(const std::string& device, ComputeType type, cudaStream_t stream)
    : compute_type_(type), stream_(stream), cudnn_(make_cudnn(stream)), algorithms_(cudnn_library() + " " + device) {}

Element CudaImages::element() const {
  return compute_type_ == ComputeType::bfloat16  ? Element::bfloat16
         : compute_type_ == ComputeType::float16 ? Element::float16
                                                 : Element::float32;
}

std::unique_ptr<ConvolutionPlan> CudaImages::plan_convolution(const ConvolutionShape& shape) {
  return std::make_unique<CudaConvolution>(shape, *this);
}

}  // namespace tutti::cuda
