// SPDX-License-Identifier: Apache-2.0
// The meaning of randomize in the older readers.
#include "reader/order_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tutti::reader {
namespace {

struct Meaning {
  bool known = false, automatic = false, shuffle = false;
  std::int64_t window = 0;
};

Meaning meaning_of(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "auto") return {true, true};
  if (word == "true" || word == "yes") return {true, false, true};
  if (word == "false" || word == "no" || word == "none") return {true};
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc() || end != word.data() + word.size() || n < 0) return {};
  return {true, false, n > 0, n > 1 ? n : 0};
}

}  // namespace

void RandomizeOptions::describe(config::Fields& f) {
  f("randomize", randomize, "auto = shuffle in training; none; or the number of samples to shuffle among");
  f("randomizationWindow", window, "number of samples to shuffle among; 0 = the whole data set");
  f("randomizationSeed", seed, "seed of the shuffle; 0 = CNTK's order");
  if (!meaning_of(randomize).known)
    f.problem("randomize", fmt::format("randomize cannot be '{}'", randomize), "auto, none, or a number of samples");
  if (window < 0)
    f.problem("randomizationWindow", "randomizationWindow is a number of samples", "0 means the whole data set");
}

Randomization RandomizeOptions::randomization(bool training) const {
  const Meaning m = meaning_of(randomize);
  return {m.automatic ? training : m.shuffle, m.window > 0 ? m.window : window, static_cast<std::uint64_t>(seed)};
}

}  // namespace tutti::reader
