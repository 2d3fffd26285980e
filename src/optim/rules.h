// SPDX-License-Identifier: Apache-2.0
// One update rule each: state in the layout of the parameters and what a run of gradients does to a run of weights.
// What all rules share (clipping, regularisation, noise, waiting for whole parameters) is in optimizer.cpp.
#pragma once

#include <memory>

#include "optim/kernels.h"
#include "optim/optimizer_options.h"

namespace tutti::optim {

// Elements [offset, offset + count) of the flat buffers, inside one parameter.
struct Run {
  std::size_t offset = 0, count = 0;
  bool sparse = false;
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string name() const = 0;
  virtual std::string describe() const = 0;
  virtual void bind(Parameters&) = 0;
  virtual void begin_step(const StepScalars&) = 0;
  virtual void apply(const Run&, float rate) = 0;
  // Rules that divide by a parameter's mean multiplier scale the gradient of every run first, which adds the
  // multipliers to *sum; then comes this in place of apply(), with the number of elements that the sum is of.
  virtual bool averages() const { return false; }
  virtual void scale(const Run& run, double* sum) { (void)run, (void)sum; }
  virtual void apply_by_mean(const Run& run, float rate, const double* sum, std::size_t count) {
    (void)run, (void)rate, (void)sum, (void)count;
  }
  virtual void reset_momentum() {}
  // Of rules that exchange more than gradients: see Optimizer. What apply() finds is `unit()` times a sum of gradients.
  virtual Summed summed() const { return Summed::gradients; }
  virtual bool wants_contributions() const { return false; }
  virtual void contribute(const Run& run, int ranks) { (void)run, (void)ranks; }
  virtual const float* mask() const { return nullptr; }
  virtual double unit() const { return 1; }
  virtual void archive(Archive&) = 0;
};

std::unique_ptr<Rule> make_rule(const OptimizerOptions&, const Kernels&);
std::unique_ptr<Rule> make_sgd_rule(const OptimizerOptions&, const Kernels&);
std::unique_ptr<Rule> make_one_bit_adam_rule(const OptimizerOptions&, const Kernels&);
// The optimizer over a chosen set of kernels, for tests that compare them.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions&, const Kernels&);

// Saves or loads a state buffer parameter by parameter, so that a file does not depend on the order of the layout.
void archive_buffer(Archive&, const char* what, const Parameters&, FloatBuffer&);

}  // namespace tutti::optim
