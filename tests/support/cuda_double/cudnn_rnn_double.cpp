// SPDX-License-Identifier: Apache-2.0
// The stand-in of cuDNN's recurrent layers: LSTMs by plain loops, sums in double. What the library refuses is refused;
// the matrices lie with gaps between them, and the workspace is spoilt by every call, so that nobody relies on either.
#include <cuda_fp16.h>
#include <cudnn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "cudnn_descriptors.h"
#include "queue.h"

struct CudnnDoubleDropout {
  bool described = false;
};
struct CudnnDoubleRnn {
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t inputs = 0, cells = 0;
};
struct CudnnDoubleRnnData {
  std::vector<int> lengths;  // the longest first
  std::size_t width = 0;
};

namespace {

using cuda_double::drop;
using cuda_double::enqueue;
using cuda_double::make;
using cuda_double::on_device;

constexpr std::size_t gap = 5, matrices = 8, work_bytes = 96;
constexpr std::size_t most_resident_cells = 32;  // of the faster algorithm; it says so when it is called

// Offsets in the weights, in floats: 0..3 multiply the input, 4..7 the state; gates are input, forget, candidate,
// output.
struct Weights {
  std::size_t matrix[matrices], bias[matrices], total = 0;
  explicit Weights(const CudnnDoubleRnn& r) {
    for (std::size_t i = 0; i < matrices; ++i) {
      matrix[i] = total, total += r.cells * (i < 4 ? r.inputs : r.cells) + gap;
      bias[i] = total, total += r.cells + gap;
    }
  }
};

struct Steps {
  std::size_t rows, steps, columns;
  std::vector<std::size_t> begins;
  explicit Steps(const std::vector<int>& lengths)
      : rows(lengths.size()), steps(static_cast<std::size_t>(lengths[0])), columns(0), begins(1, 0) {
    for (std::size_t t = 0; t < steps; ++t) {
      for (const int length : lengths) columns += static_cast<std::size_t>(length) > t;
      begins.push_back(columns);
    }
  }
  std::size_t width(std::size_t t) const { return t < steps ? begins[t + 1] - begins[t] : 0; }
};

// What the passes leave for each other.
struct Reserve {
  enum Stage { nothing, after_forward, after_data };
  static constexpr std::size_t head = 4;
  static std::size_t floats(std::size_t columns, std::size_t cells) { return head + columns * 9 * cells; }

