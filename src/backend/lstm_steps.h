// SPDX-License-Identifier: Apache-2.0
// lstm_steps.h -- an LSTM step by step: a product with the state before, then the gates of one step. Every backend can
// do it so; Backend::lstm is this where there is nothing better.
#pragma once

#include "tutti/backend.h"

namespace tutti {

std::size_t lstm_steps_room(const LstmLayer&);  // as Backend::lstm_room
void lstm_by_steps(Backend&, const LstmLayer&);
void lstm_gradient_by_steps(Backend&, const LstmLayer&, const LstmLayerGradient&);

// Adds those of `count` rows, the first of them row `first` of the layer, to `sum` whose sequences begin there.
void add_beginning_rows(Backend&, const LstmLayerGradient&, std::size_t first, std::size_t count, const float* rows,
                        std::size_t width, float* sum);

}  // namespace tutti
