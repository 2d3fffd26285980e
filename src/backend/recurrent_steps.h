// SPDX-License-Identifier: Apache-2.0
// recurrent_steps.h -- a recurrent layer step by step: a product with the previous state, then the gates of one step.
// The default of Backend::recurrent_layer on every backend.
#pragma once

#include "tutti/backend.h"

namespace tutti {

std::size_t recurrent_steps_workspace(const RecurrentLayer&);  // as Backend::recurrent_layer_workspace
void recurrent_layer_by_steps(Backend&, const RecurrentLayer&);
void recurrent_layer_gradient_by_steps(Backend&, const RecurrentLayer&, const RecurrentLayerGradient&);

// Adds `count` rows, starting with row `first` of the layer, to `sum` if their sequences begin there.
void add_beginning_rows(Backend&, const RecurrentLayerGradient&, std::size_t first, std::size_t count,
                        const float* rows, std::size_t width, float* sum);

}  // namespace tutti
