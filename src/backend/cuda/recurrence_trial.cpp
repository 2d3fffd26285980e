// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/recurrence_trial.h"

#include <random>
#include <utility>

namespace tutti::cuda {
namespace {

std::size_t aligned(std::size_t floats) { return (floats + 63) / 64 * 64; }

}  // namespace

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

}  // namespace tutti::cuda
