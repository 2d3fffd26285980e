// SPDX-License-Identifier: Apache-2.0
// available_memory.h -- how much memory this process may still take: of the machine, and of the control groups (1 and
// 2) that a batch system or a container has put it into. The kernel lends more than there is and ends, without a word,
// who uses it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// In bytes, what can be moved to swap included; nothing where the system does not say. `root`: where /proc and /sys
// are, for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");
// For an error about bytes that are not to be had: ", 123 are left to this process", or nothing.
std::string available_text();

}  // namespace tutti
