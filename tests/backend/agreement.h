// SPDX-License-Identifier: Apache-2.0
// agreement.h -- operations on a GPU against the CPU: the same bits for what works element by element, a stated bound
// for sums whose order differs. Runs on a GPU when there is one, else it says so; and always over the emulator of the
// CUDA libraries.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "../support/on_gpu.h"
#include "tutti/error.h"

namespace tutti {

using Floats = std::vector<float>;

inline Floats random(std::size_t n, unsigned seed, float low = -2, float high = 2) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(low, high);
  Floats v(n);
  for (auto& x : v) x = draw(engine);
  return v;
}

// Operands of an operation in the memory of a backend.
class Operands {
 public:
  explicit Operands(Backend& b) : backend(b) {}
  ~Operands() {
    for (float* p : workspaces_) backend.release(p);
  }
  Operands(const Operands&) = delete;
  float* put(const Floats& values) {
    float* p = backend.allocate(values.size());
    workspaces_.push_back(p);
    backend.upload(values.data(), p, values.size());
    return p;
  }
  template <class T>
  const T* put_numbers(const T& numbers) {
    Floats bytes(sizeof numbers / sizeof(float));
    std::memcpy(bytes.data(), &numbers, sizeof numbers);
    return reinterpret_cast<const T*>(put(bytes));
  }
  template <class T>
  const T* put_all(const std::vector<T>& numbers) {
    Floats bytes(numbers.size() * sizeof(T) / sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), numbers.size() * sizeof(T));
    return reinterpret_cast<const T*>(put(bytes));
  }
  void take(const float* p, std::size_t n) {
    const std::size_t at = results.size();
    results.resize(at + n);
    backend.download(p, results.data() + at, n);
  }
  Backend& backend;
  Floats results;

 private:
  std::vector<float*> workspaces_;
};

class Agreement : public OnGpu {
 protected:
  using Work = std::function<void(Operands&)>;
  static Floats run(Backend& backend, const Work& work) {
    Operands operands(backend);
    work(operands);
    return operands.results;
  }
  // Differences of up to `bound`, absolute for small results and relative for large ones; 0 asks for the same bits.
  void compare(double bound, const Work& work) {
    const Floats expected = run(*cpu, work), got = run(*gpu, work);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float a = expected[i], b = got[i];
      if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b)) continue;
      ASSERT_TRUE(bound > 0 && std::abs(static_cast<double>(a) - b) <= bound * (1 + std::abs(static_cast<double>(a))))
          << "result " << i << " is " << b << " instead of " << a;
    }
    // And again: every run gives the same bits.
    const Floats again = run(*gpu, work);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(again[i]), std::bit_cast<std::uint32_t>(got[i])) << i;
  }
  std::unique_ptr<Backend> cpu = make_backend("cpu");
};

}  // namespace tutti
