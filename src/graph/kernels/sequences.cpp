// SPDX-License-Identifier: Apache-2.0
// Operations on whole sequences. All of them move columns: forward gathers them by a list of indices, and backward adds
// them back. Where, PackedIndex and slices in time make the list and the table of the new axis.
#include <fmt/format.h>

#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

[[noreturn]] void fail(const Instruction& code, const std::string& what) {
  throw Error(fmt::format("{} '{}': {}", code.node.operation, code.node.name, what));
}

void same_sequences(const Instruction& code, const SequenceTable& a, const SequenceTable& b) {
  if (a.sequences() != b.sequences())
    fail(code,
         fmt::format("one side has {} sequences in this minibatch and the other {}", a.sequences(), b.sequences()));
}

// y[c] = x[list[c]], where the list depends on tables and index values.
class Columns : public Kernel {
 public:
  // `source` is the input whose columns move.
  Columns(std::size_t source, Instruction i) : Kernel(std::move(i)), source_(source) {
    std::fill(reads_input.begin(), reads_input.end(), false);
    std::fill(differentiable.begin(), differentiable.end(), false);
    differentiable[source] = true;
    reads_output = false;
  }
  void forward(Run& run) const override {
    auto& list = run.lists[code.out.tensor];
    make_list(run, list);
    run.columns[code.out.axis] = list.size();
    run.backend.gather_columns(list, code.out.elements, in(run, source_), out(run));
  }
  void backward(Run& run) const override {
    float* dx = in_gradient(run, source_);
    if (!adds(run, source_)) run.backend.fill(0, dx, run.count(code.in[source_]));
    run.backend.scatter_columns(run.lists[code.out.tensor], code.out.elements, out_gradient(run), dx);
  }

 protected:
  virtual void make_list(Run& run, std::vector<std::int32_t>& list) const = 0;
  const SequenceTable& table_of(const Run& run, std::size_t k) const { return run.sequences[code.in[k].axis]; }
  std::size_t source_;
};

class TimeReverse : public Columns {
 public:
  explicit TimeReverse(Instruction i) : Columns(0, std::move(i)) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    const SequenceTable& table = table_of(run, 0);
    list.resize(table.columns());
    for (std::size_t t = 0; t < table.steps(); ++t)
      for (std::size_t p = 0; p < table.width(t); ++p)
        list[table.begin(t) + p] = static_cast<std::int32_t>(table.begin(table.length(table.sequence(p)) - 1 - t) + p);
  }
};

// y[c] = x[c + by] in the order of the data, cyclic over the minibatch.
class ShiftSamples : public Columns {
 public:
  explicit ShiftSamples(Instruction i)
      : Columns(0, std::move(i)), by_(static_cast<std::size_t>(number(code.node, "by", 0))) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    const SequenceTable& table = table_of(run, 0);
    const auto source = table.source();
    auto& column_of = run.numbers;  // by place in the data
    column_of.resize(table.columns());
    for (std::size_t c = 0; c < source.size(); ++c)
      column_of[static_cast<std::size_t>(source[c])] = static_cast<std::int32_t>(c);
    list.resize(table.columns());
    for (std::size_t c = 0; c < list.size(); ++c)
      list[c] = column_of[(static_cast<std::size_t>(source[c]) + by_) % list.size()];
  }
  std::size_t by_;
};

// Columns of a table in terms of another one with the same sequences: step t of sequence s comes from step f(s, t).
template <class F>
void list_by_step(const SequenceTable& result, const SequenceTable& source, std::vector<std::int32_t>& list, F f) {
  list.resize(result.columns());
  for (std::size_t t = 0; t < result.steps(); ++t)
    for (std::size_t p = 0; p < result.width(t); ++p) {
      const std::size_t s = result.sequence(p);
      list[result.begin(t) + p] = static_cast<std::int32_t>(source.column(s, f(s, t)));
    }
}

