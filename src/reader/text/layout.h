// SPDX-License-Identifier: Apache-2.0
// layout.h -- which streams of a text file are wanted, and under which names they stand in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::reader {

struct TextStream {
  std::string name;   // of the network's input
  std::string alias;  // in the file
  std::size_t dim = 0;
  bool sparse = false;
};

struct TextLayout {
  std::vector<TextStream> streams;
  bool ids = true;  // lines with one sequence id belong together; else every line is a sequence

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  // `guess` is looked at first: most files repeat the same streams in the same order.
  std::size_t find(std::string_view alias, std::size_t guess) const {
    if (guess < streams.size() && streams[guess].alias == alias) return guess;
    for (std::size_t s = 0; s < streams.size(); ++s)
      if (streams[s].alias == alias) return s;
    return none;
  }
};

}  // namespace tutti::reader
