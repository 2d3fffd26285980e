// SPDX-License-Identifier: Apache-2.0
// The parts of a Network that are saved in a model file.
#include <algorithm>

#include "train/model_file.h"

namespace tutti {

ModelView view_model(Network& network) {
  ModelView m;
  m.graph = &network.graph();
  Parameters& p = network.parameters();
  for (const Slice& s : p.slices) m.values.push_back({s.name, s.shape, p.weights.span().subspan(s.offset, s.size())});
  for (const Network::State& s : network.state()) m.values.push_back({s.name, s.shape, s.values});
  std::sort(m.values.begin(), m.values.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return m;
}

}  // namespace tutti
