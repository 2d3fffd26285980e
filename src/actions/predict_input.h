// SPDX-License-Identifier: Apache-2.0
// predict_input.h -- the data of `trainer predict` as a reader: images, CTF or npy files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actions/command_words.h"
#include "tutti/graph.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti::actions {

struct PredictInput {
  std::shared_ptr<void> kept;  // files that the reader needs while it lives
  std::unique_ptr<Reader> reader;
  std::vector<std::string> files;  // of images: the name of each sample
};

// The options of `trainer predict` that describe its input.
std::vector<CommandOption> input_options();

// `inputs` are those of the network `graph` that the predicted node needs. `sequences`: the network goes through
// sequences, so that the first axis of an npy array is time. Throws Error or ConfigError: files of another kind,
// streams that are missing, arrays of another shape.
PredictInput open_input(const CommandWords&, const graph::Graph& graph, const std::vector<Network::Input>& inputs,
                        bool sequences);

}  // namespace tutti::actions
