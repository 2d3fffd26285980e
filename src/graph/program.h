// SPDX-License-Identifier: Apache-2.0
// program.h -- a lowered graph with kernels, gradient flow and memory: the executable of Network.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/lower.h"
#include "graph/memory_plan.h"
#include "graph/segment_replay.h"

namespace tutti::graph {

// Runs a loop: its kernels one step after the other, on the block of columns of the step (loop_run.cpp).
class LoopRun {
 public:
  // [first, last) of the kernels.
  LoopRun(const Loop& loop, const std::vector<std::unique_ptr<Kernel>>& kernels);

  std::size_t first() const { return loop_.first; }
  std::size_t last() const { return loop_.last; }
  std::size_t axis() const { return loop_.axis; }

  void forward(Run&, const std::vector<std::unique_ptr<Kernel>>& kernels) const;
  void backward(Run&, const std::vector<std::unique_ptr<Kernel>>& kernels) const;

  std::vector<std::size_t> active;  // members with a part in backward, last first
  std::vector<Operand> cleared;     // gradients that steps add to and that nothing outside writes first

 private:
  // A tensor with a block per step, and the floats per column of its workspace.
  struct Moving {
    std::size_t tensor, elements, work;
  };
  class Position;

  Loop loop_;
  std::vector<Moving> moving_;
};

class Program {
 public:
  struct Options {
    std::optional<std::size_t> criterion;  // graph node to differentiate; none = forward only
    bool training = false;                 // dropout on
    bool reuse_memory = true;
    bool winograd = true, image_layouts = true, half_values = true;
    const ModelParallel* model_parallel = nullptr;  // null: every layer is replicated
    const Shards* shards = nullptr;                 // that the training program of the network has chosen
    const LabelSmoothing* label_smoothing = nullptr;
    bool results = false;  // the roots are criteria and evaluations, which are summed over the ranks
  };
  Program(const Graph& graph, const std::vector<Value>& values, std::vector<std::size_t> roots, Backend& backend,
          const Options& options);
  ~Program();
  Program(const Program&) = delete;

  // Allocates memory for this many columns; does nothing if there is enough.
  void plan(std::size_t columns);
  std::size_t planned_columns() const { return columns_; }
  std::size_t memory() const { return memory_; }  // floats

  // With a replay, captured segments are replayed. Call its begin() before forward.
  void forward(Run& run, SegmentReplay* replay = nullptr) const;
  // Forward that checks every value: returns the first kernel with a result that is not finite. Always runs to the end,
  // as other ranks may take part.
  std::optional<std::size_t> first_not_finite(Run& run) const;
  const std::string& node_of(std::size_t kernel) const { return kernels_[kernel]->code.node.name; }
  // Announces the chunks of parameters as they become complete, in the last part of a share.
  void backward(Run& run, SegmentReplay* replay = nullptr) const;
  // For a rank without columns: takes part in the sums of synchronized kernels.
  void join_forward(Run& run) const;
  void join_backward(Run& run) const;
  // Announces everything in the order of backward, without computing.
  void announce_all(const Run& run) const;
  // Creates a Run with the sizes and buffers of this program.
  void prepare(Run& run) const;

  // Trained parameters in the order in which their gradients become complete.
  struct Ready {
    std::size_t tensor = 0;
    std::size_t unit = 0;  // chunks consist of whole runs of this many floats; 0 = the parameter cannot be split
    // All its gradients come from sparse inputs, each index of which touches `lines` columns (or rows) in a row.
    bool sparse = false, sparse_by_row = false;
    std::size_t lines = 1;
  };
  const std::vector<Ready>& ready() const { return ready_; }
  // The sparse inputs that a sparse parameter is multiplied with, as tensors.
  std::vector<std::size_t> sparse_inputs(std::size_t parameter) const;
  const Lowered& code() const { return code_; }
  bool divided() const { return !code_.rank_axes.empty(); }  // some layers are computed by several ranks together
  const std::vector<std::size_t>& dense_inputs() const { return dense_inputs_; }  // tensors of inputs read as dense
  bool sums_in_double(std::size_t tensor) const { return double_sums_[tensor]; }
  std::size_t instructions_with_gradient() const { return active_.size(); }
  // Whether the roots are sums over samples, so that parts of a share can be computed one after the other.
  bool additive() const { return additive_; }
  bool sequential() const { return code_.sequential; }  // needs its columns in packed order

 private:
  // Kernels [first, last), or as many of active_, that are replayed together or must be launched one by one.
  struct Segment {
    std::size_t first = 0, last = 0;
    bool repeats = false;
    std::vector<std::size_t> asked;  // kernels that run step by step, so that the calls depend on the sequences
  };
  bool on_given_axes(const Instruction&) const;
  bool repeats(std::size_t kernel) const;
  bool repeats(const Run&, const Segment&) const;
  void find_segments();
  void flow_gradients();
  void find_ready();
  void make_kernels();
  void add_deferred(std::size_t instruction);
  void add_kernel(std::unique_ptr<Kernel> kernel, bool backward_only);
  template <class F>
  void each_flow(const Kernel& kernel, const F& f) const;
  static void announce(const Run& run, std::size_t tensor);
  void flow_through(LoopRun& loop, std::vector<bool>& reached, std::vector<bool>& written);
  void plan_lifetimes();
  std::size_t new_buffer(const Operand& o, std::size_t begin, std::size_t end);
  std::size_t times_own_columns(const Operand& o) const;
  bool runs(const Run& run, const Kernel& kernel) const;
  void no_gradient(Run& run, const Kernel& kernel) const;
  void place_value(std::size_t i, std::vector<std::size_t>& last_use);
  void place_gradients();
  void tell(Run& run, std::size_t first, std::size_t last) const;
  std::size_t forward_one(Run& run, std::size_t i) const;
  void backward_segment(Run& run, const Segment&) const;
  void backward_one(Run& run, const Kernel& kernel) const;
  std::size_t begin_of(std::size_t kernel) const;
  std::size_t end_of(std::size_t kernel) const;
  std::size_t chunk_unit(std::size_t tensor) const;
  static std::optional<Ready> sparse_row_list(const Instruction&);
  std::vector<std::optional<Ready>> find_sparse();

  Backend& backend_;
  Options options_;
  Lowered code_;
  std::set<std::size_t> roots_;  // tensors
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<LoopRun> loops_;        // over kernels_
  std::vector<std::size_t> loop_of_;  // by kernel; none outside loops
  std::vector<bool> backward_only_;   // by kernel: the weight gradient of a product in a loop, over all steps at once
  std::optional<Operand> criterion_;
  std::vector<bool> needs_gradient_;  // by tensor
  std::vector<std::size_t> active_;   // instructions with a part in backward, last first
  std::vector<Segment> forward_segments_, backward_segments_;
  std::vector<std::vector<std::size_t>> completes_;  // by instruction: trained tensors complete after it
  std::vector<Ready> ready_;
  std::vector<std::size_t> dense_inputs_;
  std::vector<bool> double_sums_;  // by tensor
  bool additive_ = false;

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<Buffer> buffers_;
  std::vector<std::size_t> value_buffer_, gradient_buffer_, work_buffer_;  // by tensor; none = in other memory
  std::size_t columns_ = 0, memory_ = 0, told_ = 0;
  bool planned_ = false;
  float* block_ = nullptr;  // null while memory is only planned
};

}  // namespace tutti::graph
