// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the element loops of the update rules, compiled for several instruction sets. All sets give the same
// bits: elements are independent, operations are not contracted, and sums run in 16 fixed lanes.
#pragma once

#include <cstddef>
#include <tuple>

#include "base/instruction_set.h"
#include "optim/element_rules.h"

namespace tutti {
struct FloatMemory;
}

namespace tutti::optim {

struct Kernels {
  template <class Rule>
  using Loop = void (*)(const Rule&, std::size_t n);
  // Adds the results of the rule to *sum, which may be null if it changes elements.
  template <class Rule>
  using Sum = void (*)(const Rule&, std::size_t n, double* sum);

  // For the elements [0, n).
  template <class Rule>
  void run(const Rule& rule, std::size_t n) const {
    std::get<Loop<Rule>>(loops)(rule, n);
  }
  template <class Rule>
  void run(const Rule& rule, std::size_t n, double* sum) const {
    std::get<Sum<Rule>>(sums)(rule, n, sum);
  }

  const char* name;
  std::size_t block;  // floats that all options are applied to at a time, so that they stay in the first-level cache
  std::tuple<Loop<Descend>, Loop<DescendByMean>, Loop<Momentum>, Loop<Nesterov>, Loop<LimitNorm>, Loop<Truncate>,
             Loop<AddScaled>, Loop<Shrink>, Loop<Noise>, Loop<FsAdagrad<true>>, Loop<FsAdagrad<false>>, Loop<Adam>,
             Loop<AdamW>, Loop<DescendByTrust>, Loop<Lars>, Loop<MoveTowards>, Loop<Contribute>, Loop<FrozenAdam>, Loop<Textbook>>
      loops;
  // Sums over a whole parameter are in the same kind of memory as the weights; only the kernels read them.
  std::tuple<Sum<Squares>, Sum<Adagrad>, Sum<RmsProp>, Sum<LambDirection>, Sum<Mean>> sums;
  void (*clear)(float* s, std::size_t n);
  void (*clear_sums)(double* sums, std::size_t count);

  // What is asked for in between may be done at the end, the runs of one function together: first squares, then what
  // clips to a norm, what truncates, penalties, what scales, rules, noise, shrinkage. So each of these comes at most
  // once for an element, in this order; what is added to one sum comes in a row. A penalty right before the rule of the
  // same run may be left out of g. Null where there is nothing to be gained.
  void (*begin_together)();
  void (*end_together)();
};

template <InstructionSet>
const Kernels& kernels();
// The widest set this processor runs.
const Kernels& best_kernels();
// For weights in that memory: the device's if they are a device's.
const Kernels& kernels_for(const FloatMemory&);

}  // namespace tutti::optim
