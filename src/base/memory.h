// SPDX-License-Identifier: Apache-2.0
// memory.h -- large aligned blocks of floats, on huge pages if the system has them. Matrix products access weights with
// strides of kilobytes, and with small pages each row costs an address translation. And the memory that this process
// may still allocate: of the host, of its own limit (ulimit -v), and of the control groups (1 and 2) of a batch system
// or container. Linux overcommits memory and kills a process that uses too much of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// Of std::bad_alloc, which does not tell how much was asked for.
constexpr const char* kOutOfMemory =
    "this process cannot allocate more memory\nfix: allow it more (ulimit -v, the memory limit of the job), start "
    "fewer ranks on a host, or lower minibatchSize";

// Zeroed, so that no page fault happens in a training step. Null if memory is exhausted. Freed by std::free.
float* allocate_floats(std::size_t count);
std::size_t allocated_memory();  // bytes of all such blocks, freed ones included

// For a process that checks a run without starting it. From this call on, large blocks are counted and their pages
// never touched (they read as zeros), and values of networks on the host are only counted. Call before the first block.
void only_plan_memory();
bool memory_is_only_planned();
void count_planned_memory(std::size_t bytes);  // of memory that is not even reserved
std::size_t planned_memory();                  // bytes, since only_plan_memory()

// In bytes, including what can be swapped; nullopt if the system does not tell. `root`: the parent of /proc and /sys,
// for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");
// Text for the error about a failed allocation of `needed` bytes: ", 1.50 GB are left to this process". Empty if more
// than that is left: another process has freed memory meanwhile, and the figure would contradict the error.
std::string available_text(std::uint64_t needed);
std::string bytes_text(double bytes);  // "20.71 GB"

}  // namespace tutti
