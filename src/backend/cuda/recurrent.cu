// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: a thread for each cell of each row. And the weights of layers, turned over for cuDNN.
#include "backend/cuda/cudnn_recurrence.h"
#include "backend/cuda/math.h"
#include "backend/cuda/tile.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

// Divisions of 64 bits are slow.
__device__ inline std::size_t row_of(std::size_t e, std::size_t cells, std::size_t count) {
  return count <= 0xffffffffu ? static_cast<unsigned>(e) / static_cast<unsigned>(cells) : e / cells;
}

// body(e, row, j) for the elements e = row * cells + j that are this thread's.
template <class Rows, class Body>
__device__ inline void each_cell(const Rows& r, const Body& body) {
  const std::size_t count = r.rows * r.cells;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t row = row_of(e, r.cells, count);
    body(e, row, e - row * r.cells);
  }
}

__global__ void lstm_step_each(LstmRows r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const float* p = r.projected + row * 4 * c + j;
    const float* s = r.from_state + row * r.from_state_step + j;
    float* g = r.gates + row * 4 * c + j;
    const float i = sigmoid(p[0] + s[0]);
    const float candidate = tangent_h(p[c] + s[c]);
    const float f = sigmoid(p[2 * c] + s[2 * c]);
    const float o = sigmoid(p[3 * c] + s[3 * c]);
    const float now = f * r.cell_before[row * r.cell_before_step + j] + i * candidate;
    g[0] = i, g[c] = candidate, g[2 * c] = f, g[3 * c] = o;
    r.cell[e] = now;
    r.output[e] = o * tangent_h(now);
  });
}

__global__ void lstm_step_gradient_each(LstmRowsGradient r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const float* g = r.gates + row * 4 * c + j;
    float* dg = r.gates_gradient + row * 4 * c + j;
    const float i = g[0], candidate = g[c], f = g[2 * c], o = g[3 * c];
    const float before = r.cell_before[row * r.cell_before_step + j];
    const float t = tangent_h(r.cell[e]), d = r.output_gradient[e];
    const float total = r.cell_gradient[e] + d * o * (1.0f - t * t);
    dg[0] = total * candidate * i * (1.0f - i);
    dg[c] = total * i * (1.0f - candidate * candidate);
    dg[2 * c] = total * before * f * (1.0f - f);
    dg[3 * c] = d * t * o * (1.0f - o);
    r.cell_before_gradient[e] = total * f;
  });
}

__global__ void gru_reset_each(GruRows r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const float* p = r.projected + row * 3 * c + j;
    const float* s = r.from_state + row * r.from_state_step + j;
    float* g = r.gates + row * 3 * c + j;
    const float reset = sigmoid(p[c] + s[c]);
    g[0] = sigmoid(p[0] + s[0]), g[c] = reset;
    r.inner[e] = reset * r.output_before[row * r.output_before_step + j];
  });
}

__device__ inline float biased(const GruRows& r, const float* s, std::size_t at) {
  return r.state_bias ? s[at] + r.state_bias[at] : s[at];
}

__global__ void gru_step_each(GruRows r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const float* p = r.projected + row * 3 * c;
    const float* s = r.from_state + row * r.from_state_step;
    float* g = r.gates + row * 3 * c + j;
    float update, candidate;
    if (r.kind == CellKind::gru_reset_before) {
      update = g[0];
      candidate = tangent_h(p[2 * c + j] + s[2 * c + j]);
    } else {
      update = sigmoid(p[j] + biased(r, s, j));
      const float reset = sigmoid(p[c + j] + biased(r, s, c + j)), turned = biased(r, s, 2 * c + j);
      candidate = tangent_h(p[2 * c + j] + reset * turned);
      g[0] = update, g[c] = reset;
      r.inner[e] = turned;
    }
    g[2 * c] = candidate;
    r.output[e] = update * r.output_before[row * r.output_before_step + j] + (1.0f - update) * candidate;
  });
}

__global__ void gru_step_gradient_each(GruRowsGradient r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const std::size_t at = row * 3 * c + j;
    const float update = r.gates[at], reset = r.gates[at + c], candidate = r.gates[at + 2 * c];
    const float d = r.output_gradient[e] + r.carried_gradient[e];
    const float before = r.output_before[row * r.output_before_step + j];
    const float of_update = d * (before - candidate) * update * (1.0f - update);
    const float of_candidate = d * (1.0f - update) * (1.0f - candidate * candidate);
    r.gates_gradient[at] = of_update, r.gates_gradient[at + 2 * c] = of_candidate;
    if (r.kind == CellKind::gru_reset_before) return;
    const float of_reset = of_candidate * r.inner[e] * reset * (1.0f - reset);
    r.gates_gradient[at + c] = of_reset;
    float* s = r.from_state_gradient + at;
    s[0] = of_update, s[c] = of_reset, s[2 * c] = of_candidate * reset;
    r.output_before_gradient[e] = d * update;
  });
}

