// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/algorithms.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <cctype>
#include <fstream>
#include <sstream>

#include "base/cache_folder.h"

namespace tutti::cuda {
namespace {

// The sizes of a run with whole minibatches: they and a last, smaller one, in training and in evaluation.
constexpr std::ptrdiff_t sizes_with_names = 4;

std::string file_name(std::string device) {
  for (char& c : device)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
  return "algorithms-" + device + ".txt";
}

}  // namespace

Algorithms::Algorithms(const std::string& device) {
  if (const auto f = cache_folder()) path_ = (*f / file_name(device)).string();
  read();
}

// The first line for a shape counts, so processes that measured at the same time read the same choice.
void Algorithms::read() {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::map<std::string, Choice> first;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string shape;
    Choice c;
    if (!(words >> shape >> c.algorithm >> c.math)) continue;
    words >> c.plan;
    first.emplace(shape, c);
  }
  for (const auto& [shape, choice] : first) known_.insert_or_assign(shape, choice);
}

std::string Algorithms::own_name(const std::string& shape, std::size_t size) {
  return fmt::format("{}@{}", shape, size);
}

std::string Algorithms::name_of(const std::string& shape, std::size_t size) const {
  const std::string own = own_name(shape, size);
  if (known_.count(own)) return own;
  std::ptrdiff_t known = 0;
  const auto end = known_.lower_bound(shape + "@:");  // behind all digits
  for (auto at = known_.lower_bound(shape + "@0"); at != end; ++at) ++known;
  return known < sizes_with_names ? own : fmt::format("{}@~{}", shape, std::bit_ceil(size));
}

Algorithms::Choice Algorithms::at(const std::string& shape, const std::function<Choice()>& measure) {
  if (const auto found = known_.find(shape); found != known_.end()) return found->second;
  return keep(shape, measure());
}

Algorithms::Choice Algorithms::keep(const std::string& shape, const Choice& choice) {
  assert(shape.find(' ') == std::string::npos);
  known_[shape] = choice;
  if (path_.empty() || !choice.lasts) return choice;
  const std::string line =
      fmt::format("{} {} {}{}{}\n", shape, choice.algorithm, choice.math, choice.plan.empty() ? "" : " ", choice.plan);
  if (append_to_cache(path_, line)) read();
  return known_[shape];
}

}  // namespace tutti::cuda
