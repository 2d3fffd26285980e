// SPDX-License-Identifier: Apache-2.0
// Criteria: sums over all samples in double, in a fixed order for any number of threads.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

constexpr float log_of_nothing = -85.1f;  // as in the Log operation
constexpr float least_divisor = 1e-30f;

float safe_log(float x) { return x <= 0 ? log_of_nothing : std::log(x); }
float quotient(float a, float b) {
  return a / (std::fabs(b) < least_divisor ? (b < 0 ? -least_divisor : least_divisor) : b);
}

struct Lines {
  const Extent& e;
  std::size_t count() const { return e.outer * e.inner; }
  std::size_t at(std::size_t line) const { return line / e.inner * e.size * e.inner + line % e.inner; }
};

// Of a line whose elements are `step` apart.
float log_sum(const float* z, std::size_t n, std::size_t step) {
  float high = z[0];
  for (std::size_t i = 1; i < n; ++i) high = std::max(high, z[i * step]);
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(z[i * step] - high);
  return high + std::log(sum);
}

// -sum label * log softmax(z). Taking the logarithm of the softmax would lose small probabilities. log_sums are those
// of the lines, null if elements of a line do not follow each other.
double cross_entropy_with_softmax(const Extent& e, const float* label, const float* z, const float* log_sums) {
  const Lines lines{e};
  double total = 0;
  for (std::size_t line = 0; line < lines.count(); ++line) {
    const std::size_t at = lines.at(line);
    const float of_line = log_sums ? log_sums[line] : log_sum(z + at, e.size, e.inner);
    for (std::size_t i = 0; i < e.size; ++i)
      if (const float l = label[at + i * e.inner]; l != 0)
        total -= static_cast<double>(l) * (static_cast<double>(z[at + i * e.inner]) - of_line);
    if (std::isnan(of_line)) total = of_line;  // must not hide behind labels of zero
  }
  return total;
}

std::size_t argmax(const float* x, std::size_t n, std::size_t step) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i)
    if (x[i * step] > x[best * step]) best = i;
  return best;
}

// Correct if fewer than `top` predictions exceed the one at the label's maximum; of equal ones the first wins.
double classification_error(const Loss& loss, const float* label, const float* z) {
  const Lines lines{loss.extent};
  const std::size_t n = loss.extent.size, step = loss.extent.inner;
  double wrong = 0;
  for (std::size_t line = 0; line < lines.count(); ++line) {
    const float* scores = z + lines.at(line);
    const std::size_t truth = argmax(label + lines.at(line), n, step);
    std::size_t ahead = 0;
    for (std::size_t i = 0; i < n; ++i)
      ahead += scores[i * step] > scores[truth * step] || (scores[i * step] == scores[truth * step] && i < truth);
    wrong += ahead >= loss.top || std::isnan(scores[truth * step]) ? 1 : 0;
  }
  return wrong / static_cast<double>(loss.sample_lines);
}

float weight_of(const Loss& loss, const float* weight, std::size_t i) {
  if (loss.op != LossOp::weighted_logistic) return 1.0f;
  const std::size_t sample = loss.extent.size * loss.extent.inner;
  return loss.weight_size == sample ? weight[i] : weight[i / sample];
}

double total_of(const Loss& loss, std::span<const float* const> in) {
  const std::size_t n = loss.extent.count();
  double total = 0;
  switch (loss.op) {
    case LossOp::cross_entropy_with_softmax:
      return cross_entropy_with_softmax(loss.extent, in[0], in[1], nullptr);
    case LossOp::classification_error:
      return classification_error(loss, in[0], in[1]);
    case LossOp::cross_entropy:
      for (std::size_t i = 0; i < n; ++i) total -= static_cast<double>(in[0][i]) * safe_log(in[1][i]);
      return total;
    case LossOp::square_error:
      for (std::size_t i = 0; i < n; ++i) {
        const double d = static_cast<double>(in[0][i]) - in[1][i];
        total += d * d;
      }
      return total;
    case LossOp::logistic:
    case LossOp::weighted_logistic:
      for (std::size_t i = 0; i < n; ++i) {
        const float y = in[0][i], p = in[1][i];
        total -= static_cast<double>(weight_of(loss, in.size() > 2 ? in[2] : nullptr, i)) *
                 safe_log(2 * y * p + (1 - y) - p);
      }
      return total;
    case LossOp::sum:
      for (std::size_t i = 0; i < n; ++i) total += in[0][i];
      return total;
    case LossOp::sum_abs:
      for (std::size_t i = 0; i < n; ++i) total += std::fabs(in[0][i]);
      return total;
  }
  return total;
}

}  // namespace

