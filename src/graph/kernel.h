// SPDX-License-Identifier: Apache-2.0
// kernel.h -- an executable operation and the data it sees while it runs. A new operation is a Kernel (kernels/*.cpp),
// a line in the list at its end, and a row with its shape rule in shapes.cpp.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/sequences.h"
#include "tutti/backend.h"
#include "tutti/exchange_stats.h"
#include "tutti/graph.h"
#include "tutti/parameters.h"
#include "tutti/placement.h"

namespace tutti::graph {

// A value of the running network. Views (Reshape, Pass) share the tensor of their input.
struct Tensor {
  enum class Kind { input, parameter, statistic, computed };
  std::string name;
  Kind kind = Kind::computed;
  std::size_t node = 0;  // index in the graph; computed tensors have that of their node
  std::size_t elements = 1;
  bool per_sample = false;
  std::size_t axis = 0;  // dynamic axis
  bool sparse = false;   // declared sparse input
  bool trained = false;
  std::optional<std::size_t> gathered_from;  // input: the columns of all ranks, of this tensor
  std::optional<ParameterShard> shard;       // parameter: this rank holds only this part
};

// One use of a tensor under a shape.
struct Operand {
  std::size_t tensor = 0;
  Shape shape{};
  std::size_t elements = 1;
  bool per_sample = false;
  std::size_t axis = 0;
  Format format = Format::plain;       // blocked: `elements` includes the missing channels of the last block
  Element element = Element::float32;  // 16 bits only in blocked images and between dense layers
  bool lasting = false;                // a parameter: constant during a step

  std::size_t floats() const { return floats_of(element, elements); }  // per column
};

struct Instruction {
  std::string operation;
  Node node;  // name, place and attributes for the kernel; inputs are not used
  std::vector<Operand> in;
  Operand out;
  bool reads_sparse = false;     // reads input 1 as compressed columns
  std::size_t random_index = 0;  // index among the nodes that draw random numbers
};

// The number of share sizes that plans and captured graphs keep: whole minibatches, the last minibatch of an epoch, in
// one or several parts, and sequence lengths in buckets. A size that returns after more than this many others counts as
// new.
constexpr std::size_t most_shapes = 16;

// How a gradient is delivered: the first writer sets it, later ones add.
enum class Write { none, set, add };

// A chunk of a parameter as kernels see it: [first, first + count) in floats.
struct ChunkRange {
  std::size_t index = 0, first = 0, count = 0;
};

// For random draws: the position in the epoch, over all ranks, of the sample in each column.
struct SampleNumbers {
  std::vector<std::int64_t> columns;
  DeviceBuffer there;    // the same in device memory
  bool current = false;  // valid in this part of the step
};

// The state of one forward and backward pass over a share or a part of it.
struct Run {
  explicit Run(Backend& b) : backend(b) {}

