// SPDX-License-Identifier: Apache-2.0
// traceNodeNames...: the values of named nodes for every minibatch, as text in the log. For finding faults; the forward
// pass for it is one of its own, with dropout off and the weights from before the step.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "train/text_output.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> traced_nodes(const SgdOptions& sgd) {
  std::vector<std::string> names = sgd.trace_real;
  for (const auto* more : {&sgd.trace_category, &sgd.trace_sparse})
    for (const auto& name : *more)
      if (!contains(names, name)) names.push_back(name);
  return names;
}

void trace_nodes(Training& t, const Batch& batch) {
  const auto outputs = t.network->forward(batch);
  const std::int64_t whole[] = {0, batch.samples};
  for (const auto& output : outputs) {
    const auto print = [&](OutputType type) {
      OutputFormat format;
      format.type = type;
      std::ostringstream text;
      TextOutput writer(text, format, output.name, {});
      writer.write(output, whole, t.progress.minibatches_in_epoch);
      writer.finish();
      log::line(fmt::format("Trace --> {}\n{}", output.name, text.str()));
    };
    if (contains(t.sgd.trace_real, output.name)) print(OutputType::real);
    if (contains(t.sgd.trace_category, output.name)) print(OutputType::category);
    if (contains(t.sgd.trace_sparse, output.name)) print(OutputType::sparse);
  }
}

}  // namespace tutti
