// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/lstm_trial.h"

#include <random>
#include <utility>

namespace tutti::cuda {
namespace {

std::size_t aligned(std::size_t floats) { return (floats + 63) / 64 * 64; }

}  // namespace

LstmTrial::LstmTrial(CudaBackend& backend, const LstmLayer& shape, std::size_t room)
    : backend_(backend), layer_(shape) {
  const std::size_t c = shape.cells, rows = shape.time.rows(), columns = shape.time.columns();
  const std::size_t x = columns * shape.inputs, w = shape.inputs * 4 * c, h = c * 4 * c, bias = shape.bias ? 4 * c : 0;
  const std::size_t operands[] = {x, w, h, bias, rows * c, rows * c, columns * c};
  const std::size_t results[] = {columns * c, x, w, h, bias, c, c};
  std::size_t count = 0;
  for (const std::size_t n : operands) count += aligned(n);
  for (const std::size_t n : results) results_ += aligned(n);
  start_.resize(count);
  std::minstd_rand engine;
  for (float& v : start_) v = static_cast<float>(engine() % 1024) / 1024 - 0.5f;
  float* at = memory_.room(backend, count + results_ + room);
  const auto take = [&](std::size_t n) { return std::exchange(at, at + aligned(n)); };
  layer_.x = take(x), layer_.w = take(w), layer_.h = take(h);
  const float* const bias_values = take(bias);
  if (shape.bias) layer_.bias = bias_values;
  layer_.initial_output = take(rows * c), layer_.initial_cell = take(rows * c);
  gradient_.output = take(columns * c);
  layer_.output = take(columns * c);
  gradient_.x.to = take(x), gradient_.w.to = take(w), gradient_.h.to = take(h);
  float* const bias_gradient = take(bias);
  if (shape.bias) gradient_.bias.to = bias_gradient;
  gradient_.initial_output = take(c), gradient_.initial_cell = take(c);
  layer_.room = at;
  layer_.last_cell = nullptr, layer_.w_version = layer_.h_version = 0;
  refill();
}

void LstmTrial::refill() {
  backend_.upload(start_.data(), memory_.data(), start_.size());
  backend_.fill(0, memory_.data() + start_.size(), results_);
}

std::vector<float> LstmTrial::results() const {
  std::vector<float> values(results_);
  backend_.download(memory_.data() + start_.size(), values.data(), results_);
  return values;
}

}  // namespace tutti::cuda
