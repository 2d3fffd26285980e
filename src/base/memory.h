// SPDX-License-Identifier: Apache-2.0
// memory.h -- large aligned blocks of floats, on huge pages where the system has them: matrix products walk through
// weights with strides of kilobytes, and with small pages each row costs an address translation.
#pragma once

#include <cstddef>

namespace tutti {

// Zeroed, so that no page fault falls into a training step. Null when memory is exhausted. Freed by std::free.
float* allocate_floats(std::size_t count);

}  // namespace tutti