// Slice with axis = -1. Steps outside a sequence are dropped.
class SliceTime : public Columns {
 public:
  explicit SliceTime(Instruction i)
      : Columns(0, std::move(i)),
        begin_(static_cast<std::int64_t>(number(code.node, "begin", 0))),
        end_(static_cast<std::int64_t>(number(code.node, "end", 0))) {}

 private:
  std::int64_t first(std::int64_t length) const {
    return std::clamp<std::int64_t>(begin_ < 0 ? begin_ + length : begin_, 0, length);
  }
  std::int64_t last(std::int64_t length) const {
    return std::clamp<std::int64_t>(end_ <= 0 ? end_ + length : end_, first(length), length);
  }
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    const SequenceTable& whole = table_of(run, 0);
    auto& lengths = run.lengths;
    lengths.resize(whole.sequences());
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const auto n = static_cast<std::int64_t>(whole.length(s));
      lengths[s] = last(n) - first(n);
    }
    SequenceTable& part = run.sequences[code.out.axis];
    part.assign_lengths(lengths);
    list_by_step(part, whole, list, [&](std::size_t s, std::size_t t) {
      return static_cast<std::size_t>(first(static_cast<std::int64_t>(whole.length(s)))) + t;
    });
  }
  std::int64_t begin_, end_;
};

class Reconcile : public Columns {
 public:
  explicit Reconcile(Instruction i) : Columns(0, std::move(i)) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    const SequenceTable &data = table_of(run, 0), &wanted = table_of(run, 1);
    same_sequences(code, data, wanted);
    for (std::size_t s = 0; s < data.sequences(); ++s)
      if (data.length(s) != wanted.length(s))
        fail(code,
             fmt::format("sequence {} of the minibatch has {} steps in the data and {} in the layout it is to have; "
                         "the axes need equal structure",
                         s, data.length(s), wanted.length(s)));
    list_by_step(wanted, data, list, [](std::size_t, std::size_t t) { return t; });
  }
};

class Broadcast : public Columns {
 public:
  explicit Broadcast(Instruction i) : Columns(1, std::move(i)) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    const SequenceTable &layout = table_of(run, 0), &data = table_of(run, 1);
    same_sequences(code, layout, data);
    for (std::size_t s = 0; s < data.sequences(); ++s)
      if (data.length(s) != 1)
        fail(code, fmt::format("sequence {} of the minibatch has {} steps where one is repeated", s, data.length(s)));
    list_by_step(layout, data, list, [](std::size_t, std::size_t) { return std::size_t{0}; });
  }
};

// The columns that an operand of indices refers to.
void read_numbers(Run& run, const Instruction& code, std::size_t k, std::size_t limit,
                  std::vector<std::int32_t>& list) {
  const std::size_t count = run.rows(code.in[k]);
  run.host.resize(count);
  run.backend.download(run.value(code.in[k]), run.host.data(), count);
  list.resize(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (!(run.host[c] >= 0 && run.host[c] < static_cast<float>(limit)))
      fail(code, fmt::format("index {} is not one of {} columns; the index comes from PackedIndex of the same layout",
                             run.host[c], limit));
    list[c] = static_cast<std::int32_t>(run.host[c]);
  }
}

class GatherPacked : public Columns {
 public:
  explicit GatherPacked(Instruction i) : Columns(1, std::move(i)) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    read_numbers(run, code, 0, run.rows(code.in[1]), list);
  }
};

class ScatterPacked : public Columns {
 public:
  explicit ScatterPacked(Instruction i) : Columns(2, std::move(i)) {}

 private:
  void make_list(Run& run, std::vector<std::int32_t>& list) const override {
    auto& columns = run.numbers;
    read_numbers(run, code, 1, run.columns[code.in[0].axis], columns);
    list.assign(run.columns[code.in[0].axis], -1);
    if (columns.size() != run.rows(code.in[2]))
      fail(code, fmt::format("{} indices for {} columns of data", columns.size(), run.rows(code.in[2])));
    for (std::size_t c = 0; c < columns.size(); ++c)
      list[static_cast<std::size_t>(columns[c])] = static_cast<std::int32_t>(c);
  }
};

