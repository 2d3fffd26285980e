// SPDX-License-Identifier: Apache-2.0
// Recurrent layers on a GPU: step by step or by cuDNN, whichever was faster when measured.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/cudnn_recurrence.h"
#include "backend/recurrent_steps.h"

namespace tutti::cuda {
namespace {

constexpr int by_steps = -1;  // otherwise a cudnnRNNAlgo_t

bool equal_lengths(const PackedSteps& time) { return time.width(time.steps() - 1) == time.rows(); }

// Minibatches of sequences of different lengths rarely have the same shape twice, so those of about the same size share
// a choice.
std::string key(const RecurrentLayer& l, ComputeType type) {
  const PackedSteps& time = l.time;
  std::string lengths = fmt::format("{}x{}", time.rows(), time.steps());
  if (!equal_lengths(time))
    lengths = fmt::format("about-{}x{}:{}", std::bit_ceil(time.rows()), std::bit_ceil(time.steps()),
                          std::bit_ceil(time.columns()));
  return fmt::format("{}:{}:{}:{}x{}:{}:{}{}{}", l.kind == CellKind::lstm ? "lstm" : "gru", static_cast<int>(type),
                     l.training ? "training" : "forward", l.inputs, l.cells, lengths, l.bias ? 'b' : '-',
                     l.state_bias ? "b" : "", l.backwards ? ":back" : "");
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::size_t aligned(std::size_t floats) { return (floats + 63) / 64 * 64; }

// Operands with the shape of a layer in memory of their own, to measure algorithms.
class RecurrenceTrial {
 public:
  // From `shape`, only which pointers are null is used; `workspace` is the largest requirement of the algorithms.
  RecurrenceTrial(CudaTensors&, const RecurrentLayer& shape, std::size_t workspace);

  // Restores the initial numbers, because a backward pass overwrites some.
  void refill();
  const RecurrentLayer& layer() const { return layer_; }
  const RecurrentLayerGradient& gradient() const { return gradient_; }
  // The result of an algorithm, for bitwise comparison.
  std::vector<float> results() const;

 private:
  CudaTensors& backend_;
  RecurrentLayer layer_;
  RecurrentLayerGradient gradient_;
  std::vector<float> start_;  // of the operands
  std::size_t results_ = 0;   // floats behind them
  DeviceBuffer memory_;
};

RecurrenceTrial::RecurrenceTrial(CudaTensors& backend, const RecurrentLayer& shape, std::size_t workspace)
    : backend_(backend), layer_(shape) {
  const std::size_t c = shape.cells, rows = shape.time.rows(), columns = shape.time.columns();
  const std::size_t width = shape.gates() * c, x = columns * shape.inputs, w = shape.inputs * width, h = c * width;
  const std::size_t bias = shape.bias ? width : 0, state_bias = shape.state_bias ? width : 0;
  const bool has_cell = shape.kind == CellKind::lstm;
  const std::size_t operands[] = {x, w, h, bias, state_bias, rows * c, has_cell ? rows * c : 0, columns * c};
  const std::size_t results[] = {columns * c, x, w, h, bias, state_bias, c, has_cell ? c : 0};
  std::size_t count = 0;
  for (const std::size_t n : operands) count += aligned(n);
  for (const std::size_t n : results) results_ += aligned(n);
  start_.resize(count);
  std::minstd_rand engine;
  for (float& v : start_) v = static_cast<float>(engine() % 1024) / 1024 - 0.5f;
  float* at = memory_.reserve(backend, count + results_ + workspace);
  const auto take = [&](std::size_t n) { return std::exchange(at, at + aligned(n)); };
  const auto wanted = [&](std::size_t n) { return n > 0 ? take(n) : nullptr; };
  layer_.x = take(x), layer_.w = take(w), layer_.h = take(h);
  layer_.bias = wanted(bias), layer_.state_bias = wanted(state_bias);
  layer_.initial_output = take(rows * c), layer_.initial_cell = wanted(has_cell ? rows * c : 0);
  gradient_.output = take(columns * c);
  layer_.output = take(columns * c);
  gradient_.x.to = take(x), gradient_.w.to = take(w), gradient_.h.to = take(h);
  gradient_.bias.to = wanted(bias), gradient_.state_bias.to = wanted(state_bias);
  gradient_.initial_output = take(c), gradient_.initial_cell = wanted(has_cell ? c : 0);
  layer_.workspace = at;
  layer_.last_cell = nullptr, layer_.w_version = layer_.h_version = 0;
  refill();
}

void RecurrenceTrial::refill() {
  backend_.upload(start_.data(), memory_.data(), start_.size());
  backend_.fill(0, memory_.data() + start_.size(), results_);
}

std::vector<float> RecurrenceTrial::results() const {
  std::vector<float> values(results_);
  backend_.download(memory_.data() + start_.size(), values.data(), results_);
  return values;
}

}  // namespace

class Recurrence {
 public:
  Recurrence(CudaTensors&, const std::string& device);

  std::size_t workspace(const RecurrentLayer&);
  void tell(const RecurrentLayer&);
  void forward(const RecurrentLayer&);
  void backward(const RecurrentLayer&, const RecurrentLayerGradient&);

 private:
  // Null: the layer runs step by step.
  CudnnRecurrence* library(const RecurrentLayer&);
  CudnnRecurrence* library_now(const RecurrentLayer&);  // for a call that is made, or captured
  CudnnRecurrence& layers_of(int algorithm, const RecurrentLayer&);
  Algorithms::Choice measured(const RecurrentLayer&);

