// SPDX-License-Identifier: Apache-2.0
// kernel.h -- one executable operation and what it sees while it runs. A new node is a Kernel (kernels/*.cpp) with a
// line in kernels/table.cpp, a shape rule in shapes.cpp and a line in operations.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/carried_state.h"
#include "graph/sequences.h"
#include "tutti/backend.h"
#include "tutti/graph.h"
#include "tutti/parameters.h"

namespace tutti::graph {

// A value that exists while the network runs. Views (Reshape, Pass) share the tensor of what they look at.
struct Tensor {
  enum class Kind { input, parameter, statistic, computed };
  std::string name;
  Kind kind = Kind::computed;
  std::size_t node = 0;  // index in the graph; for computed tensors that of the node they belong to
  std::size_t elements = 1;
  bool per_sample = false;
  std::size_t axis = 0;  // dynamic axis
  bool sparse = false;   // declared sparse input
  bool trained = false;
};

// One use of a tensor under a shape.
struct Operand {
  std::size_t tensor = 0;
  Shape shape;
  std::size_t elements = 1;
  bool per_sample = false;
  std::size_t axis = 0;
  Format format = Format::plain;       // blocked: `elements` counts the missing channels of the last block as well
  Element element = Element::float32;  // 16 bits: of blocked images, and between dense layers
  bool lasting = false;                // a parameter: the same value throughout a step

  std::size_t floats() const { return floats_of(element, elements); }  // that a column needs
};

struct Instruction {
  std::string operation;
  Node node;  // name, place and attributes for the kernel; its inputs are not used
  std::vector<Operand> in;
  Operand out;
  bool reads_sparse = false;     // takes input 1 as compressed columns
  std::size_t random_index = 0;  // which of the nodes that draw random numbers
};

// How many sizes of shares are known at a time, by plans and captured graphs: whole minibatches and the last one of an
// epoch, in one part or several; lengths of sequences in some buckets. Those that come again after more others than
// that are strangers.
constexpr std::size_t most_shapes = 16;

// How the gradient of an input is delivered: the first writer sets, later ones add.
enum class Write { none, set, add };

// A chunk of a parameter as the kernels see it: [first, first + count) in floats.
struct ChunkRange {
  std::size_t index = 0, first = 0, count = 0;
};

// The place in the epoch of the sample in each column, over all ranks, for what is drawn at random.
struct SampleNumbers {
  std::vector<std::int64_t> columns;
  DeviceBuffer there;    // the same in memory of the backend
  bool current = false;  // in this part of a step
};

// The state of one forward and backward over a (part of a) share.
struct Run {
  explicit Run(Backend& b) : backend(b) {}

  Backend& backend;
  std::vector<float*> values, gradients, work;   // by tensor, by tensor, by instruction
  std::vector<SparseView> sparse;                // by tensor
  std::shared_ptr<double[]> sums;                // by tensor: criteria in double
  std::vector<std::size_t> columns;              // by dynamic axis
  std::vector<std::vector<ChunkRange>> chunks;   // by tensor; empty for what is not trained
  std::vector<SequenceTable> sequences;          // by dynamic axis, in programs that work in packed order
  std::vector<CarriedState> states;              // by tensor
  std::span<const Fragment> fragments;           // of the part's sequences; empty when they come whole
  std::vector<std::vector<std::int32_t>> lists;  // by tensor: which columns the result was gathered from
  std::vector<std::int64_t> lengths;             // scratch of the kernels, kept so that its memory is
  std::vector<std::int32_t> numbers;
  std::vector<float> host, host_result;
  std::vector<DeviceBuffer> workspaces;  // by tensor: memory that follows the number of sequences
  std::vector<std::byte> told;           // by the kernels, see Kernel::tell
  DeviceBuffer told_there;               // the same in memory of the backend
  bool keeps_states = true;              // off: states of truncated sequences stay as they were
  static constexpr std::size_t all_steps = static_cast<std::size_t>(-1);
  std::size_t step = all_steps;              // inside of a loop: pointers and columns are those of this step
  bool first_part = true, last_part = true;  // of a share that is worked off in parts
  std::uint64_t weights_version = 0;         // Gemm::b_version of what lasts through this step
  GradientSink* sink = nullptr;
  float gradient_scale = 1;  // of the criterion, so that gradients keep clear of the smallest numbers of float16
  double dropout_rate = 0;
  std::uint64_t dropout_seed = 0;
  std::int64_t position = 0;                     // samples of the epoch before the minibatch
  std::vector<std::int64_t> sequence_positions;  // and before each sequence of the part; where columns are packed
  bool packed = false;                           // columns lie as `sequences` says
  std::size_t planned_columns = 0;
  std::vector<SampleNumbers> samples;  // by dynamic axis, then one for what has none
  std::size_t skipped = 0;             // columns before the first, in a loop
  std::optional<double> normalization_time_constant, blend_time_constant;  // instead of the nodes' own
  const std::function<void(std::span<double>)>* sum_over_ranks =
      nullptr;  // NetworkMode's, while a minibatch is trained

