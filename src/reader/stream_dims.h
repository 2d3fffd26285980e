// SPDX-License-Identifier: Apache-2.0
// stream_dims.h -- data with more classes (or a larger index) than the configuration says: the line of the data may be
// wrong, or the setting. Readers word the way out alike, and the error then shows the place of the setting as well.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/config.h"
#include "tutti/error.h"

namespace tutti::reader {

// The `fix:` of an error about a number that needs a larger dim: "correct it, or labelDim = 8 of stream 'labels'".
// `key` is "labelDim" or "dim", `number` the class or index that was met.
std::string dim_fix(const std::string& key, std::int64_t number, const std::string& stream = {});

// Returns the error, preceded by the place in this reader block of the setting that its first such fix names.
ConfigError with_place_of_dim(const ConfigError&, const config::Record& block);

}  // namespace tutti::reader
