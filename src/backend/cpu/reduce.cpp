// SPDX-License-Identifier: Apache-2.0
// Reductions and the softmax family along an axis. Strided rows (inner > 1) are gathered first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// One line along the middle axis, contiguous in place or gathered into a buffer that lives as long as the thread.
class Line {
 public:
  Line(const Extent& e, std::size_t slot) : extent_(e), slot_(slot) {}
  const float* read(const float* x, std::size_t line) {
    const float* p = x + offset(line);
    if (extent_.inner == 1) return p;
    float* to = buffer();
    for (std::size_t i = 0; i < extent_.size; ++i) to[i] = p[i * extent_.inner];
    return to;
  }
  // Where a result line may be written; store() brings it home.
  float* target(float* y, std::size_t line) { return extent_.inner == 1 ? y + offset(line) : buffer(); }
  void store(float* y, std::size_t line, bool add) {
    if (extent_.inner == 1) return;
    float* p = y + offset(line);
    const float* from = buffer();
    for (std::size_t i = 0; i < extent_.size; ++i)
      p[i * extent_.inner] = add ? p[i * extent_.inner] + from[i] : from[i];
  }

 private:
  std::size_t offset(std::size_t line) const {
    return line / extent_.inner * extent_.size * extent_.inner + line % extent_.inner;
  }
  float* buffer() {
    thread_local std::vector<float> buffers[3];
    auto& b = buffers[slot_];
    if (b.size() < extent_.size) b.resize(extent_.size);
    return b.data();
  }
  const Extent& extent_;
  std::size_t slot_;
};

float reduced(const Kernels& kernels, ReduceOp op, const float* x, std::size_t n) {
  switch (op) {
    case ReduceOp::sum:
      return kernels.sum(x, n);
    case ReduceOp::mean:
      return kernels.sum(x, n) / static_cast<float>(n);
    case ReduceOp::log_sum:
      return kernels.log_sum(x, n);
    case ReduceOp::max:
      return kernels.maximum(x, n);
    case ReduceOp::min: {
      float least = x[0];
      for (std::size_t i = 1; i < n; ++i)
        if (x[i] < least || x[i] != x[i]) least = x[i];
      return least;
    }
  }
  return 0;
}

float reduce_derivative(ReduceOp op, float x, float y, std::size_t n) {
  switch (op) {
    case ReduceOp::sum:
      return 1.0f;
    case ReduceOp::mean:
      return 1.0f / static_cast<float>(n);
    case ReduceOp::log_sum:
      return std::exp(x - y);
    case ReduceOp::max:
    case ReduceOp::min:
      return x == y ? 1.0f : 0.0f;
  }
  return 0;
}

void hardmax(const float* x, float* y, std::size_t n) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i)
    if (x[i] > x[best]) best = i;
  std::fill(y, y + n, 0.0f);
  y[best] = 1.0f;
}

}  // namespace

void CpuBackend::reduce(ReduceOp op, const Extent& e, const float* x, float* y) {
  parallel(e.outer * e.inner, 1, e.size, [&](std::size_t begin, std::size_t end) {
    Line in(e, 0);
    for (std::size_t line = begin; line < end; ++line) y[line] = reduced(kernels_, op, in.read(x, line), e.size);
  });
}

void CpuBackend::reduce_gradient(ReduceOp op, const Extent& e, const float* x, const float* y, const float* dy,
                                 float* dx, bool accumulate) {
  parallel(e.outer * e.inner, 1, e.size, [&](std::size_t begin, std::size_t end) {
    for (std::size_t line = begin; line < end; ++line) {
      const std::size_t at = line / e.inner * e.size * e.inner + line % e.inner;
      for (std::size_t i = 0; i < e.size; ++i) {
        float& target = dx[at + i * e.inner];
        const float g = dy[line] * reduce_derivative(op, x[at + i * e.inner], y[line], e.size);
        target = accumulate ? target + g : g;
      }
    }
  });
}

void CpuBackend::softmax(SoftmaxOp op, const Extent& e, const float* x, float* y) {
  parallel(e.outer * e.inner, 1, e.size * 8, [&](std::size_t begin, std::size_t end) {
    if (op == SoftmaxOp::softmax && e.inner == 1)
      return kernels_.softmax(x + begin * e.size, y + begin * e.size, e.size, end - begin, nullptr);
    Line in(e, 0), out(e, 1);
    for (std::size_t line = begin; line < end; ++line) {
      const float* from = in.read(x, line);
      float* to = out.target(y, line);
      switch (op) {
        case SoftmaxOp::softmax:
          kernels_.softmax(from, to, e.size, 1, nullptr);
          break;
        case SoftmaxOp::log_softmax: {
          const float log_sum = kernels_.log_sum(from, e.size);
          for (std::size_t i = 0; i < e.size; ++i) to[i] = from[i] - log_sum;
          break;
        }
        case SoftmaxOp::hardmax:
          hardmax(from, to, e.size);
          break;
      }
      out.store(y, line, false);
    }
  });
}

void CpuBackend::softmax_gradient(SoftmaxOp op, const Extent& e, const float* y, const float* dy, float* dx,
                                  bool accumulate) {
  parallel(e.outer * e.inner, 1, e.size * 4, [&](std::size_t begin, std::size_t end) {
    Line values(e, 0), gradients(e, 1), out(e, 2);
    const bool add = accumulate && e.inner == 1;  // gathered lines are added when they are stored
    for (std::size_t line = begin; line < end; ++line) {
      const float* v = values.read(y, line);
      const float* d = gradients.read(dy, line);
      float* to = out.target(dx, line);
      switch (op) {
        case SoftmaxOp::softmax:
          kernels_.softmax_gradient(v, d, kernels_.dot(v, d, e.size), to, e.size, add);
          break;
        case SoftmaxOp::log_softmax: {
          const float total = kernels_.sum(d, e.size);
          for (std::size_t i = 0; i < e.size; ++i) {
            const float g = d[i] - std::exp(v[i]) * total;
            to[i] = add ? to[i] + g : g;
          }
          break;
        }
        case SoftmaxOp::hardmax:
          for (std::size_t i = 0; i < e.size; ++i) to[i] = add ? to[i] : 0.0f;
          break;
      }
      out.store(dx, line, accumulate);
    }
  });
}

}  // namespace tutti::cpu
