// SPDX-License-Identifier: Apache-2.0
// The MPI session, and the only catch. What is wrong with the configuration was agreed on by all ranks and ends them
// together (exit 2); anything later takes the others down at once, for they may sit in a collective.
#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "actions/run.h"
#include "comm/session.h"

int main(int argc, char** argv) {
  tutti::MpiSession mpi(&argc, &argv);
  try {
    return tutti::actions::run(argc, argv, mpi.world());
  } catch (const std::exception& error) {
    // What fails everywhere at once is said by the first rank alone: it has ended the others before they speak.
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(mpi.world().rank(), 10) * 200));
    mpi.abort(error.what());
  }
}
