// SPDX-License-Identifier: Apache-2.0
// memory.h -- large aligned blocks of floats, on huge pages if the system has them. Matrix products access weights with
// strides of kilobytes, and with small pages each row costs an address translation.
#pragma once

#include <cstddef>

namespace tutti {

// Zeroed, so that no page fault happens in a training step. Null if memory is exhausted. Freed by std::free.
float* allocate_floats(std::size_t count);

// For a process that checks a run without starting it. From this call on, large blocks are counted and their pages
// never touched (they read as zeros), and values of networks on the host are only counted. Call before the first block.
void only_plan_memory();
bool memory_is_only_planned();
void count_planned_memory(std::size_t bytes);  // of memory that is not even reserved
std::size_t planned_memory();                  // bytes, since only_plan_memory()

}  // namespace tutti
