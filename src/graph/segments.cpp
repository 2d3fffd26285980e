// SPDX-License-Identifier: Apache-2.0
// Which kernels a device may replay together, and what is uploaded for them before they run.
#include <algorithm>

#include "graph/program.h"

namespace tutti::graph {

// Whether its columns are known before the forward pass; on axes that the network creates they depend on values.
bool Program::on_given_axes(const Instruction& i) const {
  const auto given = [&](const Operand& o) {
    return !o.per_sample || std::any_of(code_.tensors.begin(), code_.tensors.end(), [&](const Tensor& t) {
      return t.kind == Tensor::Kind::input && t.axis == o.axis;
    });
  };
  return given(i.out) && std::all_of(i.in.begin(), i.in.end(), given);
}

// Alone, or as a member of a loop that can be replayed as a whole.
bool Program::repeats(std::size_t kernel) const {
  const auto alone = [&](std::size_t k) {
    return kernels_[k]->replayable && !kernels_[k]->synchronized && on_given_axes(kernels_[k]->code);
  };
  if (loop_of_[kernel] == none) return alone(kernel);
  const LoopRun& loop = loops_[loop_of_[kernel]];
  for (std::size_t k = loop.first(); k < loop.last(); ++k)
    if (!alone(k)) return false;
  return true;
}

// A segment of a few calls is not worth a capture; step-by-step kernels make many calls. Backward is cut where much has
// become complete, so that chunks can be exchanged while the rest is computed.
void Program::find_segments() {
  constexpr std::size_t fewest = 4, much = std::size_t{1} << 20;
  const auto cut = [&](std::size_t count, const auto& kernel_at, bool backward) {
    std::vector<Segment> segments;
    std::size_t complete = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t kernel = kernel_at(n);
      const bool same = repeats(kernel);
      const bool inside = n > 0 && loop_of_[kernel] != none && loop_of_[kernel] == loop_of_[kernel_at(n - 1)];
      if (segments.empty() || (!inside && (segments.back().repeats != same || complete >= much)))
        segments.push_back({n, n, same, {}}), complete = 0;
      segments.back().last = n + 1;
      if (!backward || !same) continue;
      for (const auto tensor : completes_[kernel]) complete += code_.tensors[tensor].elements;
    }
    for (Segment& s : segments) {
      for (std::size_t n = s.first; n < s.last; ++n)
        if (needs_sequences(kernels_[kernel_at(n)]->code.operation)) s.asked.push_back(kernel_at(n));
      s.repeats = s.repeats && (s.last - s.first >= fewest || !s.asked.empty());
    }
    return segments;
  };
  forward_segments_ = cut(
      kernels_.size(), [](std::size_t n) { return n; }, false);
  backward_segments_ = cut(
      active_.size(), [this](std::size_t n) { return active_[n]; }, true);
}

bool Program::repeats(const Run& run, const Segment& s) const {
  return s.repeats &&
         std::all_of(s.asked.begin(), s.asked.end(), [&](std::size_t k) { return kernels_[k]->repeats(run); });
}

// Uploads what the kernels [first, last) need, in one copy.
void Program::tell(Run& run, std::size_t first, std::size_t last) const {
  std::size_t begin = run.told.size(), end = 0;
  for (std::size_t i = first; i < last; ++i) {
    const Kernel& kernel = *kernels_[i];
    if (backward_only_[i]) continue;
    kernel.tell(run, run.told.data() + kernel.told_at);
    if (kernel.told_bytes == 0) continue;
    begin = std::min(begin, kernel.told_at), end = kernel.told_at + kernel.told_bytes;
  }
  if (begin >= end) return;
  const std::size_t floats = (end - begin + sizeof(float) - 1) / sizeof(float);
  run.backend.upload(reinterpret_cast<const float*>(run.told.data() + begin),
                     run.told_there.data() + begin / sizeof(float), floats);
}

// Sample numbers: those of a stream's axis are known before the part runs; those of other axes follow from the
// sequences that they are made of.

// A column of a packed axis belongs to the sequence that stands at its place.
void Run::number_packed(std::size_t axis, std::vector<std::int64_t>& numbers) const {
  const SequenceTable& table = sequences[axis];
  numbers.resize(table.columns());
  for (std::size_t s = 0; s < table.sequences(); ++s)
    for (std::size_t step_of = 0; step_of < table.length(s); ++step_of)
      numbers[table.column(s, step_of)] = sequence_positions[s] + static_cast<std::int64_t>(step_of);
}

void Run::number_samples(const Operand& o) {
  const std::size_t axis = o.per_sample ? o.axis : columns.size();
  SampleNumbers& s = samples[axis];
  if (s.current) return;
  s.current = true;
  if (!o.per_sample)
    s.columns.assign(1, position);
  else if (packed && (!ranks || axis < first_of_rank.size()))
    number_packed(axis, s.columns);
  // Workspace for the planned number of columns, so that its address stays the same from step to step.
  const std::size_t most = std::max(s.columns.size(), planned_columns);
  float* workspace = s.there.reserve(backend, most * sizeof(std::int64_t) / sizeof(float));
  backend.upload(reinterpret_cast<const float*>(s.columns.data()), workspace,
                 s.columns.size() * sizeof(std::int64_t) / sizeof(float));
}

}  // namespace tutti::graph
