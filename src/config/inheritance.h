// SPDX-License-Identifier: Apache-2.0
// inheritance.h -- for blocks to which nothing applies that is written further out.
#pragma once

#include "tutti/config.h"

namespace tutti::config {

// Visitors that look for values at all.
class Inheriting {
 public:
  virtual ~Inheriting() = default;
  virtual void inherit_nothing() = 0;
};

// To be called by describe() before it names its keys: only what stands in the block itself counts.
inline void inherit_nothing(Fields& f) {
  if (auto* visitor = dynamic_cast<Inheriting*>(&f)) visitor->inherit_nothing();
}

}  // namespace tutti::config
