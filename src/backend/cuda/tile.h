// SPDX-License-Identifier: Apache-2.0
// tile.h -- the tile of shared memory in which a block of tile x rows_at_once threads transposes a matrix, so that both
// sides access whole lines of memory.
#pragma once

namespace tutti::cuda {

inline constexpr unsigned tile = 32, rows_at_once = 8;

}  // namespace tutti::cuda
