// SPDX-License-Identifier: Apache-2.0
// npy_reader.h -- arrays of NumPy as the minibatches of `trainer predict`.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti::actions {

// One file for each input, in their order. The first axis counts samples; with `sequences` the first two axes are
// (sequences, time), and an array without the axis of sequences is one sequence. Throws Error.
std::unique_ptr<Reader> read_arrays(const std::vector<Network::Input>& inputs, const std::vector<std::string>& files,
                                    bool sequences);

}  // namespace tutti::actions