__global__ void gru_reset_gradient_each(GruRowsGradient r) {
  const std::size_t c = r.cells;
  each_cell(r, [&](std::size_t e, std::size_t row, std::size_t j) {
    const std::size_t at = row * 3 * c + j;
    const float update = r.gates[at], reset = r.gates[at + c], d = r.reset_gradient[e];
    const float before = r.output_before[row * r.output_before_step + j];
    r.gates_gradient[at + c] = d * before * reset * (1.0f - reset);
    r.output_before_gradient[e] = (r.output_gradient[e] + r.carried_gradient[e]) * update + d * reset;
  });
}

// Tiles of one gate through shared memory: inputs along x, of which a grid takes more than along y, the bias as a last
// line of inputs; cells along y. Parameters that are indexed by the gate stay where the launch has put them.
struct Tile {
  std::size_t cell, input;
  unsigned gate;
  __device__ Tile()
      : cell(static_cast<std::size_t>(blockIdx.y) * tile),
        input(static_cast<std::size_t>(blockIdx.x) * tile),
        gate(blockIdx.z) {}
};

__global__ void give_tile(std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                          const __grid_constant__ GateWeights to) {
  const Tile t;
  through_tile(
      [&](unsigned r, unsigned c, float& v) {
        const std::size_t k = t.input + r, j = t.cell + c;
        if (j >= cells || k > inputs) return;
        const std::size_t column = t.gate * cells + j;
        v = k < inputs ? w[k * to.gates * cells + column] : bias ? bias[column] : 0.0f;
      },
      [&](unsigned r, unsigned c, const float& v) {
        const std::size_t k = t.input + c, j = t.cell + r;
        if (j >= cells || k > inputs) return;
        (k < inputs ? to.matrix[t.gate][j * inputs + k] : to.bias[t.gate][j]) = v;
      });
}

__global__ void take_tile(std::size_t cells, std::size_t inputs, const __grid_constant__ GateWeights from,
                          GradientPlace w, GradientPlace bias) {
  const Tile t;
  through_tile(
      [&](unsigned r, unsigned c, float& v) {
        const std::size_t k = t.input + c, j = t.cell + r;
        if (j < cells && k <= inputs) v = k < inputs ? from.matrix[t.gate][j * inputs + k] : from.bias[t.gate][j];
      },
      [&](unsigned r, unsigned c, const float& v) {
        const std::size_t k = t.input + r, j = t.cell + c;
        if (j >= cells || k > inputs) return;
        const GradientPlace place = k < inputs ? w : bias;
        if (!place.to) return;
        float& to = place.to[(k < inputs ? k * from.gates * cells : 0) + t.gate * cells + j];
        to = place.add ? to + v : v;
      });
}

dim3 tiles(std::size_t cells, std::size_t inputs, unsigned gates) {
  return dim3(static_cast<unsigned>(inputs / tile + 1), static_cast<unsigned>((cells + tile - 1) / tile), gates);
}

template <class R>
void for_each_cell(void (*kernel)(R), const R& r, cudaStream_t stream) {
  if (const std::size_t count = r.rows * r.cells) launch_for(kernel, count, stream, r);
}

}  // namespace

void give_weights(cudaStream_t stream, std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                  const GateWeights& to) {
  launch(give_tile, tiles(cells, inputs, to.gates), dim3(tile, rows_at_once), stream, cells, inputs, w, bias, to);
}

void take_gradients(cudaStream_t stream, std::size_t cells, std::size_t inputs, const GateWeights& from,
                    const GradientPlace& w, const GradientPlace& bias) {
  if (w.to || bias.to)
    launch(take_tile, tiles(cells, inputs, from.gates), dim3(tile, rows_at_once), stream, cells, inputs, from, w, bias);
}

void CudaRecurrent::lstm_step(const LstmRows& r) { for_each_cell(lstm_step_each, r, stream()); }
void CudaRecurrent::lstm_step_gradient(const LstmRowsGradient& r) {
  for_each_cell(lstm_step_gradient_each, r, stream());
}
void CudaRecurrent::gru_step(const GruRows& r) { for_each_cell(gru_step_each, r, stream()); }
void CudaRecurrent::gru_step_gradient(const GruRowsGradient& r) { for_each_cell(gru_step_gradient_each, r, stream()); }
void CudaRecurrent::gru_reset(const GruRows& r) { for_each_cell(gru_reset_each, r, stream()); }
void CudaRecurrent::gru_reset_gradient(const GruRowsGradient& r) {
  for_each_cell(gru_reset_gradient_each, r, stream());
}

}  // namespace tutti::cuda