  Backend& backend;
  std::vector<float*> values, gradients, work;   // by tensor, by tensor, by instruction
  std::vector<SparseView> sparse;                // by tensor
  std::shared_ptr<double[]> sums;                // by tensor: criteria in double
  std::vector<std::size_t> columns;              // by dynamic axis
  std::vector<std::vector<ChunkRange>> chunks;   // by tensor; empty for untrained ones
  std::vector<SequenceTable> sequences;          // by dynamic axis, in programs with packed order
  std::vector<CarriedState> states;              // by tensor
  std::span<const Fragment> fragments;           // of the part's sequences; empty for whole sequences
  std::vector<std::vector<std::int32_t>> lists;  // by tensor: the columns that the result was gathered from
  std::vector<std::int64_t> lengths;             // scratch memory of kernels, kept between calls
  std::vector<std::int32_t> numbers;
  std::vector<float> host, host_result;
  std::vector<DeviceBuffer> workspaces;  // by tensor: memory that depends on the number of sequences
  std::vector<std::byte> told;           // written by Kernel::tell
  DeviceBuffer told_there;               // the same in device memory
  bool keeps_states = true;              // false: states of truncated sequences are not updated
  static constexpr std::size_t all_steps = static_cast<std::size_t>(-1);
  std::size_t step = all_steps;              // inside a loop: pointers and columns are those of this step
  bool first_part = true, last_part = true;  // of a share that is computed in parts
  std::uint64_t weights_version = 0;         // Gemm::b_version of everything constant during this step
  GradientSink* sink = nullptr;
  float gradient_scale = 1;  // of the criterion, so that float16 gradients do not underflow
  double dropout_rate = 0;
  std::uint64_t dropout_seed = 0;
  // Factors of terms of parameters alone: the share that this rank has of the minibatch, and of the update.
  float share = 1, share_of_update = 1;
  std::int64_t position = 0;                     // samples of the epoch before the minibatch
  std::vector<std::int64_t> sequence_positions;  // and before each sequence of the part; with packed columns
  bool packed = false;                           // columns are ordered as in `sequences`
  std::size_t planned_columns = 0;
  std::vector<SampleNumbers> samples;  // by dynamic axis, then one for values without an axis
  std::size_t skipped = 0;             // columns before the first, in a loop
  std::optional<double> normalization_time_constant, blend_time_constant;  // override the attributes of nodes
  const std::function<void(std::span<double>)>* sum_over_ranks =
      nullptr;  // NetworkMode's, while a minibatch is trained
  // Sums over the ranks, one of each group, that have the same parts of divided layers; null without groups.
  const std::function<void(std::span<double>)>* sum_over_groups = nullptr;
  // With layers that several ranks compute together: the ranks; by dynamic axis, the first column of each rank among
  // those of all ranks, and their number; what to call after a kernel has made the columns of an axis; and what was
  // exchanged.
  Communicator* ranks = nullptr;
  std::vector<std::vector<std::size_t>> first_of_rank;
  std::function<void(std::size_t axis)> on_axis;
  ExchangeStats exchanged;

  // Computes the sample numbers of `o`. Call it before a kernel that needs them.
  void number_samples(const Operand& o);
  const std::int64_t* sample_numbers(const Operand& o) const {
    return reinterpret_cast<const std::int64_t*>(samples[o.per_sample ? o.axis : columns.size()].there.data()) +
           (o.per_sample ? skipped : 0);
  }
  std::uint64_t version(const Operand& o) const { return o.lasting ? weights_version : 0; }
  std::size_t rows(const Operand& o) const { return o.per_sample ? columns[o.axis] : 1; }
  std::size_t count(const Operand& o) const { return rows(o) * o.elements; }
  float* value(const Operand& o) const { return values[o.tensor]; }
  float* gradient(const Operand& o) const { return gradients[o.tensor]; }

 private:
  void number_packed(std::size_t axis, std::vector<std::int64_t>& numbers) const;
};

class Kernel {
 public:
  explicit Kernel(Instruction i)
      : code(std::move(i)),
        write(code.in.size(), Write::none),
        differentiable(code.in.size(), true),
        reads_input(code.in.size(), true) {}
  virtual ~Kernel() = default;
  virtual void forward(Run&) const = 0;
  // Writes the gradients of the inputs whose `write` is not none.
  virtual void backward(Run&) const {}
  // Called before forward(), which may be replayed from a captured graph: writes what changes from step to step while
  // sizes and addresses do not. Writes `told_bytes` bytes, which told() finds in device memory until the next step.
  virtual void tell(Run&, std::byte*) const {}
  // For kernels that run step by step: whether the device calls depend only on the number of active sequences per step.
  virtual bool repeats(const Run&) const { return true; }
  // Prepares what depends on the number of columns, before the first step.
  virtual void plan(Backend&, std::size_t columns) const {}
  // Finds the kernels it cooperates with, once it is known what each writes.
  virtual void connect(std::span<const std::unique_ptr<Kernel>>) {}
  // Called after the last step of the loop that contains the kernel; forward() over all columns does the same itself.
  virtual void end_of_steps(Run&) const {}

