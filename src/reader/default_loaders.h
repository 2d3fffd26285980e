// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti::reader {

// How many threads that load samples suit this process: cores it may use that training leaves free; when there are
// none, a few that share.
std::size_t default_loaders();

}  // namespace tutti::reader
