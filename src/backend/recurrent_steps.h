// SPDX-License-Identifier: Apache-2.0
// recurrent_steps.h -- a recurrent layer step by step: a product with the state before, then the gates of one step.
// Every backend can do it so; Backend::recurrent_layer is this where there is nothing better.
#pragma once

#include "tutti/backend.h"

namespace tutti {

std::size_t recurrent_steps_workspace(const RecurrentLayer&);  // as Backend::recurrent_layer_workspace
void recurrent_layer_by_steps(Backend&, const RecurrentLayer&);
void recurrent_layer_gradient_by_steps(Backend&, const RecurrentLayer&, const RecurrentLayerGradient&);

// Adds those of `count` rows, the first of them row `first` of the layer, to `sum` whose sequences begin there.
void add_beginning_rows(Backend&, const RecurrentLayerGradient&, std::size_t first, std::size_t count,
                        const float* rows, std::size_t width, float* sum);

}  // namespace tutti
