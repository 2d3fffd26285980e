// SPDX-License-Identifier: Apache-2.0
// optimizer.h -- how gradients change weights. Works piece by piece, so that an update can run while a piece is still in
// the cache; optimizers that need a whole parameter at once (norm clipping, averaged multipliers) wait for it inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

struct StepScalars {
  double learning_rate = 0;        // per sample, single precision value (semantics 8.2)
  double momentum_per_sample = 0;
  std::int64_t columns = 0;        // N
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void bind(Parameters&) = 0;                  // allocates state in the layout of the parameters
  virtual void begin_step(const StepScalars&) = 0;     // before the first update of a step
  virtual void update(std::size_t piece) = 0;          // gradients of the piece are global; may use them as scratch
  virtual void reset_momentum() = 0;
  virtual void archive(Archive&) = 0;
  // Whether parts of a parameter, each updated by an optimizer of its own, come out as the whole would.
  virtual bool works_on_parts() const { return true; }
  virtual std::string describe() const = 0;
};

}  // namespace tutti
