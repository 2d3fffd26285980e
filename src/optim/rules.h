// SPDX-License-Identifier: Apache-2.0
// One update rule each: state in the layout of the parameters and what a run of gradients does to a run of weights.
// What all rules share (clipping, regularisation, noise, waiting for whole parameters) is in optimizer.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optim/kernels.h"
#include "optim/optimizer_options.h"

namespace tutti::optim {

// Elements [offset, offset + count) of the flat buffers, inside one parameter.
struct Run {
  std::size_t offset = 0, count = 0;
  bool sparse = false;
  double decay = 1;  // factor on the weight decay: the parameter's regularization_multiplier
};

// Sums over a whole parameter. They are where the weights are, and only kernels read them.
struct ParameterSums {
  double* scaled = nullptr;   // what scale() adds up
  double* weights = nullptr;  // squares of the weights before the update
  double count = 0;           // elements
};

class Rule {
 public:
  // `states`: what it keeps for each weight, by the names in checkpoints. reset_momentum() clears "momentum".
  Rule(std::string name, std::string description, const Kernels& k, std::vector<const char*> states)
      : k_(k),
        buffers_(states.size()),
        name_(std::move(name)),
        description_(std::move(description)),
        states_(std::move(states)) {}
  virtual ~Rule() = default;
  const std::string& name() const { return name_; }
  const std::string& describe() const { return description_; }
  std::size_t states() const { return buffers_.size(); }
  void bind(Parameters&);
  virtual void begin_step(const StepScalars&) {}
  virtual void apply(const Run&, float rate) = 0;
  // Rules that need sums over whole parameters: scale() prepares the gradient of every run and adds to *sum; then
  // descend() updates the weights by the sums, in place of apply().
  enum class Sums { none, scaled, scaled_and_weights };
  virtual Sums sums() const { return Sums::none; }
  virtual bool needs_sums(const Slice&) const { return sums() != Sums::none; }
  virtual void scale(const Run& run, double* sum) { (void)run, (void)sum; }
  virtual void descend(const Run& run, float rate, const ParameterSums& s) { (void)run, (void)rate, (void)s; }
  void reset_momentum();
  // Of rules that exchange more than gradients: see Optimizer. What apply() finds is `unit()` times a sum of gradients.
  virtual Summed summed() const { return Summed::gradients; }
  virtual bool wants_contributions() const { return false; }
  virtual void contribute(const Run& run, int ranks) { (void)run, (void)ranks; }
  virtual const float* mask() const { return nullptr; }
  virtual double unit() const { return 1; }
  // Saves or loads the states, parameter by parameter, so that a file does not depend on the order of the layout.
  virtual void archive(Archive&);

 protected:
  float* weights(const Run& r) const { return p_->weights.data() + r.offset; }
  float* gradients(const Run& r) const { return p_->gradients.data() + r.offset; }
  float* state(std::size_t i, const Run& r) { return buffers_[i].data() + r.offset; }

  const Kernels& k_;
  Parameters* p_ = nullptr;
  std::vector<FloatBuffer> buffers_;  // by state

 private:
  const std::string name_, description_;
  const std::vector<const char*> states_;
};

inline float as_float(double x) { return static_cast<float>(x); }

std::unique_ptr<Rule> make_adam(const OptimizerOptions&, const Kernels&);  // adam.cpp: all kinds of Adam
std::unique_ptr<Rule> make_lars(const OptimizerOptions&, const Kernels&);  // lars.cpp
std::unique_ptr<Rule> make_rule(const OptimizerOptions&, const Kernels&);
// The optimizer over a chosen set of kernels, for tests that compare them.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions&, const Kernels&);

}  // namespace tutti::optim
