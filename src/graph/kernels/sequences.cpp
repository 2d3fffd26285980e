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

using List = std::vector<std::int32_t>;

// y[c] = x[list[c]], where `make_list` makes the list from tables and index values, and `source` is the input whose
// columns move.
class Columns : public Kernel {
 public:
  Columns(std::size_t source, void (*make_list)(const Instruction&, Run&, List&), Instruction i)
      : Kernel(std::move(i)), source_(source), make_list_(make_list) {
    reads_no_values();
    differentiable.assign(code.in.size(), false);
    differentiable[source] = true;
    replayable = false;
    makes_axis = code.operation == "SliceTime";
  }
  void forward(Run& run) const override {
    auto& list = run.lists[code.out.tensor];
    make_list_(code, run, list);
    run.columns[code.out.axis] = list.size();
    run.backend.gather_columns(list, code.out.elements, in(run, source_), out(run));
  }
  void backward(Run& run) const override {
    float* dx = in_gradient(run, source_);
    if (!adds(run, source_)) run.backend.fill(0, dx, run.count(code.in[source_]));
    run.backend.scatter_columns(run.lists[code.out.tensor], code.out.elements, out_gradient(run), dx);
  }

 private:
  std::size_t source_;
  void (*make_list_)(const Instruction&, Run&, List&);
};

const SequenceTable& table_of(const Instruction& code, const Run& run, std::size_t k) {
  return run.sequences[code.in[k].axis];
}

void reverse_time(const Instruction& code, Run& run, List& list) {
  const SequenceTable& table = table_of(code, run, 0);
  list.resize(table.columns());
  for (std::size_t t = 0; t < table.steps(); ++t)
    for (std::size_t p = 0; p < table.width(t); ++p)
      list[table.begin(t) + p] = static_cast<std::int32_t>(table.begin(table.length(table.sequence(p)) - 1 - t) + p);
}

// y[c] = x[c + by] in the order of the data, cyclic over the minibatch.
void shift_samples(const Instruction& code, Run& run, List& list) {
  const auto by = static_cast<std::size_t>(number(code.node, "by", 0));
  const SequenceTable& table = table_of(code, run, 0);
  const auto source = table.source();
  auto& column_of = run.numbers;  // by place in the data
  column_of.resize(table.columns());
  for (std::size_t c = 0; c < source.size(); ++c)
    column_of[static_cast<std::size_t>(source[c])] = static_cast<std::int32_t>(c);
  list.resize(table.columns());
  for (std::size_t c = 0; c < list.size(); ++c)
    list[c] = column_of[(static_cast<std::size_t>(source[c]) + by) % list.size()];
}

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
void slice_time(const Instruction& code, Run& run, List& list) {
  const auto begin = static_cast<std::int64_t>(number(code.node, "begin", 0)),
             end = static_cast<std::int64_t>(number(code.node, "end", 0));
  const auto first = [&](std::int64_t length) {
    return std::clamp<std::int64_t>(begin < 0 ? begin + length : begin, 0, length);
  };
  const auto last = [&](std::int64_t length) {
    return std::clamp<std::int64_t>(end <= 0 ? end + length : end, first(length), length);
  };
  const SequenceTable& whole = table_of(code, run, 0);
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

void reconcile_sequences(const Instruction& code, Run& run, List& list) {
  const SequenceTable &data = table_of(code, run, 0), &wanted = table_of(code, run, 1);
  same_sequences(code, data, wanted);
  for (std::size_t s = 0; s < data.sequences(); ++s)
    if (data.length(s) != wanted.length(s))
      fail(code,
           fmt::format("sequence {} of the minibatch has {} steps in the data and {} in the layout it is to have; "
                       "the axes need equal structure",
                       s, data.length(s), wanted.length(s)));
  list_by_step(wanted, data, list, [](std::size_t, std::size_t t) { return t; });
}

void broadcast_sequences(const Instruction& code, Run& run, List& list) {
  const SequenceTable &layout = table_of(code, run, 0), &data = table_of(code, run, 1);
  same_sequences(code, layout, data);
  for (std::size_t s = 0; s < data.sequences(); ++s)
    if (data.length(s) != 1)
      fail(code, fmt::format("sequence {} of the minibatch has {} steps where one is repeated", s, data.length(s)));
  list_by_step(layout, data, list, [](std::size_t, std::size_t) { return std::size_t{0}; });
}

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

void gather_packed(const Instruction& code, Run& run, List& list) {
  read_numbers(run, code, 0, run.rows(code.in[1]), list);
}

void scatter_packed(const Instruction& code, Run& run, List& list) {
  auto& columns = run.numbers;
  read_numbers(run, code, 1, run.columns[code.in[0].axis], columns);
  list.assign(run.columns[code.in[0].axis], -1);
  if (columns.size() != run.rows(code.in[2]))
    fail(code, fmt::format("{} indices for {} columns of data", columns.size(), run.rows(code.in[2])));
  for (std::size_t c = 0; c < columns.size(); ++c)
    list[static_cast<std::size_t>(columns[c])] = static_cast<std::int32_t>(c);
}

// Operations whose results are step numbers: no gradient.
class Numbers : public Kernel {
 public:
  explicit Numbers(Instruction i) : Kernel(std::move(i)) {
    reads_no_values();
    differentiable.assign(code.in.size(), false);
    replayable = false;
  }
};

class ZeroSequence : public Numbers {
 public:
  using Numbers::Numbers;
  void forward(Run& run) const override { run.backend.fill(0, out(run), run.count(code.out)); }
};

class Where : public Numbers {
 public:
  explicit Where(Instruction i) : Numbers(std::move(i)) { makes_axis = true; }
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

void list_sequences(Makers& makers) {
  makers.insert({{"TimeReverse", make<Columns, 0, reverse_time>},
                 {"ShiftSamples", make<Columns, 0, shift_samples>},  // negative samples
                 {"SliceTime", make<Columns, 0, slice_time>},        // Slice with axis = -1
                 {"ReconcileDynamicAxis", make<Columns, 0, reconcile_sequences>},
                 {"BroadcastSequenceAs", make<Columns, 1, broadcast_sequences>},
                 {"GatherPacked", make<Columns, 1, gather_packed>},
                 {"ScatterPacked", make<Columns, 2, scatter_packed>},
                 {"ZeroSequence", make<ZeroSequence>},
                 {"Where", make<Where>},
                 {"PackedIndex", make<PackedIndex>}});
}

}  // namespace tutti::graph
