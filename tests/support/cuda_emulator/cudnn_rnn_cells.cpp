// SPDX-License-Identifier: Apache-2.0
#include "cudnn_rnn_cells.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rounding.h"

namespace cuda_emulator {
namespace {

constexpr std::size_t gap = 5;

// Operands of products as the kind of mathematics rounds them.
float operand(float v, cudnnMathType_t math) {
  if (math == CUDNN_FMA_MATH) return v;
  return math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? rounded_to_half(v) : rounded(v, bits_of_tf32);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The gradients of one cell's gates from d, that of its result; returns what the cell before gets.
float lstm_gradient(const float* g, std::size_t c, float before, float now, float d, float dc, float* dg) {
  const float i = g[0], f = g[c], candidate = g[2 * c], o = g[3 * c], tangent = std::tanh(now);
  const float total = dc + d * o * (1 - tangent * tangent);
  dg[0] = total * candidate * i * (1 - i), dg[c] = total * before * f * (1 - f);
  dg[2 * c] = total * i * (1 - candidate * candidate), dg[3 * c] = d * tangent * o * (1 - o);
  return total * f;
}
// The same; returns what the result before gets beside the products.
float gru_gradient(const float* g, std::size_t c, float before, float d, float* dg) {
  const float r = g[0], u = g[c], candidate = g[2 * c], product = g[3 * c];
  const float inner = d * (1 - u) * (1 - candidate * candidate);
  dg[0] = inner * product * r * (1 - r), dg[c] = d * (before - candidate) * u * (1 - u);
  dg[2 * c] = inner, dg[3 * c] = inner * r;
  return d * u;
}

}  // namespace

RnnWeights::RnnWeights(const CudnnDoubleRnn& r) {
  for (std::size_t i = 0; i < r.matrices(); ++i) {
    matrix.push_back(total), total += r.cells * r.width(i) + gap;
    bias.push_back(total), total += r.cells + gap;
  }
}

RnnSteps::RnnSteps(const std::vector<int>& lengths)
    : rows(lengths.size()), steps(static_cast<std::size_t>(lengths[0])), columns(0), begins(1, 0) {
  for (std::size_t t = 0; t < steps; ++t) {
    for (const int length : lengths) columns += static_cast<std::size_t>(length) > t;
    begins.push_back(columns);
  }
}

std::size_t RnnReserve::floats(std::size_t columns, std::size_t cells) {
  return head + columns * (2 * blocks + 1) * cells;
}

RnnReserve::RnnReserve(void* p, const RnnSteps& s, std::size_t cells)
    : stamp(static_cast<float*>(p)),
      gates(stamp + head),
      states(gates + s.columns * blocks * cells),
      gradients(states + s.columns * cells),
      expected{0, static_cast<float>(s.columns), static_cast<float>(s.rows), static_cast<float>(cells)} {}

void RnnReserve::leave(Stage stage) const {
  std::memcpy(stamp, expected, sizeof expected);
  stamp[0] = static_cast<float>(stage);
}

void RnnReserve::expect(Stage stage) const {
  if (stamp[0] == static_cast<float>(stage) && std::memcmp(stamp + 1, expected + 1, sizeof expected - 4) == 0) return;
  std::fputs("cuDNN's emulator: the reserved memory is not what the pass before has left\n", stderr);
  std::abort();
}

const float* RnnPass::before(const float* initial, const float* all, std::size_t t, std::size_t row) const {
  return t == 0 ? initial + row * c() : all + (steps.begins[t - 1] + row) * c();
}

float RnnPass::weight(std::size_t i, std::size_t j, std::size_t k) const {
  return operand(weights[at.matrix[i] + j * rnn.width(i) + k], rnn.math);
}

double RnnPass::sum(std::size_t i, std::size_t j, const float* in) const {
  double s = weights[at.bias[i] + j];
  for (std::size_t k = 0; k < rnn.width(i); ++k) s += double{weight(i, j, k)} * operand(in[k], rnn.math);
  return s;
}

// Which of the kept gradients belongs to a matrix: the product of a GRU's candidate with the state has its own.
std::size_t RnnPass::block(std::size_t matrix) const {
  return rnn.mode == CUDNN_GRU && matrix == 5 ? 3 : matrix % rnn.gates();
}

// From one column of gradients to the input or to the state.
float RnnPass::back(bool to_state, std::size_t k, const float* gradients) const {
  double s = 0;
  const std::size_t first = to_state ? rnn.gates() : 0;
  for (std::size_t i = first; i < first + rnn.gates(); ++i)
    for (std::size_t j = 0; j < c(); ++j)
      s += double{weight(i, j, k)} * operand(gradients[block(i) * c() + j], rnn.math);
  return static_cast<float>(s);
}

void RnnPass::lstm_cell(std::size_t j, const float* in, const float* h, const float* cell, float* kept, float* now,
                        float* to) const {
  double s[4];
  for (std::size_t gate = 0; gate < 4; ++gate) s[gate] = sum(gate, j, in) + sum(gate + 4, j, h);
  const double i = sigmoid(s[0]), f = sigmoid(s[1]), candidate = std::tanh(s[2]), o = sigmoid(s[3]);
  const double state = f * cell[j] + i * candidate;
  kept[0] = static_cast<float>(i), kept[c()] = static_cast<float>(f);
  kept[2 * c()] = static_cast<float>(candidate), kept[3 * c()] = static_cast<float>(o);
  now[j] = static_cast<float>(state);
  to[j] = static_cast<float>(o * std::tanh(state));
}

void RnnPass::gru_cell(std::size_t j, const float* in, const float* h, float* kept, float* to) const {
  const double r = sigmoid(sum(0, j, in) + sum(3, j, h)), u = sigmoid(sum(1, j, in) + sum(4, j, h));
  const double product = sum(5, j, h), candidate = std::tanh(sum(2, j, in) + r * product);
  kept[0] = static_cast<float>(r), kept[c()] = static_cast<float>(u);
  kept[2 * c()] = static_cast<float>(candidate), kept[3 * c()] = static_cast<float>(product);
  to[j] = static_cast<float>((1 - u) * candidate + u * h[j]);
}

void RnnPass::forward(float* to, float* hy, float* cy, const RnnReserve& kept) const {
  for (std::size_t t = 0; t < steps.steps; ++t)
    for (std::size_t row = 0; row < steps.width(t); ++row) {
      const std::size_t column = steps.begins[t] + row;
      const float *in = x + column * rnn.inputs, *h = before(hx, to, t, row);
      float* gates = kept.gates + column * RnnReserve::blocks * c();
      for (std::size_t j = 0; j < c(); ++j)
        if (rnn.mode == CUDNN_LSTM)
          lstm_cell(j, in, h, before(cx, kept.states, t, row), gates + j, kept.states + column * c(),
                    to + column * c());
        else
          gru_cell(j, in, h, gates + j, to + column * c());
      if (row < steps.width(t + 1)) continue;
      if (hy) std::copy_n(to + column * c(), c(), hy + row * c());
      if (cy) std::copy_n(kept.states + column * c(), c(), cy + row * c());
    }
}

void RnnPass::backward_data(const float* dy, float* dx, float* dhx, float* dcx, const RnnReserve& kept) const {
  std::vector<float> dh(steps.rows * c()), dc(steps.rows * c());
  for (std::size_t t = steps.steps; t-- > 0;)
    for (std::size_t row = 0; row < steps.width(t); ++row) {
      const std::size_t column = steps.begins[t] + row;
      const float* g = kept.gates + column * RnnReserve::blocks * c();
      float* dg = kept.gradients + column * RnnReserve::blocks * c();
      for (std::size_t j = 0; j < c(); ++j) {
        const float d = dy[column * c() + j] + dh[row * c() + j];
        float &carried = dc[row * c() + j], &beside = dh[row * c() + j];
        beside = 0;
        if (rnn.mode == CUDNN_LSTM)
          carried = lstm_gradient(g + j, c(), before(cx, kept.states, t, row)[j], kept.states[column * c() + j], d,
                                  carried, dg + j);
        else
          beside = gru_gradient(g + j, c(), before(hx, y, t, row)[j], d, dg + j);
      }
      for (std::size_t k = 0; k < c(); ++k) dh[row * c() + k] += back(true, k, dg);
      for (std::size_t k = 0; k < rnn.inputs; ++k) dx[column * rnn.inputs + k] = back(false, k, dg);
    }
  if (dhx) std::copy(dh.begin(), dh.end(), dhx);
  if (dcx) std::copy(dc.begin(), dc.end(), dcx);
}

void RnnPass::backward_weights(float* dweights, const RnnReserve& kept) const {
  for (std::size_t i = 0; i < rnn.matrices(); ++i)
    for (std::size_t j = 0; j < c(); ++j) {
      const std::size_t width = rnn.width(i);
      std::vector<double> sums(width + 1);
      for (std::size_t t = 0; t < steps.steps; ++t)
        for (std::size_t row = 0; row < steps.width(t); ++row) {
          const std::size_t column = steps.begins[t] + row;
          const float d = kept.gradients[(column * RnnReserve::blocks + block(i)) * c() + j];
          const float* from = i < rnn.gates() ? x + column * rnn.inputs : before(hx, y, t, row);
          for (std::size_t k = 0; k < width; ++k) sums[k] += double{operand(d, rnn.math)} * operand(from[k], rnn.math);
          sums[width] += d;
        }
      for (std::size_t k = 0; k < width; ++k) dweights[at.matrix[i] + j * width + k] += static_cast<float>(sums[k]);
      dweights[at.bias[i] + j] += static_cast<float>(sums[width]);
    }
}

}  // namespace cuda_emulator
