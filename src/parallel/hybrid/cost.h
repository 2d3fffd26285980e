// SPDX-License-Identifier: Apache-2.0
// cost.h -- what the placements of dense layers cost in a step, and the choice among them (docs/methods/hybrid.md has
// the formulas).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/hybrid/options.h"
#include "tutti/communicator.h"

namespace tutti {

struct LinkSpeed {
  double latency = 0;    // seconds per message
  double bandwidth = 0;  // bytes per second that a rank sends while all ranks send
};
// Times messages around the ring of ranks for some milliseconds; the same result on all ranks. Collective.
LinkSpeed measure_link(Communicator&);
// The slowest of all ranks' links, for placements that are equal in all groups. Collective.
LinkSpeed slowest(const LinkSpeed&, Communicator&);

// Measured by src/actions/compute_speed.h.
struct ComputeSpeed {
  // Seconds per operation of a product, two operations for each multiplication.
  double together = 2.5e-11;  // while all ranks compute
  double alone = 2.5e-11;     // on rank 0, while the others wait for it
  // Seconds per weight: the update of weight and momentum, or a codec's passes over the gradient.
  double pass = 2.5e-9;
};
// The slowest of all groups, so that all groups choose alike. Collective.
ComputeSpeed slowest(const ComputeSpeed&, Communicator&);

// A step, as far as it decides.
struct StepOfLayers {
  int ranks = 1;
  double samples = 1;                // of all ranks
  double bits = 32;                  // of a gradient value between ranks
  int state = 1;                     // values of optimizer state per weight
  bool shards_state = false;         // the state of replicated layers is divided among the ranks
  bool shard = true, single = true;  // whether these may be chosen
  ComputeSpeed compute = {};
};

struct LayerCost {
  double bytes = 0;     // that a rank sends; with `single` rank 0
  double received = 0;  // that rank 0 receives while it sends nothing
  double hidden = 0;    // of `bytes`: sent while the gradient of the weights is computed
  double messages = 0;  // rounds of messages, one after the other
  double weights = 0;   // that the rank with the most holds and updates
  double samples = 0;   // that it computes them for
};
// In the order of the layers; conversions behind a layer count for it.
std::vector<LayerCost> layer_costs(std::span<const PlacedLayer>, const StepOfLayers&);
double step_seconds(std::span<const LayerCost>, const StepOfLayers&, const LinkSpeed&, std::span<const PlacedLayer>);

// Replaces the placement of layers that are `chosen` by the cheapest.
void choose_placements(std::vector<PlacedLayer>&, const StepOfLayers&, const LinkSpeed&);

// The table of the log, one line per layer.
std::string placement_table(std::span<const PlacedLayer>, const StepOfLayers&);

}  // namespace tutti
