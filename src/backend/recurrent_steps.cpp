// SPDX-License-Identifier: Apache-2.0
#include "backend/recurrent_steps.h"

#include "backend/layer_steps.h"

namespace tutti {
namespace {

template <class Work>
void with_steps(Backend& backend, const RecurrentLayer& l, const Work& work) {
  if (l.kind == CellKind::lstm) {
    LstmSteps steps(backend, l);
    work(steps);
  } else {
    GruSteps steps(backend, l);
    work(steps);
  }
}

}  // namespace

std::size_t recurrent_steps_workspace(const RecurrentLayer& l) { return LayerSteps::workspace(l); }

void recurrent_layer_by_steps(Backend& backend, const RecurrentLayer& l) {
  with_steps(backend, l, [](LayerSteps& steps) { steps.forward(); });
}

void recurrent_layer_gradient_by_steps(Backend& backend, const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  with_steps(backend, l, [&](LayerSteps& steps) { steps.backward(g); });
}

void add_beginning_rows(Backend& backend, const RecurrentLayerGradient& g, std::size_t first, std::size_t count,
                        const float* rows, std::size_t width, float* sum) {
  const auto add = [&](std::size_t row, std::size_t how_many) {
    Layout l;
    l.rank = 2, l.size = {width, how_many}, l.stride[0] = {1, width}, l.stride[3] = {1, 0};
    backend.copy(l, rows + row * width, sum, true);
  };
  if (g.begins.empty()) return add(0, count);
  for (std::size_t row = 0; row < count; ++row)
    if (g.begins[first + row]) add(row, 1);
}

}  // namespace tutti
