// SPDX-License-Identifier: Apache-2.0
// planner.h -- `trainer plan`: times some steps of a config under every method, and says which is the fastest here.
#pragma once

namespace tutti::planner {

// `argv` begins after "plan". Starts the ranks and passes on what rank 0 prints.
int run(int argc, const char* const* argv);
// The command of a rank; `argv` as main gets it, "plan-rank" first.
int run_rank(int argc, char** argv);

}  // namespace tutti::planner
