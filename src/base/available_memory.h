// SPDX-License-Identifier: Apache-2.0
// available_memory.h -- the memory that this process may still allocate: of the host, of its own limit (ulimit -v), and
// of the control groups (1 and 2) of a batch system or container. Linux overcommits memory and kills a process that
// uses too much of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// In bytes, including what can be swapped; nullopt if the system does not tell. `root`: the parent of /proc and /sys,
// for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");
// Text for the error about a failed allocation of `needed` bytes: ", 1.50 GB are left to this process". Empty if more
// than that is left: another process has freed memory meanwhile, and the figure would contradict the error.
std::string available_text(std::uint64_t needed);
std::string bytes_text(double bytes);  // "20.71 GB"

}  // namespace tutti
