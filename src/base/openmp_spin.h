// SPDX-License-Identifier: Apache-2.0
// openmp_spin.h -- how long OpenMP threads spin while they wait for each other.
#pragma once

namespace tutti {

// By default libgomp spins for milliseconds. If two threads share a core for a while, because another process keeps the
// other core busy, one spins away the time slice that the other needs, and training is half as fast as with one thread.
// Restarts the program (execv) with GOMP_SPINCOUNT=2000, about 30 microseconds, because libgomp reads it when it is
// loaded. Call it first in main(). Does nothing with one core or one thread, or if GOMP_SPINCOUNT or OMP_WAIT_POLICY is
// set.
void limit_openmp_spinning(char* const* argv);

}  // namespace tutti