void CpuBackend::scale(float factor, float* x, std::size_t count, double* sum) {
  double sizes = 0;
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor, sizes += std::fabs(x[i]);
  if (sum) *sum = sizes;
}

void CpuBackend::loss(const Loss& loss, std::span<const float* const> in, float* work, double* sum, float* y) {
  const Extent& e = loss.extent;
  if (loss.op == LossOp::cross_entropy_with_softmax && e.inner == 1) {
    thread_local std::vector<float> log_sums;
    if (log_sums.size() < e.outer) log_sums.resize(e.outer);
    float* const of_lines = log_sums.data();
    parallel(e.outer, 1, e.size * 8, [&](std::size_t begin, std::size_t end) {
      kernels_.softmax(in[1] + begin * e.size, work + begin * e.size, e.size, end - begin, of_lines + begin);
    });
    *sum = cross_entropy_with_softmax(e, in[0], in[1], of_lines);
  } else {
    if (loss.op == LossOp::cross_entropy_with_softmax) softmax(SoftmaxOp::softmax, e, in[1], work);
    *sum = total_of(loss, in);
  }
  *y = static_cast<float>(*sum);
}

void CpuBackend::loss_gradient(const Loss& loss, std::size_t k, std::span<const float* const> in, const float* work,
                               const float* dy, float* dx, bool accumulate) {
  const Extent& e = loss.extent;
  const std::size_t n = e.count();
  const float scale = *dy;
  const auto put = [&](const auto& gradient) {
    for (std::size_t i = 0; i < n; ++i) dx[i] = accumulate ? dx[i] + gradient(i) : gradient(i);
  };
  switch (loss.op) {
    case LossOp::cross_entropy_with_softmax: {
      const Lines lines{e};
      parallel(lines.count(), 1, e.size * 4, [&](std::size_t begin, std::size_t end) {
        if (k == 1 && e.inner == 1) {
          const std::size_t at = begin * e.size;
          return kernels_.cross_entropy_gradient(work + at, in[0] + at, scale, dx + at, e.size, end - begin,
                                                 accumulate);
        }
        for (std::size_t line = begin; line < end; ++line) {
          const std::size_t at = lines.at(line);
          float mass = 0;
          for (std::size_t i = 0; i < e.size; ++i) mass += in[0][at + i * e.inner];
          for (std::size_t i = 0; i < e.size; ++i) {
            const std::size_t j = at + i * e.inner;
            const float g = k == 1 ? scale * (work[j] * mass - in[0][j]) : -scale * safe_log(work[j]);
            dx[j] = accumulate ? dx[j] + g : g;
          }
        }
      });
      return;
    }
    case LossOp::classification_error:
      return put([](std::size_t) { return 0.0f; });
    case LossOp::cross_entropy:
      if (k == 0) return put([&](std::size_t i) { return -scale * safe_log(in[1][i]); });
      return put([&](std::size_t i) { return -scale * quotient(in[0][i], in[1][i]); });
    case LossOp::square_error: {
      const float sign = k == 0 ? 2 * scale : -2 * scale;
      return put([&](std::size_t i) { return sign * (in[0][i] - in[1][i]); });
    }
    case LossOp::logistic:
    case LossOp::weighted_logistic:
      if (k != 1) return put([](std::size_t) { return 0.0f; });
      return put([&](std::size_t i) {
        const float y = in[0][i], p = in[1][i];
        const float w = weight_of(loss, in.size() > 2 ? in[2] : nullptr, i);
        return -scale * w * quotient(2 * y - 1, 2 * y * p + (1 - y) - p);
      });
    case LossOp::sum:
      return put([&](std::size_t) { return scale; });
    case LossOp::sum_abs:
      return put([&](std::size_t i) { return in[0][i] > 0 ? scale : in[0][i] < 0 ? -scale : 0.0f; });
  }
}

}  // namespace tutti::cpu
