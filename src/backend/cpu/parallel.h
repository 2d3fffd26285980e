// SPDX-License-Identifier: Apache-2.0
// parallel.h -- distributes a range to the OpenMP threads. Parts must be independent, so that the number of threads
// never changes a result.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

namespace tutti::cpu {

// f(begin, end) over [0, count) in multiples of `unit`; each element accesses `work` floats.
template <class F>
void parallel(std::size_t count, std::size_t unit, std::size_t work, const F& f) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  constexpr std::size_t worth_a_thread = 16384;
  if (threads == 1 || count * work < 2 * worth_a_thread || count <= unit) return f(std::size_t{0}, count);
  const std::size_t units = (count + unit - 1) / unit;
#pragma omp parallel
  {
    const auto me = static_cast<std::size_t>(omp_get_thread_num()),
               team = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t begin = std::min(units * me / team * unit, count),
                      end = std::min(units * (me + 1) / team * unit, count);
    if (begin < end) f(begin, end);
  }
}

}  // namespace tutti::cpu
