// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cudnn_recurrence.h"

#include <algorithm>
#include <utility>

#include "backend/recurrent_steps.h"

namespace tutti::cuda {
namespace {

constexpr const char* describing = "describing a recurrent layer";
constexpr std::size_t most_steps = 65535;  // that the library counts

// Operands of products are rounded at most to the compute type; there is no algorithm that rounds to bfloat16.
cudnnMathType_t math_of(ComputeType type) {
  return type == ComputeType::float32   ? CUDNN_FMA_MATH
         : type == ComputeType::float16 ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                        : CUDNN_DEFAULT_MATH;
}

// Any failure status means "use another algorithm"; a lost device is reported by the next call.
bool can(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; }

// Blocks of memory begin at multiples of 256 bytes.
std::size_t take(std::size_t& total, std::size_t floats) {
  constexpr std::size_t whole = 64;
  return std::exchange(total, total + (floats + whole - 1) / whole * whole);
}
std::size_t floats_of(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

}  // namespace

// Two biases, because the library's faster algorithms want that; an LSTM's second one stays zero.
CudnnRecurrence::CudnnRecurrence(cudnnHandle_t handle, ComputeType type, cudnnRNNAlgo_t algorithm, CellKind kind,
                                 std::size_t cells, std::size_t inputs)
    : handle_(handle), kind_(kind), cells_(cells), inputs_(inputs) {
  check(cudnnCreateDropoutDescriptor(dropout_.out()), describing);
  check(cudnnSetDropoutDescriptor(dropout_.get(), handle, 0, nullptr, 0, 0), describing);
  check(cudnnCreateRNNDescriptor(rnn_.out()), describing);
  check(cudnnCreateRNNDataDescriptor(x_.out()), describing);
  check(cudnnCreateRNNDataDescriptor(y_.out()), describing);
  check(cudnnCreateTensorDescriptor(states_.out()), describing);
  const auto size = [](std::size_t n) { return static_cast<std::int32_t>(n); };
  possible_ = can(cudnnSetRNNDescriptor_v8(rnn_.get(), algorithm, kind == CellKind::lstm ? CUDNN_LSTM : CUDNN_GRU,
                                           CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                           CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, math_of(type), size(inputs), size(cells),
                                           size(cells), 1, dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED)) &&
              can(cudnnGetRNNWeightSpaceSize(handle, rnn_.get(), &weight_bytes_));
}

bool CudnnRecurrence::takes(const RecurrentLayer& l) {
  const PackedSteps& time = l.time;
  if (!possible_ || time.rows() == 0 || time.steps() > most_steps) return false;
  lengths_.assign(time.rows(), 0);
  for (std::size_t t = 0; t < time.steps(); ++t)
    std::fill(lengths_.begin() + static_cast<std::ptrdiff_t>(time.width(t + 1)),
              lengths_.begin() + static_cast<std::ptrdiff_t>(time.width(t)), static_cast<int>(t + 1));
  const int rows = static_cast<int>(time.rows()), cells = static_cast<int>(cells_);
  const auto sequences = [&](const RnnDataDescriptor& d, std::size_t width) {
    return can(cudnnSetRNNDataDescriptor(d.get(), CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                         static_cast<int>(time.steps()), rows, static_cast<int>(width), lengths_.data(),
                                         nullptr));
  };
  const int dims[] = {1, rows, cells}, strides[] = {rows * cells, cells, 1};
  check(cudnnSetTensorNdDescriptor(states_.get(), CUDNN_DATA_FLOAT, 3, dims, strides), describing);
  return sequences(x_, inputs_) && sequences(y_, cells_) &&
         can(cudnnGetRNNTempSpaceSizes(handle_, rnn_.get(),
                                       l.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, x_.get(),
                                       &workspace_bytes_, &reserve_bytes_)) &&
         workspace_bytes_ <= most_workspace;
}

void CudnnRecurrence::describe(const RecurrentLayer& l) {
  check(takes(l) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, describing);
}

void CudnnRecurrence::tell(CudaTensors& backend, const RecurrentLayer& l) {
  describe(l);
  if (!l.backwards) return;
  turned_.clear();
  for (std::size_t t = 0; t < l.time.steps(); ++t)
    for (std::size_t row = 0; row < l.time.width(t); ++row) {
      const std::size_t from = static_cast<std::size_t>(lengths_[row]) - 1 - t;
      turned_.push_back(static_cast<std::int32_t>(l.time.begin(from) + row));
    }
  static_assert(sizeof(std::int32_t) == sizeof(float));
  backend.upload(reinterpret_cast<const float*>(turned_.data()), l.workspace + places(l).turned, turned_.size());
}

// The order of the other direction; used to reverse either of the two.
void CudnnRecurrence::turn(CudaTensors& backend, const RecurrentLayer& l, std::size_t width, const float* x,
                           float* y) const {
  const auto* list = reinterpret_cast<const std::int32_t*>(l.workspace + places(l).turned);
  backend.replace_columns(list, l.time.columns(), width, x, y);
}

CudnnRecurrence::Places CudnnRecurrence::places(const RecurrentLayer& l) const {
  const std::size_t columns = l.time.columns(), states = l.initial_step == 0 ? l.time.rows() * cells_ : 0;
  Places p{};
  p.weights = take(p.total, floats_of(weight_bytes_));
  p.reserve = take(p.total, floats_of(reserve_bytes_));
  p.output = take(p.total, states);
  p.cell = take(p.total, kind_ == CellKind::lstm ? states : 0);
  p.x = take(p.total, l.backwards ? columns * inputs_ : 0);
  p.y = take(p.total, l.backwards ? columns * cells_ : 0);
  p.turned = take(p.total, l.backwards ? columns : 0);
  return p;
}

CudnnRecurrence::GradientPlaces CudnnRecurrence::gradient_places(const RecurrentLayer& l,
                                                                 const RecurrentLayerGradient& g) const {
  const std::size_t columns = l.time.columns(), states = l.time.rows() * cells_;
  GradientPlaces p{};
  p.weights = take(p.total, floats_of(weight_bytes_));
  p.output = take(p.total, g.initial_output ? states : 0);
  p.cell = take(p.total, g.initial_cell ? states : 0);
  p.x = take(p.total, l.backwards || g.x.add || !g.x.to ? columns * inputs_ : 0);
  p.x_turned = take(p.total, l.backwards && g.x.add ? columns * inputs_ : 0);
  p.y = take(p.total, l.backwards ? columns * cells_ : 0);
  return p;
}

CudnnRecurrence::Operands CudnnRecurrence::operands(const RecurrentLayer& l) const {
  const Places p = places(l);
  const bool own = l.initial_step != 0;
  const float* const cell = kind_ == CellKind::lstm ? own ? l.initial_cell : l.workspace + p.cell : nullptr;
  return {l.workspace + p.weights,
          l.training ? l.workspace + p.reserve : nullptr,
          l.backwards ? l.workspace + p.x : l.x,
          own ? l.initial_output : l.workspace + p.output,
          cell,
          l.backwards ? l.workspace + p.y : l.output};
}

std::size_t CudnnRecurrence::workspace(const RecurrentLayer& l) const { return places(l).total; }

// The library has the gates in the order input, forget, candidate, output, those of a GRU as reset, update, candidate.
GateWeights CudnnRecurrence::gates(float* weights, bool of_state) const {
  constexpr int of_lstm[] = {0, 2, 1, 3}, of_gru[] = {1, 0, 2};
  const int* const number = kind_ == CellKind::lstm ? of_lstm : of_gru;
  GateWeights w{};
  w.gates = static_cast<unsigned>(gates_of(kind_));
  TensorDescriptor matrix, bias;
  check(cudnnCreateTensorDescriptor(matrix.out()), describing);
  check(cudnnCreateTensorDescriptor(bias.out()), describing);
  for (unsigned gate = 0; gate < w.gates; ++gate) {
    void *m = nullptr, *b = nullptr;
    const auto id = static_cast<std::int32_t>(number[gate] + (of_state ? w.gates : 0));
    check(cudnnGetRNNWeightParams(handle_, rnn_.get(), 0, weight_bytes_, weights, id, matrix.get(), &m, bias.get(), &b),
          describing);
    w.matrix[gate] = static_cast<float*>(m), w.bias[gate] = static_cast<float*>(b);
  }
  return w;
}

cudnnStatus_t CudnnRecurrence::forward(CudaTensors& backend, const RecurrentLayer& l, CudnnRecurrenceScratch& scratch) {
  describe(l);
  const Operands o = operands(l);
  give_weights(backend.stream(), cells_, inputs_, l.w, l.bias, gates(o.weights, false));
  give_weights(backend.stream(), cells_, cells_, l.h, l.state_bias, gates(o.weights, true));
  const Places p = places(l);
  if (l.initial_step == 0) {
    Layout rows;
    rows.rank = 2, rows.size = {cells_, l.time.rows()}, rows.stride[0] = {1, 0}, rows.stride[3] = {1, cells_};
    backend.copy(rows, l.initial_output, l.workspace + p.output, false);
    if (o.initial_cell) backend.copy(rows, l.initial_cell, l.workspace + p.cell, false);
  }
  if (l.backwards) turn(backend, l, inputs_, l.x, l.workspace + p.x);
  const cudnnStatus_t status =
      cudnnRNNForward(handle_, rnn_.get(), l.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                      x_.get(), o.x, y_.get(), o.y, states_.get(), o.initial_output, nullptr, states_.get(),
                      o.initial_cell, l.last_cell, weight_bytes_, o.weights, workspace_bytes_,
                      scratch.workspace.bytes(workspace_bytes_), o.reserve ? reserve_bytes_ : 0, o.reserve);
  if (l.backwards) turn(backend, l, cells_, o.y, l.output);
  return status;
}

cudnnStatus_t CudnnRecurrence::backward(CudaTensors& backend, const RecurrentLayer& l, const RecurrentLayerGradient& g,
                                        CudnnRecurrenceScratch& scratch) {
  describe(l);
  const GradientPlaces p = gradient_places(l, g);
  auto* const gradients = scratch.gradients.reserve<float>(p.total);
  void* const workspace = scratch.workspace.bytes(workspace_bytes_);
  const cudnnStatus_t status = data_gradient(backend, l, g, gradients, workspace);
  if (status != CUDNN_STATUS_SUCCESS || !(g.w.to || g.bias.to || g.h.to || g.state_bias.to)) return status;
  return weight_gradient(backend, l, g, gradients + p.weights, workspace);
}

cudnnStatus_t CudnnRecurrence::data_gradient(CudaTensors& backend, const RecurrentLayer& l,
                                             const RecurrentLayerGradient& g, float* scratch, void* workspace) {
  const Operands o = operands(l);
  const GradientPlaces p = gradient_places(l, g);
  const float* dy = g.output;
  if (l.backwards) {
    turn(backend, l, cells_, g.output, scratch + p.y);
    dy = scratch + p.y;
  }
  float* dx = l.backwards || g.x.add || !g.x.to ? scratch + p.x : g.x.to;
  float* initial_output = g.initial_output ? scratch + p.output : nullptr;
  float* initial_cell = g.initial_cell ? scratch + p.cell : nullptr;
  const cudnnStatus_t status = cudnnRNNBackwardData_v8(
      handle_, rnn_.get(), nullptr, y_.get(), o.y, dy, x_.get(), dx, states_.get(), o.initial_output, nullptr,
      initial_output, states_.get(), o.initial_cell, nullptr, initial_cell, weight_bytes_, o.weights, workspace_bytes_,
      workspace, reserve_bytes_, o.reserve);
  const std::size_t rows = l.time.rows();
  if (initial_output) add_beginning_rows(backend, g, 0, rows, initial_output, cells_, g.initial_output);
  if (initial_cell) add_beginning_rows(backend, g, 0, rows, initial_cell, cells_, g.initial_cell);
  if (!g.x.to || dx == g.x.to) return status;
  if (l.backwards) {
    float* const turned = g.x.add ? scratch + p.x_turned : g.x.to;
    turn(backend, l, inputs_, dx, turned);
    dx = turned;
  }
  const std::size_t count = l.time.columns() * inputs_;
  if (g.x.add) backend.map_gradient(UnaryOp::copy, dx, dx, dx, g.x.to, count, true, Element::float32);
  return status;
}

// Must follow the gradient of the data, which writes the reserved memory that this call reads. The library accumulates.
cudnnStatus_t CudnnRecurrence::weight_gradient(CudaTensors& backend, const RecurrentLayer& l,
                                               const RecurrentLayerGradient& g, float* weights, void* workspace) {
  const Operands o = operands(l);
  check(cudaMemsetAsync(weights, 0, weight_bytes_, backend.stream()), "clearing gradients");
  const cudnnStatus_t status = cudnnRNNBackwardWeights_v8(
      handle_, rnn_.get(), CUDNN_WGRAD_MODE_ADD, nullptr, x_.get(), o.x, states_.get(), o.initial_output, y_.get(), o.y,
      weight_bytes_, weights, workspace_bytes_, workspace, reserve_bytes_, o.reserve);
  take_gradients(backend.stream(), cells_, inputs_, gates(weights, false), g.w, g.bias);
  take_gradients(backend.stream(), cells_, cells_, gates(weights, true), g.h, g.state_bias);
  return status;
}

}  // namespace tutti::cuda
