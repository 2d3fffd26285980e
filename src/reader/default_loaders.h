// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti::reader {

// The number of loader threads for this process: the cores that training leaves free, or a few shared ones if there are
// none.
std::size_t default_loaders();

}  // namespace tutti::reader
