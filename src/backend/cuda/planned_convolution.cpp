// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/planned_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "backend/cuda/distance.h"
#include "backend/cuda/images.h"
#include "backend/cuda/stopwatch.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t most_tried = 10;
// Milliseconds that a single call may seem to take longer than several. Of those that are proposed last some take many
// times as long as the first.
constexpr float of_starting = 0.05f;
// Between results of one convolution, as a share of their size: far more than any rounding, far less than what an
// engine does that forgets a part of what it was told.
constexpr double most_apart = 1.0 / 32;
constexpr const char* comparing = "comparing algorithms of a convolution";

// A plan that took less time than the calls.
struct Quicker {
  float milliseconds;
  Algorithms::Choice choice;
};

// Memory for as long as plans are tried; null when there is not so much.
class Workspace {
 public:
  void* bytes(std::size_t count) {
    if (count <= bytes_) return memory_.get();
    memory_ = {};
    *memory_.out() = take_device_memory(count);
    bytes_ = memory_.get() ? count : 0;
    return memory_.get();
  }

 private:
  Handle<void*, cudaFree> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace

void PlannedConvolution::describe(const Work& work, int which, CudaImages& images) {
  ConvolutionGraph graph = *work.graph;
  graph.result = work.result, graph.accumulates = work.accumulates;
  graph.adds_bias = which == whole && work.adds_bias, graph.relu = which == whole && work.relu;
  plans_ = std::make_unique<ConvolutionPlans>(graph, images.cudnn(), images.stream());
  which_ = which;
}

std::size_t PlannedConvolution::Work::bytes_of(std::size_t operand) const {
  std::size_t bytes = tutti::bytes_of(element);
  for (const std::int64_t n : graph->tensors[operand].dims) bytes *= static_cast<std::size_t>(n);
  return bytes;
}

// Not supported where an operand does not lie well.
cudnnStatus_t PlannedConvolution::run_plan(const Work& work, ConvolutionPlans::Pointers pointers,
                                           void* workspace) const {
  if (which_ == whole && work.adds_bias) pointers[ConvolutionGraph::bias] = work.bias();
  if (!ConvolutionPlans::lie_well(pointers)) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnStatus_t status = plans_->run(pointers, workspace);
  if (status == CUDNN_STATUS_SUCCESS && which_ == alone && work.behind)
    work.behind(const_cast<void*>(pointers[work.result]));
  return status;
}

// Whether a plan leaves what the calls leave, but for rounding; of operands of its own, for gradients in float16 may
// not be finite. What adds begins with zeros, and does it twice. Without the memory for that plans are trusted.
bool PlannedConvolution::leaves_the_same(const Work& work, void* workspace, CudaImages& images) const {
  using Graph = ConvolutionGraph;
  const std::size_t bytes = work.bytes_of(work.result), each = bytes_of(work.element);
  Workspace operands[3], of_calls;
  ConvolutionPlans::Pointers of_plan = work.pointers;
  for (const Graph::Operand o : {Graph::x, Graph::w, Graph::y}) {
    void* const operand = operands[o].bytes(work.bytes_of(o));
    if (!operand) return true;
    put_trial_numbers(operand, work.bytes_of(o) / each, work.element, o, images.stream());
    of_plan[o] = operand;
  }
  ConvolutionPlans::Pointers expected = of_plan;
  expected[work.result] = of_calls.bytes(bytes);
  if (!expected[work.result]) return true;
  for (const auto* pointers : {&expected, &of_plan})
    check(cudaMemsetAsync(const_cast<void*>((*pointers)[work.result]), 0, bytes, images.stream()), comparing);
  for (int i = 0; i < (work.accumulates ? 2 : 1); ++i) {
    work.by_calls(expected);
    if (run_plan(work, of_plan, workspace) != CUDNN_STATUS_SUCCESS) return false;
  }
  const Distance d = distance(expected[work.result], of_plan[work.result], bytes / each, work.element, images.stream());
  return d.apart <= most_apart * d.size;
}

// All are timed the same way, with all that they take. What adds to its result is tried on another one, for it adds
// each time.
Algorithms::Choice PlannedConvolution::measured(const Work& work, CudaImages& images) {
  Workspace of_result, of_workspace;
  ConvolutionPlans::Pointers pointers = work.pointers;
  if (work.accumulates) {
    const std::size_t bytes = work.bytes_of(work.result);
    void* const result = of_result.bytes(bytes);
    if (!result) return {.algorithm = calls, .lasts = false};
    clear_memory(result, bytes, images.stream());
    pointers[work.result] = result;
  }
  Stopwatch watch(images.stream());
  const float by_calls = *watch.time([&] {
    work.by_calls(pointers);
    return true;
  });
  float least = by_calls;
  std::vector<Quicker> quicker;
  bool lasts = true;
  for (const int which : {whole, alone}) {
    if (which == whole && !work.adds_bias && !work.relu) continue;
    describe(work, which, images);
    for (const std::string& name : plans_->names(work.rules, most_tried)) {
      if (!plans_->take(name) || plans_->workspace() > most_workspace) continue;
      void* workspace = of_workspace.bytes(plans_->workspace());
      if (plans_->workspace() > 0 && !workspace) {
        lasts = false;
        continue;
      }
      const std::optional<float> taken = watch.time(
          [&] { return run_plan(work, pointers, workspace) == CUDNN_STATUS_SUCCESS; }, 2 * least + of_starting);
      if (taken && *taken < by_calls) quicker.push_back({*taken, {which, 0, name}}), least = std::min(least, *taken);
    }
  }
  std::stable_sort(quicker.begin(), quicker.end(),
                   [](const Quicker& a, const Quicker& b) { return a.milliseconds < b.milliseconds; });
  for (const Quicker& q : quicker) {
    const Algorithms::Choice& best = q.choice;
    describe(work, best.algorithm, images);
    if (!plans_->take(best.plan)) continue;
    if (leaves_the_same(work, of_workspace.bytes(plans_->workspace()), images)) return best;
    log::warning_of_rank(fmt::format(
        "cuDNN's engine {} computes other results than its older calls for the convolution {}; the engine is not used.",
        best.plan, work.key()));
  }
  return {.algorithm = calls, .lasts = lasts};
}

// An engine that faults takes the device along, which no process survives. Its next start is not to try it again.
Algorithms::Choice PlannedConvolution::chosen(const Work& work, CudaImages& images) {
  const auto columns = static_cast<std::size_t>(work.graph->tensors[ConvolutionGraph::x].dims[0]);
  const std::string key =
      images.algorithms().name_of(fmt::format("plan:{}{}{}:{}", work.accumulates ? '+' : '-',
                                              work.adds_bias ? 'b' : '-', work.relu ? 'r' : '-', work.key()),
                                  columns);
  try {
    return images.algorithms().at(key, [&] { return measured(work, images); });
  } catch (const Error& e) {
    images.algorithms().keep(key, {.algorithm = calls});
    throw Error(fmt::format(
        "{}\nwhile engines of cuDNN were tried for the convolution {}. fix: start again{}: cuDNN's "
        "older calls are taken there from now on",
        e.what(), work.key(), images.algorithms().lasts() ? "" : " with TUTTI_CACHE set to a folder, and once more"));
  }
}

void PlannedConvolution::run(const Work& work, CudaImages& images) {
  // Operands that do not lie well say nothing about those that come next.
  if (!chosen_ && work.tries_plans && ConvolutionPlans::lie_well(work.pointers)) {
    not_while_capturing(images.stream());
    const auto choice = chosen(work, images);
    chosen_ = true;
    if (choice.algorithm != calls) describe(work, choice.algorithm, images);
    if (choice.algorithm == calls || !plans_->take(choice.plan)) plans_.reset();
  }
  if (!plans_) return work.by_calls(work.pointers);
  const std::size_t bytes = plans_->workspace();
  const cudnnStatus_t status = run_plan(work, work.pointers, bytes ? images.workspace().bytes(bytes) : nullptr);
  if (knows_nothing_of_it(status)) return work.by_calls(work.pointers);
  check(status, "convolving by a plan");
}

}  // namespace tutti::cuda
