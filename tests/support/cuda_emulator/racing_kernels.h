// SPDX-License-Identifier: Apache-2.0
// racing_kernels.h -- kernels of one warp, two warps or two blocks with a mistake each, and the same without it.
#pragma once

namespace racing {

// Each thread reads what the one before it wrote into shared memory, of its block of 64 or of its warp.
void block_reads_neighbour(bool barrier, int* out);
void warp_reads_neighbour(bool barrier, int* out);
// A barrier between writing and reading, but none before it is written over.
void writes_over(bool barrier, int* out);
// What one block writes, another one reads, or writes as well.
void reads_of_other_block(bool other, int* out);
void blocks_write(bool same, int* out);
// Only the first thread writes what all of its block read.
void reads_what_is_written(bool all, int* out);
// Four numbers at once.
void reads_four_from(unsigned first, const float* x, float* out);

}  // namespace racing
