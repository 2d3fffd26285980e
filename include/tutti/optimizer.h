// SPDX-License-Identifier: Apache-2.0
// optimizer.h -- how gradients change weights. Works chunk by chunk, so that an update can run while a chunk is still
// in the cache; optimizers that need a whole parameter at once (norm clipping, averaged multipliers) wait for it
// inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

struct StepScalars {
  double learning_rate = 0;  // per sample, single precision value (semantics 8.2)
  double momentum_per_sample = 0;
  std::int64_t columns = 0;  // N
};

// What the ranks are to sum in a step.
enum class Summed {
  gradients,
  gradients_in_full,  // in 32 bits, whatever the exchange is set to
  contributions,      // what Optimizer::contribute() has made of them
  nothing             // the step changes neither weights nor state
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void bind(Parameters&) = 0;               // allocates state in the layout of the parameters
  virtual void begin_step(const StepScalars&) = 0;  // before the first update of a step
  virtual void update(std::size_t chunk) = 0;       // gradients of the chunk are global; may use them as scratch
  // The same for several, with fewer calls where the weights are a device's.
  virtual void update_all(std::span<const std::size_t> chunks) {
    for (const std::size_t chunk : chunks) update(chunk);
  }
  virtual void reset_momentum() = 0;
  // In the step that comes now; the answer follows from what all ranks have alike.
  virtual Summed summed() const { return Summed::gradients; }
  // Whether it ever asks for contributions.
  virtual bool wants_contributions() const { return false; }
  // Turns this rank's gradient of a chunk into its part of a sum over `ranks` ranks; after begin_step(). update() finds
  // the sum in the place of the gradient.
  virtual void contribute(std::size_t chunk, int ranks) { (void)chunk, (void)ranks; }
  // In the layout of the parameters: where it is 0, so is every contribution, and the sum will not be used. May be
  // null.
  virtual const float* mask() const { return nullptr; }
  virtual void archive(Archive&) = 0;
  // Whether parts of a parameter, each updated by an optimizer of its own, come out as the whole would.
  virtual bool works_on_parts() const { return true; }
  virtual std::string describe() const = 0;
};

}  // namespace tutti
