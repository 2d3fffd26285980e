// SPDX-License-Identifier: Apache-2.0
// available_memory.h -- how much memory this process may still take: of the machine, of its own limit (ulimit -v), and
// of the control groups (1 and 2) that a batch system or a container has put it into. Linux overcommits memory
// and kills the process that uses too much of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// In bytes, what can be moved to swap included; nothing where the system does not say. `root`: where /proc and /sys
// are, for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");
// Text for an error about a failed allocation of `needed` bytes: ", 1.50 GB are left to this process". Empty where more
// than that is left: another process has given memory back meanwhile, and the figure would contradict the error.
std::string available_text(std::uint64_t needed);
std::string bytes_text(double bytes);  // "20.71 GB"

}  // namespace tutti
