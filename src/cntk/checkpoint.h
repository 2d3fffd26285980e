// SPDX-License-Identifier: Apache-2.0
// checkpoint.h -- CNTK's checkpoints (.ckp): the state of its optimizer beside a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cntk/byte_reader.h"

namespace tutti::cntk {

struct Checkpoint {
  std::int64_t total_samples = 0;  // seen by all finished epochs
  double learning_rate = 0;        // per sample
  double previous_criterion = 0;
  std::int64_t minibatch_size = 0;  // chosen by AutoAdjust; 0 = none
  std::vector<Matrix> gradients;    // smoothed, in the order of Model::trained
  std::vector<double> counts;       // of fsAdagrad
  bool block_momentum = false;      // the file also holds the state of block momentum, which is not read
};

bool is_checkpoint(const std::string& path);
Checkpoint read_checkpoint(const std::string& path);
Checkpoint read_checkpoint(ByteReader);

}  // namespace tutti::cntk
