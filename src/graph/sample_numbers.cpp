// SPDX-License-Identifier: Apache-2.0
// Sample numbers: those of a stream's axis are known before the part runs; those of other axes follow from the
// sequences that they are made of.
#include <algorithm>

#include "graph/kernel.h"

namespace tutti::graph {

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
  else if (packed)
    number_packed(axis, s.columns);
  // Workspace for the planned number of columns, so that its address stays the same from step to step.
  const std::size_t most = std::max(s.columns.size(), planned_columns);
  float* workspace = s.there.reserve(backend, most * sizeof(std::int64_t) / sizeof(float));
  backend.upload(reinterpret_cast<const float*>(s.columns.data()), workspace,
                 s.columns.size() * sizeof(std::int64_t) / sizeof(float));
}

}  // namespace tutti::graph
