// SPDX-License-Identifier: Apache-2.0
#include "actions/compute_speed.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "comm/agreement.h"

namespace tutti::actions {
namespace {

// Products of one size on a device.
class Products {
 public:
  Products(const std::string& device, ComputeType type)
      : backend_(make_backend(device, supports(device, type) ? type : ComputeType::float32)) {
    constexpr std::size_t all = 2 * samples * width + width * width;
    if (on_host())
      host_.assign(all, 0.01F), memory_ = host_.data();
    else
      backend_->fill(0.01F, memory_ = device_.reserve(*backend_, all), all);
    batch(1);
  }
  bool on_host() const { return backend_->is_host(); }
  // Of the fastest of some batches: a batch may have been interrupted.
  double seconds_per_operation() { return std::min({batch(4), batch(4), batch(4)}); }

 private:
  static constexpr std::size_t samples = 128, width = 1024;

  double batch(int times) {
    const Gemm product{.m = samples, .n = width, .k = width, .lda = width, .ldb = width, .ldc = width};
    const float *in = memory_, *weight = in + samples * width;
    float* const out = memory_ + samples * width + width * width;
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) backend_->gemm(product, in, weight, out);
    backend_->synchronize();
    return seconds_since(start) / (2.0 * times * samples * width * width);
  }

  std::unique_ptr<Backend> backend_;
  std::vector<float> host_;
  DeviceBuffer device_;
  float* memory_ = nullptr;
};

}  // namespace

ComputeSpeed measure_compute(const std::string& device, ComputeType type, Communicator& ranks) {
  std::unique_ptr<Products> products;
  try {
    products = std::make_unique<Products>(device, type);
  } catch (const std::exception&) {  // as where a GPU that ranks share is full
  }
  if (!all_agree(ranks, products != nullptr)) return {};
  ComputeSpeed speed;
  speed.together = std::ranges::max(from_all(ranks, products->seconds_per_operation()));
  speed.alone = from_all(ranks, ranks.rank() == 0 ? products->seconds_per_operation() : 0).front();
  // 20 bytes per weight; a GPU of 1 TB/s.
  if (!products->on_host()) speed.pass = 2e-11;
  return speed;
}

}  // namespace tutti::actions
