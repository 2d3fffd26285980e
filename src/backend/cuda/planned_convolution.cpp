// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/planned_convolution.h"

#include <fmt/format.h>

#include <optional>

#include "backend/cuda/images.h"
#include "backend/cuda/stopwatch.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t most_tried = 10;
// Milliseconds that a single call may seem to take longer than several. Of those that are proposed last some take many
// times as long as the first.
constexpr float of_starting = 0.05f;

// Memory for as long as plans are tried; null when there is not so much.
class Room {
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
  plans_ = std::make_unique<ConvolutionPlans>(graph, images.cudnn());
  which_ = which;
}

// Not supported where an operand does not lie well.
cudnnStatus_t PlannedConvolution::run_plan(const Work& work, void* result, void* workspace) const {
  ConvolutionPlans::Pointers pointers = work.pointers;
  pointers[work.result] = result;
  if (which_ == whole && work.adds_bias) pointers[ConvolutionGraph::bias] = work.bias();
  if (!ConvolutionPlans::lie_well(pointers)) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnStatus_t status = plans_->run(pointers, workspace);
  if (status == CUDNN_STATUS_SUCCESS && which_ == alone && work.behind) work.behind(result);
  return status;
}

// All are timed the same way, with all that they take. What adds to its result is tried on another one, for it adds
// each time.
Algorithms::Choice PlannedConvolution::measured(const Work& work, CudaImages& images) {
  Room of_result, of_workspace;
  void* result = const_cast<void*>(work.pointers[work.result]);
  if (work.accumulates) {
    result = of_result.bytes(work.result_bytes);
    if (!result) return {calls, 0};
    clear_memory(result, work.result_bytes, images.stream());
  }
  Stopwatch watch(images.stream());
  Algorithms::Choice best{calls, 0};
  std::optional<float> least = watch.time([&] {
    work.by_calls(result);
    return true;
  });
  for (const int which : {whole, alone}) {
    if (which == whole && !work.adds_bias && !work.relu) continue;
    describe(work, which, images);
    for (const std::string& name : plans_->names(work.rules, most_tried)) {
      if (!plans_->take(name) || plans_->workspace() > most_workspace) continue;
      void* workspace = of_workspace.bytes(plans_->workspace());
      if (plans_->workspace() > 0 && !workspace) continue;
      const std::optional<float> taken = watch.time(
          [&] { return run_plan(work, result, workspace) == CUDNN_STATUS_SUCCESS; }, 2 * *least + of_starting);
      if (taken && *taken < *least) least = taken, best = {which, 0, name};
    }
  }
  return best;
}

void PlannedConvolution::run(const Work& work, CudaImages& images) {
  void* result = const_cast<void*>(work.pointers[work.result]);
  // Operands that do not lie well say nothing about those that come next.
  if (!chosen_ && work.tries_plans && ConvolutionPlans::lie_well(work.pointers)) {
    only_outside_recordings(images.stream());
    const std::string key = fmt::format("plan:{}{}{}:{}", work.accumulates ? '+' : '-', work.adds_bias ? 'b' : '-',
                                        work.relu ? 'r' : '-', work.key());
    const auto choice = images.algorithms().at(key, [&] { return measured(work, images); });
    chosen_ = true;
    if (choice.algorithm != calls) describe(work, choice.algorithm, images);
    if (choice.algorithm == calls || !plans_->take(choice.plan)) plans_.reset();
  }
  if (!plans_) return work.by_calls(result);
  const std::size_t bytes = plans_->workspace();
  const cudnnStatus_t status = run_plan(work, result, bytes ? images.workspace().bytes(bytes) : nullptr);
  if (knows_nothing_of_it(status)) return work.by_calls(result);
  check(status, "convolving by a plan");
}

}  // namespace tutti::cuda
