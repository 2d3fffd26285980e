// SPDX-License-Identifier: Apache-2.0
// source_support.h -- all that a source holds as one share, and the words of its errors.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "reader/share.h"

namespace tutti::reader {

template <class T>
std::vector<T> copy(std::span<const T> s) {
  return {s.begin(), s.end()};
}

// All sequences of a source in file order, as one share.
template <class Source>
struct EverythingOf {
  template <class Options>
  explicit EverythingOf(const Options& o) : source(o), share(source.streams()) {
    std::vector<std::uint32_t> all(source.index().sequences());
    std::iota(all.begin(), all.end(), 0u);
    source.read(all, share);
    batch = &share.finish();
  }
  Source source;
  Share share;
  Batch* batch;
};

template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

inline void expect_parts(const std::string& error, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(error.find(part), std::string::npos) << part << " is not in:\n" << error;
}

}  // namespace tutti::reader