  // Computes the sample numbers of `o`; call before the kernel that needs them.
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
  // Before forward, which may be repeated from a captured graph: what changes from step to step though sizes and places
  // do not. `told_bytes` of it are written, and lie in memory of the backend, where told() points, until the next step.
  virtual void tell(Run&, std::byte*) const {}
  // Asked of what goes step by step: whether the calls follow from the numbers of sequences that go on, step by step.
  virtual bool repeats(const Run&) const { return true; }
  // Makes what depends on the number of columns before the first step.
  virtual void plan(Backend&, std::size_t columns) const {}
  // Finds the kernels that it works hand in hand with, when it is known what each of them writes.
  virtual void connect(std::span<const std::unique_ptr<Kernel>>) {}
  // After the last step of the loop that the kernel is a member of; forward over all columns does the same itself.
  virtual void end_of_steps(Run&) const {}

  const Instruction code;
  std::vector<Write> write;  // set by the program

  // What the planner must know; constructors change what differs from these defaults.
  std::vector<bool> differentiable;                 // a gradient can flow to this input
  std::vector<bool> reads_input;                    // backward looks at the value of this input
  bool reads_output = true;                         // backward looks at the result
  int in_place = -1;                                // the result may take the memory of this input
  int in_place_gradient = -1;                       // the gradient of this input may take the memory of the result's
  int work_like = -1;                               // needs a workspace as large as this input, kept until backward
  std::size_t work_per_column = 0, work_fixed = 0;  // or one of so many floats
  bool last_input_first = false;                    // order in which backward writes
  bool sums_in_double = false;                      // leaves its result in Run::sums as well
  bool announces = false;  // backward announces the chunks of input 0 itself when `finishes` is set
  bool finishes = false;
  bool synchronized = false;                // adds up over the ranks in both directions, also without columns
  std::size_t told_bytes = 0, told_at = 0;  // how many tell() writes; set by the program: where

  // Whether the gradient of input k is added to what stands there.
  bool adds(const Run& run, std::size_t k) const {
    return write[k] == Write::add || (!run.first_part && !run.chunks[code.in[k].tensor].empty());
  }

 protected:
  const float* in(const Run& run, std::size_t k) const { return run.value(code.in[k]); }
  float* out(const Run& run) const { return run.value(code.out); }
  float* out_gradient(const Run& run) const { return run.gradient(code.out); }
  float* in_gradient(const Run& run, std::size_t k) const { return run.gradient(code.in[k]); }
  const std::byte* told(const Run& run) const {
    return reinterpret_cast<const std::byte*>(run.told_there.data()) + told_at;
  }
};

// Through the table in kernels/table.cpp.
std::unique_ptr<Kernel> make_kernel(Instruction);
bool has_kernel(const std::string& operation);

// Elementwise access of up to three operands and a result, sample axis last.
Layout broadcast_layout(const Run& run, std::span<const Operand> in, const Operand& out);

}  // namespace tutti::graph
