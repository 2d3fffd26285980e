// SPDX-License-Identifier: Apache-2.0
// The network in a model file: YAML to a graph.
#include "fuzz.h"

#include "train/model_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  fuzz::expect_no_crash([&] { to_text(parse_graph(std::string(fuzz::view(data, size)), "fuzz")); });
  return 0;
}
