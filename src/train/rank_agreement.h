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

// These throw the same ConfigError on every rank if there is a difference: it names the first rank that differs from
// rank 0, and the first setting that does. Collective.

// `settings`: lines "key = value" and blocks, as those of config::dump_fields().
void require_same_settings(Communicator&, const std::string& settings);
// modelPath, traceLevel and the names of files may differ: rank 0 alone writes.
void require_same_sgd(Communicator&, SgdOptions);
// Shapes and placements of the parameters, and the samples of the readers.
void require_same_training(const Training&);

}  // namespace tutti
