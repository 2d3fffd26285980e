// SPDX-License-Identifier: Apache-2.0
// table_run.h -- starts ranks that measure and print a table, as `trainer plan` and `trainer simulate` do.
#pragma once

#include <string>
#include <string_view>

#include "launch/mpiexec_line.h"

namespace tutti::launch {

// Passes on what the ranks print, except lines of JSON that begin with {"event":"EVENT". These go to the file `json`,
// if it is given and the ranks end with code 0; otherwise the last lines at stderr are passed on. Returns their exit
// code. Throws Error before anything starts if the file cannot be written.
int run_for_table(const MpiexecLine&, std::string_view event, const std::string& json);

}  // namespace tutti::launch