  Reserve(void* p, const Steps& s, std::size_t cells)
      : stamp(static_cast<float*>(p)),
        gates(stamp + head),
        states(gates + s.columns * 4 * cells),
        gradients(states + s.columns * cells),
        expected{0, static_cast<float>(s.columns), static_cast<float>(s.rows), static_cast<float>(cells)} {}
  void leave(Stage stage) const {
    std::memcpy(stamp, expected, sizeof expected);
    stamp[0] = static_cast<float>(stage);
  }
  void expect(Stage stage) const {
    if (stamp[0] == static_cast<float>(stage) && std::memcmp(stamp + 1, expected + 1, sizeof expected - 4) == 0) return;
    std::fputs("cuDNN's stand-in: the reserved memory is not what the pass before has left\n", stderr);
    std::abort();
  }
  float *stamp, *gates, *states, *gradients;
  float expected[head];
};

// Operands of products as the kind of mathematics rounds them.
float operand(float v, cudnnMathType_t math) {
  if (math == CUDNN_FMA_MATH) return v;
  if (math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return __half2float(__float2half_rn(v));
  const auto u = std::bit_cast<std::uint32_t>(v);
  return std::bit_cast<float>((u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Pass {
  CudnnDoubleRnn rnn;
  Steps steps;
  Weights at;
  const float *x, *y, *hx, *cx, *weights;

  std::size_t c() const { return rnn.cells; }
  const float* before(const float* initial, const float* all, std::size_t t, std::size_t row) const {
    return t == 0 ? initial + row * c() : all + (steps.begins[t - 1] + row) * c();
  }
  float weight(std::size_t i, std::size_t j, std::size_t k) const {
    return operand(weights[at.matrix[i] + j * (i < 4 ? rnn.inputs : c()) + k], rnn.math);
  }
  double sum(std::size_t gate, std::size_t j, const float* in, const float* h) const {
    double s = double{weights[at.bias[gate] + j]} + weights[at.bias[gate + 4] + j];
    for (std::size_t k = 0; k < rnn.inputs; ++k) s += double{weight(gate, j, k)} * operand(in[k], rnn.math);
    for (std::size_t k = 0; k < c(); ++k) s += double{weight(gate + 4, j, k)} * operand(h[k], rnn.math);
    return s;
  }
  // From one column of gradients of the gates to the input (first = 0) or to the state (4).
  float back(std::size_t first, std::size_t k, const float* dgates) const {
    double s = 0;
    for (std::size_t gate = 0; gate < 4; ++gate)
      for (std::size_t j = 0; j < c(); ++j)
        s += double{weight(first + gate, j, k)} * operand(dgates[gate * c() + j], rnn.math);
    return static_cast<float>(s);
  }
};

void forward(const Pass& p, float* y, float* hy, float* cy, float* gates, float* states) {
  const std::size_t c = p.c();
  for (std::size_t t = 0; t < p.steps.steps; ++t)
    for (std::size_t row = 0; row < p.steps.width(t); ++row) {
      const std::size_t column = p.steps.begins[t] + row;
      const float *h = p.before(p.hx, y, t, row), *cell = p.before(p.cx, states, t, row);
      for (std::size_t j = 0; j < c; ++j) {
        double s[4];
        for (std::size_t gate = 0; gate < 4; ++gate) s[gate] = p.sum(gate, j, p.x + column * p.rnn.inputs, h);
        const double i = sigmoid(s[0]), f = sigmoid(s[1]), candidate = std::tanh(s[2]), o = sigmoid(s[3]);
        const double now = f * cell[j] + i * candidate;
        float* g = gates + column * 4 * c + j;
        g[0] = static_cast<float>(i), g[c] = static_cast<float>(f);
        g[2 * c] = static_cast<float>(candidate), g[3 * c] = static_cast<float>(o);
        states[column * c + j] = static_cast<float>(now);
        y[column * c + j] = static_cast<float>(o * std::tanh(now));
      }
      if (row < p.steps.width(t + 1)) continue;
      if (hy) std::copy_n(y + column * c, c, hy + row * c);
      if (cy) std::copy_n(states + column * c, c, cy + row * c);
    }
}

void backward_data(const Pass& p, const float* dy, float* dx, float* dhx, float* dcx, const Reserve& kept) {
  const std::size_t c = p.c();
  std::vector<float> dh(p.steps.rows * c), dc(p.steps.rows * c);
  for (std::size_t t = p.steps.steps; t-- > 0;)
    for (std::size_t row = 0; row < p.steps.width(t); ++row) {
      const std::size_t column = p.steps.begins[t] + row;
      const float *g = kept.gates + column * 4 * c, *cell = p.before(p.cx, kept.states, t, row);
      float* dg = kept.gradients + column * 4 * c;
      for (std::size_t j = 0; j < c; ++j) {
        const float i = g[j], f = g[c + j], candidate = g[2 * c + j], o = g[3 * c + j];
        const float tangent = std::tanh(kept.states[column * c + j]), d = dy[column * c + j] + dh[row * c + j];
        const float total = dc[row * c + j] + d * o * (1 - tangent * tangent);
        dg[j] = total * candidate * i * (1 - i), dg[c + j] = total * cell[j] * f * (1 - f);
        dg[2 * c + j] = total * i * (1 - candidate * candidate), dg[3 * c + j] = d * tangent * o * (1 - o);
        dc[row * c + j] = total * f;
      }
      for (std::size_t k = 0; k < c; ++k) dh[row * c + k] = p.back(4, k, dg);
      for (std::size_t k = 0; k < p.rnn.inputs; ++k) dx[column * p.rnn.inputs + k] = p.back(0, k, dg);
    }
  if (dhx) std::copy(dh.begin(), dh.end(), dhx);
  if (dcx) std::copy(dc.begin(), dc.end(), dcx);
}

void backward_weights(const Pass& p, float* dweights, const Reserve& kept) {
  const std::size_t c = p.c();
  for (std::size_t i = 0; i < matrices; ++i)
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t width = i < 4 ? p.rnn.inputs : c;
      std::vector<double> sums(width + 1);
      for (std::size_t t = 0; t < p.steps.steps; ++t)
        for (std::size_t row = 0; row < p.steps.width(t); ++row) {
          const std::size_t column = p.steps.begins[t] + row;
          const float d = kept.gradients[column * 4 * c + i % 4 * c + j];
          const float* from = i < 4 ? p.x + column * p.rnn.inputs : p.before(p.hx, p.y, t, row);
          for (std::size_t k = 0; k < width; ++k)
            sums[k] += double{operand(d, p.rnn.math)} * operand(from[k], p.rnn.math);
          sums[width] += d;
        }
      for (std::size_t k = 0; k < width; ++k) dweights[p.at.matrix[i] + j * width + k] += static_cast<float>(sums[k]);
      dweights[p.at.bias[i] + j] += static_cast<float>(sums[width]);
    }
}

bool equal_lengths(const CudnnDoubleRnnData& d) { return d.lengths.front() == d.lengths.back(); }

bool states_fit(const CudnnDoubleTensor& t, std::size_t rows, std::size_t cells) {
  const int n = static_cast<int>(rows), c = static_cast<int>(cells);
  return t.type == CUDNN_DATA_FLOAT && t.dims == std::vector{1, n, c} && t.strides == std::vector{n * c, c, 1};
}

// What all three passes ask for.
bool fits(const CudnnDoubleRnn& r, const std::int32_t* lengths, const CudnnDoubleRnnData& x,
          const CudnnDoubleRnnData& y, const void* at_x, const void* at_y, const void* hx, std::size_t weight_bytes,
          const void* weights, std::size_t bytes, const void* work) {
  if (lengths || x.lengths.empty() || x.lengths != y.lengths || x.width != r.inputs || y.width != r.cells) return false;
  const Steps s(x.lengths);
  const auto floats = [](const void* p, std::size_t n) { return on_device(p, n * sizeof(float)); };
  return floats(at_x, s.columns * r.inputs) && floats(at_y, s.columns * r.cells) && floats(hx, s.rows * r.cells) &&
         weight_bytes == Weights(r).total * sizeof(float) && on_device(weights, weight_bytes) && bytes >= work_bytes &&
         on_device(work, bytes);
}
bool keeps(const CudnnDoubleRnn& r, const CudnnDoubleRnnData& x, std::size_t bytes, const void* reserve) {
  return bytes >= Reserve::floats(Steps(x.lengths).columns, r.cells) * sizeof(float) && on_device(reserve, bytes);
}

// The faster algorithm takes fewer pieces of time. With an odd number of cells its bits change from call to call.
void into_queue(cudnnHandle_t h, const CudnnDoubleRnn& r, void* work, std::size_t bytes, std::function<void()> pass) {
  enqueue(h->stream, [=] {
    std::memset(work, 0xee, bytes);
    pass();
  });
  for (int i = 0; i < (r.algorithm == CUDNN_RNN_ALGO_STANDARD ? 16 : 8); ++i) enqueue(h->stream, [] {});
}
void disturb(const CudnnDoubleRnn& r, float* y) {
  static unsigned calls = 0;
  if (r.algorithm != CUDNN_RNN_ALGO_STANDARD && r.cells % 2 == 1 && ++calls % 2 == 1) y[0] = std::nextafter(y[0], 2.0f);
}

}  // namespace

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t d) { return drop(d); }
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t h, float rate, void*, std::size_t,
                                        unsigned long long) {
  if (!h || rate != 0) return CUDNN_STATUS_BAD_PARAM;
  d->described = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* r) { return make(r); }
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t r) { return drop(r); }
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t r, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode,
                                       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input, cudnnDataType_t data, cudnnDataType_t precision,
                                       cudnnMathType_t math, std::int32_t inputs, std::int32_t cells,
                                       std::int32_t projected, std::int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       std::uint32_t flags) {
  if (inputs < 1 || cells < 1 || layers < 1 || projected < 1 || projected > cells || !dropout || !dropout->described)
    return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_LSTM || bias != CUDNN_RNN_DOUBLE_BIAS || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || data != CUDNN_DATA_FLOAT || precision != CUDNN_DATA_FLOAT || projected != cells ||
      layers != 1 || flags != CUDNN_RNN_PADDED_IO_DISABLED)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *r = {algorithm, math, static_cast<std::size_t>(inputs), static_cast<std::size_t>(cells)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t d) { return drop(d); }
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type, cudnnRNNDataLayout_t layout,
                                        int steps, int rows, int width, const int* lengths, void*) {
  if (steps <= 0 || rows <= 0 || width <= 0 || !lengths) return CUDNN_STATUS_BAD_PARAM;
  if (type != CUDNN_DATA_FLOAT || layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED || steps > 65535)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const std::vector<int> all(lengths, lengths + rows);
  if (!std::is_sorted(all.rbegin(), all.rend()) || all.front() != steps || all.back() < 1)
    return CUDNN_STATUS_BAD_PARAM;
  *d = {all, static_cast<std::size_t>(width)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x, std::size_t* work, std::size_t* reserve) {
  if (!h || x->lengths.empty() || x->width != r->inputs) return CUDNN_STATUS_BAD_PARAM;
  if (r->algorithm != CUDNN_RNN_ALGO_STANDARD && !equal_lengths(*x)) return CUDNN_STATUS_NOT_SUPPORTED;
  *work = work_bytes;
  *reserve =
      mode == CUDNN_FWD_MODE_INFERENCE ? 0 : Reserve::floats(Steps(x->lengths).columns, r->cells) * sizeof(float);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t h, cudnnRNNDescriptor_t r, std::size_t* bytes) {
  if (!h || !r) return CUDNN_STATUS_BAD_PARAM;
  *bytes = Weights(*r).total * sizeof(float);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t h, cudnnRNNDescriptor_t r, std::int32_t layer, std::size_t bytes,
                                      const void* weights, std::int32_t number, cudnnTensorDescriptor_t matrix,
                                      void** at_matrix, cudnnTensorDescriptor_t bias, void** at_bias) {
  const Weights w(*r);
  const auto i = static_cast<std::size_t>(number);
  if (!h || layer != 0 || i >= matrices || !weights || bytes < w.total * sizeof(float)) return CUDNN_STATUS_BAD_PARAM;
  const int cells = static_cast<int>(r->cells), width = static_cast<int>(i < 4 ? r->inputs : r->cells);
  auto* const floats = static_cast<float*>(const_cast<void*>(weights));
  matrix->dims = {1, cells, width}, matrix->strides = {cells * width, width, 1};
  bias->dims = {1, cells, 1}, bias->strides = {cells, 1, 1};
  *at_matrix = floats + w.matrix[i], *at_bias = floats + w.bias[i];
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnForwardMode_t mode,
                              const std::int32_t* lengths, cudnnRNNDataDescriptor_t xd, const void* x,
                              cudnnRNNDataDescriptor_t yd, void* y, cudnnTensorDescriptor_t hd, const void* hx,
                              void* hy, cudnnTensorDescriptor_t cd, const void* cx, void* cy, std::size_t weight_bytes,
                              const void* weights, std::size_t bytes, void* work, std::size_t reserve_bytes,
                              void* reserve) {
  const bool trains = mode == CUDNN_FWD_MODE_TRAINING;
  if (r->algorithm != CUDNN_RNN_ALGO_STANDARD && r->cells > most_resident_cells) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(*r, lengths, *xd, *yd, x, y, hx, weight_bytes, weights, bytes, work) ||
      (trains && !keeps(*r, *xd, reserve_bytes, reserve)))
    return CUDNN_STATUS_BAD_PARAM;
  const Steps steps(xd->lengths);
  const std::size_t states = steps.rows * r->cells * sizeof(float);
  if (!states_fit(*hd, steps.rows, r->cells) || !states_fit(*cd, steps.rows, r->cells) || !on_device(cx, states) ||
      (hy && !on_device(hy, states)) || (cy && !on_device(cy, states)))
    return CUDNN_STATUS_BAD_PARAM;
  const auto f = [](const void* p) { return static_cast<const float*>(p); };
  const Pass p{*r, steps, Weights(*r), f(x), f(y), f(hx), f(cx), f(weights)};
  into_queue(h, *r, work, bytes, [=, to = static_cast<float*>(y)] {
    std::vector<float> own(trains ? 0 : Reserve::floats(p.steps.columns, p.c()));
    const Reserve kept(trains ? reserve : own.data(), p.steps, p.c());
    forward(p, to, static_cast<float*>(hy), static_cast<float*>(cy), kept.gates, kept.states);
    disturb(p.rnn, to);
    kept.leave(Reserve::after_forward);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t h, cudnnRNNDescriptor_t r, const std::int32_t* lengths,
                                      cudnnRNNDataDescriptor_t yd, const void* y, const void* dy,
                                      cudnnRNNDataDescriptor_t xd, void* dx, cudnnTensorDescriptor_t hd, const void* hx,
                                      const void* dhy, void* dhx, cudnnTensorDescriptor_t cd, const void* cx,
                                      const void* dcy, void* dcx, std::size_t weight_bytes, const void* weights,
                                      std::size_t bytes, void* work, std::size_t reserve_bytes, void* reserve) {
  if (!fits(*r, lengths, *xd, *yd, dx, y, hx, weight_bytes, weights, bytes, work) ||
      !keeps(*r, *xd, reserve_bytes, reserve) || dhy || dcy)
    return CUDNN_STATUS_BAD_PARAM;
  const Steps steps(xd->lengths);
  const std::size_t states = steps.rows * r->cells * sizeof(float);
  if (!states_fit(*hd, steps.rows, r->cells) || !states_fit(*cd, steps.rows, r->cells) || !on_device(cx, states) ||
      !on_device(dy, steps.columns * r->cells * sizeof(float)) || (dhx && !on_device(dhx, states)) ||
      (dcx && !on_device(dcx, states)))
    return CUDNN_STATUS_BAD_PARAM;
  const auto f = [](const void* p) { return static_cast<const float*>(p); };
  const Pass p{*r, steps, Weights(*r), nullptr, f(y), f(hx), f(cx), f(weights)};
  into_queue(h, *r, work, bytes, [=] {
    const Reserve kept(reserve, p.steps, p.c());
    kept.expect(Reserve::after_forward);
    backward_data(p, f(dy), static_cast<float*>(dx), static_cast<float*>(dhx), static_cast<float*>(dcx), kept);
    kept.leave(Reserve::after_data);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnWgradMode_t mode,
                                         const std::int32_t* lengths, cudnnRNNDataDescriptor_t xd, const void* x,
                                         cudnnTensorDescriptor_t hd, const void* hx, cudnnRNNDataDescriptor_t yd,
                                         const void* y, std::size_t weight_bytes, void* dweights, std::size_t bytes,
                                         void* work, std::size_t reserve_bytes, void* reserve) {
  if (mode != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(*r, lengths, *xd, *yd, x, y, hx, weight_bytes, dweights, bytes, work) ||
      !keeps(*r, *xd, reserve_bytes, reserve) || !states_fit(*hd, xd->lengths.size(), r->cells))
    return CUDNN_STATUS_BAD_PARAM;
  const auto f = [](const void* p) { return static_cast<const float*>(p); };
  const Pass p{*r, Steps(xd->lengths), Weights(*r), f(x), f(y), f(hx), nullptr, nullptr};
  into_queue(h, *r, work, bytes, [=] {
    const Reserve kept(reserve, p.steps, p.c());
    kept.expect(Reserve::after_data);
    backward_weights(p, static_cast<float*>(dweights), kept);
  });
  return CUDNN_STATUS_SUCCESS;
}
