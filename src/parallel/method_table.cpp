// SPDX-License-Identifier: Apache-2.0
#include "parallel/method_table.h"

namespace tutti {

std::vector<std::pair<std::string, std::size_t>> method_words() {
  std::vector<std::pair<std::string, std::size_t>> words;
  for_each_method([&]<class Options>() { words.emplace_back(Options::name, words.size()); });
  words.emplace_back("ASGD", MethodOptions(ServerOptions()).index());
  return words;
}

MethodOptions default_method(std::size_t row) {
  MethodOptions method;
  for_each_method([&]<class Options>() {
    if (row-- == 0) method = Options();
  });
  return method;
}

}  // namespace tutti
