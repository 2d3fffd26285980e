// SPDX-License-Identifier: Apache-2.0
// fuzz.h -- what all fuzz targets share. A target is a function of the bytes of a file; any exception but Error and
// ConfigError, any report of a sanitizer, any leak and any hang is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tutti::fuzz {

// A folder in memory, of this process, removed at its end.
const std::string& folder();
// Writes a file there, and returns its path.
std::string write(const std::string& name, std::string_view bytes);

// Runs it; Error and ConfigError are what bad input may lead to.
void expect_no_crash(const std::function<void()>&);

inline std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Makes the reader of this block and reads an epoch of at most some minibatches. What it delivers must be consistent.
void read_all(const std::string& block);

}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