  CudaTensors& backend_;
  Cudnn cudnn_;
  Algorithms algorithms_;
  CudnnRecurrenceScratch scratch_;
  std::map<std::tuple<int, CellKind, std::size_t, std::size_t>, std::unique_ptr<CudnnRecurrence>> layers_;
};

Recurrence::Recurrence(CudaTensors& backend, const std::string& device)
    : backend_(backend), cudnn_(make_cudnn(backend.stream())), algorithms_(cudnn_library() + " " + device) {}

CudnnRecurrence& Recurrence::layers_of(int algorithm, const RecurrentLayer& l) {
  auto& layers = layers_[{algorithm, l.kind, l.cells, l.inputs}];
  if (!layers)
    layers = std::make_unique<CudnnRecurrence>(cudnn_.get(), backend_.compute_type(),
                                               static_cast<cudnnRNNAlgo_t>(algorithm), l.kind, l.cells, l.inputs);
  return *layers;
}

CudnnRecurrence* Recurrence::library(const RecurrentLayer& l) {
  if (l.projected || l.kind == CellKind::gru_reset_before || l.time.columns() == 0 || !algorithms_.lasts())
    return nullptr;
  const auto choice = algorithms_.at(key(l, backend_.compute_type()), [&] { return measured(l); });
  if (choice.algorithm == by_steps) return nullptr;
  CudnnRecurrence& layers = layers_of(choice.algorithm, l);
  return layers.takes(l) ? &layers : nullptr;
}

// An algorithm of the library is used only if it gives the same bits twice.
Algorithms::Choice Recurrence::measured(const RecurrentLayer& shape) {
  std::vector<int> possible;
  std::size_t workspace = recurrent_steps_workspace(shape);
  for (const int algorithm : {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC}) {
    if (algorithm != CUDNN_RNN_ALGO_STANDARD && !equal_lengths(shape.time)) continue;
    CudnnRecurrence& layers = layers_of(algorithm, shape);
    if (!layers.takes(shape)) continue;
    workspace = std::max(workspace, layers.workspace(shape));
    possible.push_back(algorithm);
  }
  Algorithms::Choice best{by_steps, 0};
  if (possible.empty()) return best;
  RecurrenceTrial trial(backend_, shape, workspace);
  const RecurrentLayer& l = trial.layer();
  Stopwatch watch(backend_.stream());
  std::optional<float> least = watch.time([&] {
    recurrent_layer_by_steps(backend_, l);
    if (l.training) recurrent_layer_gradient_by_steps(backend_, l, trial.gradient());
    return true;
  });
  for (const int algorithm : possible) {
    CudnnRecurrence& layers = layers_of(algorithm, shape);
    const auto once = [&] {
      return layers.forward(backend_, l, scratch_) == CUDNN_STATUS_SUCCESS &&
             (!l.training || layers.backward(backend_, l, trial.gradient(), scratch_) == CUDNN_STATUS_SUCCESS);
    };
    const auto results = [&] {
      trial.refill();
      once();
      return trial.results();
    };
    layers.tell(backend_, l);
    const auto taken = watch.time(once);
    if (taken && *taken < *least && same_bits(results(), results())) least = taken, best.algorithm = algorithm;
  }
  return best;
}

std::size_t Recurrence::workspace(const RecurrentLayer& l) {
  const CudnnRecurrence* layers = library(l);
  return layers ? layers->workspace(l) : recurrent_steps_workspace(l);
}

void Recurrence::tell(const RecurrentLayer& l) {
  if (CudnnRecurrence* layers = library(l)) layers->tell(backend_, l);
}

// The library reads the lengths from host memory. It is not documented when it reads them in a captured graph, and on a
// replay they could be those of another minibatch.
CudnnRecurrence* Recurrence::library_now(const RecurrentLayer& l) {
  CudnnRecurrence* layers = library(l);
  if (layers && !equal_lengths(l.time)) backend_.not_while_capturing();
  return layers;
}

void Recurrence::forward(const RecurrentLayer& l) {
  CudnnRecurrence* layers = library_now(l);
  if (!layers) return recurrent_layer_by_steps(backend_, l);
  check(layers->forward(backend_, l, scratch_), "computing a recurrent layer");
}

void Recurrence::backward(const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  CudnnRecurrence* layers = library_now(l);
  if (!layers) return recurrent_layer_gradient_by_steps(backend_, l, g);
  check(layers->backward(backend_, l, g, scratch_), "computing gradients of a recurrent layer");
}

std::size_t CudaRecurrent::recurrent_layer_workspace(const RecurrentLayer& l) { return recurrence().workspace(l); }
void CudaRecurrent::describe_recurrent_layer(const RecurrentLayer& l) { recurrence().tell(l); }
void CudaRecurrent::recurrent_layer(const RecurrentLayer& l) { recurrence().forward(l); }
void CudaRecurrent::recurrent_layer_gradient(const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  recurrence().backward(l, g);
}

CudaRecurrent::CudaRecurrent(int device, ComputeType type) : CudaTensors(device, type) {}
CudaRecurrent::~CudaRecurrent() = default;

// Made for the first layer: most networks have none.
Recurrence& CudaRecurrent::recurrence() {
  if (!recurrence_) recurrence_ = std::make_unique<Recurrence>(*this, device_name_);
  return *recurrence_;
}

}  // namespace tutti::cuda
