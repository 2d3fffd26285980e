// SPDX-License-Identifier: Apache-2.0
// the emulator of cuDNN's recurrent layers. What the library refuses is refused; the workspace is spoilt by every call,
// so that nobody relies on it.
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "cudnn_descriptors.h"
#include "cudnn_rnn_cells.h"
#include "queue.h"

struct CudnnDoubleDropout {
  bool described = false;
};
struct CudnnDoubleRnnData {
  std::vector<int> lengths;  // the longest first
  std::size_t width = 0;
};

namespace {

using cuda_emulator::drop;
using cuda_emulator::enqueue;
using cuda_emulator::make;
using cuda_emulator::on_device;
using Pass = cuda_emulator::RnnPass;
using Reserve = cuda_emulator::RnnReserve;
using Steps = cuda_emulator::RnnSteps;
using Weights = cuda_emulator::RnnWeights;

constexpr std::size_t work_bytes = 96;
constexpr std::size_t most_resident_cells = 32;  // of the faster algorithm; it says so when it is called

bool equal_lengths(const CudnnDoubleRnnData& d) { return d.lengths.front() == d.lengths.back(); }

bool states_fit(const CudnnDoubleTensor& t, std::size_t rows, std::size_t cells) {
  const int n = static_cast<int>(rows), c = static_cast<int>(cells);
  return t.type == CUDNN_DATA_FLOAT && t.dims == std::vector{1, n, c} && t.strides == std::vector{n * c, c, 1};
}
// Cells are an LSTM's; who gives them to a GRU is mistaken. Those but the initial ones may be left out.
bool cells_fit(const CudnnDoubleRnn& r, const CudnnDoubleTensor& t, std::size_t rows, const void* initial,
               const void* other) {
  if (r.mode != CUDNN_LSTM) return !initial && !other;
  const std::size_t bytes = rows * r.cells * sizeof(float);
  return states_fit(t, rows, r.cells) && on_device(initial, bytes) && (!other || on_device(other, bytes));
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

// The faster algorithm takes fewer chunks of time. With an odd number of cells its bits change from call to call.
cudnnStatus_t into_queue(cudnnHandle_t h, const CudnnDoubleRnn& r, void* work, std::size_t bytes,
                         std::function<void()> pass) {
  const cudaError_t status = enqueue(h->stream, [=] {
    std::memset(work, 0xee, bytes);
    pass();
  });
  for (int i = 0; i < (r.algorithm == CUDNN_RNN_ALGO_STANDARD ? 16 : 8); ++i) enqueue(h->stream, [] {});
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
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
  if ((mode != CUDNN_LSTM && mode != CUDNN_GRU) || bias != CUDNN_RNN_DOUBLE_BIAS || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || data != CUDNN_DATA_FLOAT || precision != CUDNN_DATA_FLOAT || projected != cells ||
      layers != 1 || flags != CUDNN_RNN_PADDED_IO_DISABLED)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *r = {algorithm, mode, math, static_cast<std::size_t>(inputs), static_cast<std::size_t>(cells)};
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
  if (!h || layer != 0 || i >= r->matrices() || !weights || bytes < w.total * sizeof(float))
    return CUDNN_STATUS_BAD_PARAM;
  const int cells = static_cast<int>(r->cells), width = static_cast<int>(r->width(i));
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
  if (!states_fit(*hd, steps.rows, r->cells) || !cells_fit(*r, *cd, steps.rows, cx, cy) ||
      (hy && !on_device(hy, states)))
    return CUDNN_STATUS_BAD_PARAM;
  const auto f = [](const void* p) { return static_cast<const float*>(p); };
  const Pass p{*r, steps, Weights(*r), f(x), f(y), f(hx), f(cx), f(weights)};
  return into_queue(h, *r, work, bytes, [=, to = static_cast<float*>(y)] {
    std::vector<float> own(trains ? 0 : Reserve::floats(p.steps.columns, p.rnn.cells));
    const Reserve kept(trains ? reserve : own.data(), p.steps, p.rnn.cells);
    p.forward(to, static_cast<float*>(hy), static_cast<float*>(cy), kept);
    disturb(p.rnn, to);
    kept.leave(Reserve::after_forward);
  });
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
  if (!states_fit(*hd, steps.rows, r->cells) || !cells_fit(*r, *cd, steps.rows, cx, dcx) ||
      !on_device(dy, steps.columns * r->cells * sizeof(float)) || (dhx && !on_device(dhx, states)))
    return CUDNN_STATUS_BAD_PARAM;
  const auto f = [](const void* p) { return static_cast<const float*>(p); };
  const Pass p{*r, steps, Weights(*r), nullptr, f(y), f(hx), f(cx), f(weights)};
  return into_queue(h, *r, work, bytes, [=] {
    const Reserve kept(reserve, p.steps, p.rnn.cells);
    kept.expect(Reserve::after_forward);
    p.backward_data(f(dy), static_cast<float*>(dx), static_cast<float*>(dhx), static_cast<float*>(dcx), kept);
    kept.leave(Reserve::after_data);
  });
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
  return into_queue(h, *r, work, bytes, [=] {
    const Reserve kept(reserve, p.steps, p.rnn.cells);
    kept.expect(Reserve::after_data);
    p.backward_weights(static_cast<float*>(dweights), kept);
  });
}