// Operations whose results are step numbers: no gradient.
class Numbers : public Kernel {
 public:
  explicit Numbers(Instruction i) : Kernel(std::move(i)) {
    std::fill(reads_input.begin(), reads_input.end(), false);
    std::fill(differentiable.begin(), differentiable.end(), false);
    reads_output = false;
  }
};

class ZeroSequence : public Numbers {
 public:
  using Numbers::Numbers;
  void forward(Run& run) const override { run.backend.fill(0, out(run), run.count(code.out)); }
};

class Where : public Numbers {
 public:
  using Numbers::Numbers;
  void forward(Run& run) const override {
    const SequenceTable& all = run.sequences[code.in[0].axis];
    run.host.resize(all.columns());
    run.backend.download(in(run, 0), run.host.data(), run.host.size());
    const auto holds = [&](std::size_t s, std::size_t t) { return run.host[all.column(s, t)] != 0; };
    run.lengths.assign(all.sequences(), 0);
    for (std::size_t s = 0; s < all.sequences(); ++s)
      for (std::size_t t = 0; t < all.length(s); ++t) run.lengths[s] += holds(s, t);
    SequenceTable& chosen = run.sequences[code.out.axis];
    chosen.assign_lengths(run.lengths);
    run.columns[code.out.axis] = chosen.columns();
    run.host_result.resize(chosen.columns());
    for (std::size_t s = 0; s < all.sequences(); ++s)
      for (std::size_t t = 0, n = 0; t < all.length(s); ++t)
        if (holds(s, t)) run.host_result[chosen.column(s, n++)] = static_cast<float>(t);
    run.backend.upload(run.host_result.data(), out(run), run.host_result.size());
  }
};

class PackedIndex : public Numbers {
 public:
  using Numbers::Numbers;
  void forward(Run& run) const override {
    const SequenceTable &layout = run.sequences[code.in[0].axis], &chosen = run.sequences[code.in[1].axis];
    same_sequences(code, layout, chosen);
    run.host.resize(chosen.columns());
    run.backend.download(in(run, 1), run.host.data(), run.host.size());
    for (std::size_t s = 0; s < chosen.sequences(); ++s)
      for (std::size_t n = 0; n < chosen.length(s); ++n) {
        float& number = run.host[chosen.column(s, n)];
        if (!(number >= 0 && number < static_cast<float>(layout.length(s))))
          fail(code, fmt::format("step {} of a sequence with {} steps", number, layout.length(s)));
        number = static_cast<float>(layout.column(s, static_cast<std::size_t>(number)));
      }
    run.backend.upload(run.host.data(), out(run), run.host.size());
  }
};

}  // namespace

std::unique_ptr<Kernel> make_time_reverse(Instruction i) { return std::make_unique<TimeReverse>(std::move(i)); }
std::unique_ptr<Kernel> make_shift_samples(Instruction i) { return std::make_unique<ShiftSamples>(std::move(i)); }
std::unique_ptr<Kernel> make_slice_time(Instruction i) { return std::make_unique<SliceTime>(std::move(i)); }
std::unique_ptr<Kernel> make_reconcile(Instruction i) { return std::make_unique<Reconcile>(std::move(i)); }
std::unique_ptr<Kernel> make_broadcast(Instruction i) { return std::make_unique<Broadcast>(std::move(i)); }
std::unique_ptr<Kernel> make_gather(Instruction i) { return std::make_unique<GatherPacked>(std::move(i)); }
std::unique_ptr<Kernel> make_scatter(Instruction i) { return std::make_unique<ScatterPacked>(std::move(i)); }
std::unique_ptr<Kernel> make_zero_sequence(Instruction i) { return std::make_unique<ZeroSequence>(std::move(i)); }
std::unique_ptr<Kernel> make_where(Instruction i) { return std::make_unique<Where>(std::move(i)); }
std::unique_ptr<Kernel> make_packed_index(Instruction i) { return std::make_unique<PackedIndex>(std::move(i)); }

}  // namespace tutti::graph
