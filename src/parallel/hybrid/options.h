// SPDX-License-Identifier: Apache-2.0
// options.h -- the ModelParallel=[...] block of SGD: on which ranks the dense layers lie (docs/methods/hybrid.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/config.h"
#include "tutti/network.h"

namespace tutti {

struct ModelParallelOptions {
  std::optional<Placement> dense = Placement::shard;  // of layers that are not listed; none = auto
  std::vector<config::Fields::Pair> layers;
  void describe(config::Fields&);
  bool chooses() const;  // whether any layer is "auto"
};

// What a layer's placement costs in a step, as the table at start prints it.
struct PlacedLayer {
  DenseLayer layer;
  Placement placement = Placement::replicate;
  bool chosen = false;  // by `auto`
};

// Resolves the names of the block; a wrong one, or a shard wider than its layer, is added to `problems`. Layers that
// are "auto" are still `replicate` and `chosen`.
std::vector<PlacedLayer> place_dense_layers(const ModelParallelOptions&, const std::vector<DenseLayer>&, int ranks,
                                            Problems& problems);

}  // namespace tutti
