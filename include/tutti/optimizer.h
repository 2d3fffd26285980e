// SPDX-License-Identifier: Apache-2.0
// optimizer.h -- applies gradients to weights, chunk by chunk, so that an update can run while the chunk is still in
// cache. Optimizers that need a whole parameter at once (norm clipping, averaged multipliers) wait for all its chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

struct StepScalars {
  double learning_rate = 0;  // per sample, a single-precision value as in CNTK
  double momentum_per_sample = 0;
  std::int64_t columns = 0;  // N
};

// The operand that ranks sum in a step.
enum class Summed {
  gradients,
  gradients_in_full,  // gradients in 32 bits, whatever the exchange is set to
  contributions,      // the results of Optimizer::contribute()
  nothing             // nothing: the step changes neither weights nor state
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void bind(Parameters&) = 0;               // allocates state in the layout of the parameters
  virtual void begin_step(const StepScalars&) = 0;  // before the first update of a step
  virtual void update(std::size_t chunk) = 0;  // gradients of the chunk are reduced; may use them as scratch memory
  // The same for several chunks, with fewer calls if the weights are on a device.
  virtual void update_all(std::span<const std::size_t> chunks) {
    for (const std::size_t chunk : chunks) update(chunk);
  }
  virtual void reset_momentum() = 0;
  // The operand to sum in the next step, equal on all ranks.
  virtual Summed summed() const { return Summed::gradients; }
  // Whether summed() ever returns `contributions`.
  virtual bool wants_contributions() const { return false; }
  // Turns this rank's gradient of a chunk into its part of a sum over `ranks` ranks, after begin_step(). update() then
  // finds the sum in place of the gradient.
  virtual void contribute(std::size_t chunk, int ranks) { (void)chunk, (void)ranks; }
  // In the layout of the parameters: where it is 0, every contribution is 0 and the sum is not used. May be null.
  virtual const float* mask() const { return nullptr; }
  virtual void archive(Archive&) = 0;
  // Whether a parameter may be split and each part updated by its own optimizer, with the same result.
  virtual bool works_on_parts() const { return true; }
  // Whether each parameter of a model may be updated by its own optimizer, with the same result.
  virtual bool works_on_parameters() const { return true; }
  virtual std::string describe() const = 0;
};

}  // namespace tutti
