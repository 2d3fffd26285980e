// SPDX-License-Identifier: Apache-2.0
// openmp_spin.h -- how long OpenMP threads spin while they wait for each other.
#pragma once

namespace tutti {

// By default libgomp spins for milliseconds. If two threads share a core for a while, because another process keeps the
// other core busy, one spins away the time slice that the other needs, and training is half as fast as with one thread.
// A program that calls this loads libgomp with GOMP_SPINCOUNT=2000, about 30 microseconds, unless GOMP_SPINCOUNT or
// OMP_WAIT_POLICY is set. The variable takes the place of PATH in the environment, and is replaced by PATH here: call it
// first in main().
void limit_openmp_spinning();

}  // namespace tutti
