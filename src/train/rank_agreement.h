// SPDX-License-Identifier: Apache-2.0
// rank_agreement.h -- checks before the first training step that ranks have the same settings, parameters and number of
// samples. Ranks that differ, by the command line of one of them or the files of one host, would wait for messages that
// never come.
#pragma once

#include <string>

#include "train/sgd_options.h"
#include "tutti/communicator.h"

namespace tutti {

struct Training;

// The first rank whose settings differ from those of rank 0, and the first setting that does; "" if none does. Settings
// are lines "key = value" and blocks, as those of config::dump_fields(). Equal on all ranks. Collective.
std::string find_difference(Communicator&, const std::string& settings);

// These throw the same ConfigError on every rank if there is a difference. Collective.
void require_same_settings(Communicator&, const std::string& settings);
// modelPath, traceLevel and the names of files may differ: rank 0 alone writes.
void require_same_sgd(Communicator&, SgdOptions);
// Shapes and placements of the parameters, and the samples of the readers.
void require_same_training(const Training&);

}  // namespace tutti