  const Instruction code;
  std::vector<Write> write;  // set by the program

  // Facts for the planner; constructors change what differs from these defaults.
  std::vector<bool> differentiable;                 // a gradient can flow to this input
  std::vector<bool> reads_input;                    // backward reads the value of this input
  bool reads_output = true;                         // backward reads the result
  int in_place = -1;                                // the result may overwrite this input
  int in_place_gradient = -1;                       // the gradient of this input may overwrite that of the result
  int work_like = -1;                               // needs a workspace as large as this input, kept until backward
  std::size_t work_per_column = 0, work_fixed = 0;  // or a workspace of this many floats
  bool last_input_first = false;                    // the order in which backward writes
  bool sums_in_double = false;                      // also writes its result to Run::sums
  bool announces = false;  // backward itself announces the chunks of input 0 if `finishes` is set
  bool finishes = false;
  // Makes the same calls in every step of the same sizes, without host state for the next step. False for operations
  // that upload host lists (sparse inputs) or create the columns of an axis.
  bool replayable = true;
  bool makes_axis = false;                  // the columns of the result are known only after forward()
  bool synchronized = false;                // sums over the ranks in both directions, also without columns
  bool between_groups = false;              // of a divided layer: sums over the groups, see Run::sum_over_groups
  bool crosses_ranks = false;               // exchanges values with other ranks, also without columns
  std::size_t told_bytes = 0, told_at = 0;  // bytes that tell() writes; the program sets the offset

  // What a synchronized kernel sums over; null: only the samples of this rank count.
  const std::function<void(std::span<double>)>* sum_over_ranks(const Run& run) const {
    if (!synchronized || !run.sum_over_ranks) return nullptr;
    return between_groups ? run.sum_over_groups : run.sum_over_ranks;
  }
  // Whether the gradient of input k is added to the existing one.
  bool adds(const Run& run, std::size_t k) const {
    return write[k] == Write::add || (!run.first_part && !run.chunks[code.in[k].tensor].empty());
  }

 protected:
  // Backward needs neither the inputs nor the result.
  void reads_no_values() {
    reads_input.assign(code.in.size(), false);
    reads_output = false;
  }
  const float* in(const Run& run, std::size_t k) const { return run.value(code.in[k]); }
  // All inputs, up to three. Values that backward does not read may be gone by then, but a pointer is there.
  std::array<const float*, 3> operands(const Run& run) const {
    std::array<const float*, 3> values{};
    for (std::size_t k = 0; k < code.in.size(); ++k) values[k] = in(run, k);
    return values;
  }
  float* out(const Run& run) const { return run.value(code.out); }
  float* out_gradient(const Run& run) const { return run.gradient(code.out); }
  float* in_gradient(const Run& run, std::size_t k) const { return run.gradient(code.in[k]); }
  const std::byte* told(const Run& run) const {
    return reinterpret_cast<const std::byte*>(run.told_there.data()) + told_at;
  }
};

// The sample count of batch normalisation beside its running statistics, stored in two floats of the model so that it
// is exact beyond 2^24.
constexpr double count_of_upper_half = 16777216;
inline double samples_seen(const float* count) {
  return static_cast<double>(count[1]) * count_of_upper_half + static_cast<double>(count[0]);
}
inline void set_samples_seen(float* count, double seen) {
  count[1] = static_cast<float>(std::floor(seen / count_of_upper_half));
  count[0] = static_cast<float>(seen - static_cast<double>(count[1]) * count_of_upper_half);
}

// Creates a kernel from the lists in kernels/.
std::unique_ptr<Kernel> make_kernel(Instruction);
bool has_kernel(const std::string& operation);

// Elementwise access to up to three operands and a result, sample axis last.
Layout broadcast_layout(const Run& run, std::span<const Operand> in, const Operand& out);

}  // namespace tutti::graph
