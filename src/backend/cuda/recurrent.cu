// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: a thread for each cell of each row. And the weights of layers, turned over for cuDNN.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/lstm_weights.h"
#include "backend/cuda/math.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

// Divisions of 64 bits are slow.
__device__ inline std::size_t row_of(std::size_t e, std::size_t cells, std::size_t count) {
  return count <= 0xffffffffu ? static_cast<unsigned>(e) / static_cast<unsigned>(cells) : e / cells;
}

__global__ void lstm_step_each(LstmRows r) {
  const std::size_t c = r.cells, count = r.rows * c;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t row = row_of(e, c, count), j = e - row * c;
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
  }
}

__global__ void lstm_step_gradient_each(LstmRowsGradient r) {
  const std::size_t c = r.cells, count = r.rows * c;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t row = row_of(e, c, count), j = e - row * c;
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
  }
}

// Tiles of one gate through shared memory: cells along x, inputs along y, the bias as a last line of inputs. Parameters
// that are indexed by the gate stay where the launch has put them.
constexpr unsigned tile = 32, rows_at_once = 8;
struct Tile {
  std::size_t cell, input;
  unsigned gate;
  __device__ Tile()
      : cell(static_cast<std::size_t>(blockIdx.x) * tile),
        input(static_cast<std::size_t>(blockIdx.y) * tile),
        gate(blockIdx.z) {}
};

__global__ void give_tile(std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                          const __grid_constant__ GateWeights to) {
  __shared__ float values[tile][tile + 1];
  const Tile t;
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) {
    const std::size_t k = t.input + r, j = t.cell + threadIdx.x;
    if (j >= cells || k > inputs) continue;
    const std::size_t column = t.gate * cells + j;
    values[r][threadIdx.x] = k < inputs ? w[k * 4 * cells + column] : bias ? bias[column] : 0.0f;
  }
  __syncthreads();
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) {
    const std::size_t k = t.input + threadIdx.x, j = t.cell + r;
    if (j >= cells || k > inputs) continue;
    (k < inputs ? to.matrix[t.gate][j * inputs + k] : to.bias[t.gate][j]) = values[threadIdx.x][r];
  }
}

__global__ void take_tile(std::size_t cells, std::size_t inputs, const __grid_constant__ GateWeights from,
                          GradientPlace w, GradientPlace bias) {
  __shared__ float values[tile][tile + 1];
  const Tile t;
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) {
    const std::size_t k = t.input + threadIdx.x, j = t.cell + r;
    if (j >= cells || k > inputs) continue;
    values[r][threadIdx.x] = k < inputs ? from.matrix[t.gate][j * inputs + k] : from.bias[t.gate][j];
  }
  __syncthreads();
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) {
    const std::size_t k = t.input + r, j = t.cell + threadIdx.x;
    if (j >= cells || k > inputs) continue;
    const GradientPlace place = k < inputs ? w : bias;
    if (!place.to) continue;
    float& to = place.to[(k < inputs ? k * 4 * cells : 0) + t.gate * cells + j];
    to = place.add ? to + values[threadIdx.x][r] : values[threadIdx.x][r];
  }
}

dim3 tiles(std::size_t cells, std::size_t inputs) {
  return dim3(static_cast<unsigned>((cells + tile - 1) / tile), static_cast<unsigned>(inputs / tile + 1), 4);
}

}  // namespace

void give_weights(cudaStream_t stream, std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                  const GateWeights& to) {
  launch(give_tile, tiles(cells, inputs), dim3(tile, rows_at_once), stream, cells, inputs, w, bias, to);
}

void take_gradients(cudaStream_t stream, std::size_t cells, std::size_t inputs, const GateWeights& from,
                    const GradientPlace& w, const GradientPlace& bias) {
  if (w.to || bias.to)
    launch(take_tile, tiles(cells, inputs), dim3(tile, rows_at_once), stream, cells, inputs, from, w, bias);
}

void CudaBackend::lstm_step(const LstmRows& r) {
  if (const std::size_t count = r.rows * r.cells)
    launch(lstm_step_each, blocks_for(count), threads_per_block, stream(), r);
}

void CudaBackend::lstm_step_gradient(const LstmRowsGradient& r) {
  if (const std::size_t count = r.rows * r.cells)
    launch(lstm_step_gradient_each, blocks_for(count), threads_per_block, stream(), r);
}

}  // namespace tutti::cuda
