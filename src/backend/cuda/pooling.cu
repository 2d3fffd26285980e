// SPDX-License-Identifier: Apache-2.0
// Pooling. Backward goes cell by cell and asks the windows over it, so that no two threads add to one place.
#include <cassert>

#include "backend/cuda/images.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

// The winner's number among the cells of its window, padding included.
__device__ inline std::size_t number_in_window(const ImageWindow& w, const Place& window, const Place& cell) {
  std::size_t number = 0;
  for (std::size_t axis = ImageWindow::max_rank; axis-- > 0;)
    number = number * w.kernel[axis] + (cell[axis] + w.pad[axis] - window[axis] * w.stride[axis]);
  return number;
}

template <class Number>
__global__ void pool_max(ImageWindow w, std::size_t planes, const float* x, float* y, Number* winners) {
  const std::size_t windows = cells(w.out), count = planes * windows;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const float* image = x + e / windows * cells(w.in);
    const Place window = place_of(e % windows, w.out);
    const Cells under(w, window);
    Place winner = under.begin;
    float best = image[offset(winner, w.in)];
    under.each([&](const Place& at) {
      const float v = image[offset(at, w.in)];
      if (v > best) best = v, winner = at;
    });
    y[e] = best;
    winners[e] = static_cast<Number>(number_in_window(w, window, winner));
  }
}

template <class Number>
__global__ void pool_max_back(ImageWindow w, std::size_t planes, const float* dy, const Number* winners, float* dx,
                              bool add) {
  const std::size_t image = cells(w.in), windows = cells(w.out), count = planes * image;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t first = e / image * windows;
    const Place cell = place_of(e % image, w.in);
    float sum = 0;
    WindowsOver(w, cell).each([&](const Place& window) {
      const std::size_t i = first + offset(window, w.out);
      if (winners[i] == number_in_window(w, window, cell)) sum += dy[i];
    });
    dx[e] = add ? dx[e] + sum : sum;
  }
}

__global__ void pool_average(ImageWindow w, std::size_t planes, const float* x, float* y) {
  const std::size_t windows = cells(w.out), count = planes * windows;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const float* image = x + e / windows * cells(w.in);
    const Cells under(w, place_of(e % windows, w.out));
    float sum = 0;
    under.each([&](const Place& at) { sum += image[offset(at, w.in)]; });
    y[e] = sum / static_cast<float>(under.count());
  }
}

__global__ void pool_average_back(ImageWindow w, std::size_t planes, const float* dy, float* dx, bool add) {
  const std::size_t image = cells(w.in), windows = cells(w.out), count = planes * image;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t first = e / image * windows;
    float sum = 0;
    WindowsOver(w, place_of(e % image, w.in)).each([&](const Place& window) {
      sum += dy[first + offset(window, w.out)] / static_cast<float>(Cells(w, window).count());
    });
    dx[e] = add ? dx[e] + sum : sum;
  }
}

class CudaPooling : public PoolingPlan {
 public:
  CudaPooling(const PoolingShape& s, cudaStream_t stream)
      : window_(s.window),
        planes_(s.columns * s.channels),
        max_(s.op == PoolingOp::max),
        bytes_(cells(s.window.kernel) < 255),
        stream_(stream) {
    assert(s.format == Format::plain);
  }

  void forward(const float* x, float* y, float* work) override {
    const std::size_t count = planes_ * cells(window_.out);
    if (count == 0) return;
    if (!max_)
      start(pool_average, count, x, y);
    else if (bytes_)
      start(pool_max<unsigned char>, count, x, y, reinterpret_cast<unsigned char*>(work));
    else
      start(pool_max<unsigned>, count, x, y, reinterpret_cast<unsigned*>(work));
  }
  void backward(const float* dy, const float* work, float* dx, bool accumulate) override {
    const std::size_t count = planes_ * cells(window_.in);
    if (count == 0) return;
    if (!max_)
      start(pool_average_back, count, dy, dx, accumulate);
    else if (bytes_)
      start(pool_max_back<unsigned char>, count, dy, reinterpret_cast<const unsigned char*>(work), dx, accumulate);
    else
      start(pool_max_back<unsigned>, count, dy, reinterpret_cast<const unsigned*>(work), dx, accumulate);
  }

 private:
  template <class... Wanted, class... Given>
  void start(void (*kernel)(ImageWindow, std::size_t, Wanted...), std::size_t count, const Given&... given) const {
    launch(kernel, dim3(blocks_for(count)), dim3(threads_per_block), stream_, window_, planes_, given...);
  }

  const ImageWindow window_;
  const std::size_t planes_;
  const bool max_, bytes_;
  const cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<PoolingPlan> CudaImages::plan_pooling(const PoolingShape& shape) {
  return std::make_unique<CudaPooling>(shape, stream());
}

}  // namespace tutti::cuda
