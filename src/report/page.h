// SPDX-License-Identifier: Apache-2.0
// page.h -- the report as one HTML page that needs nothing else: no scripts, no files, no network.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace tutti::report {

std::string to_html(const std::vector<RunData>&, const std::string& title);

}  // namespace tutti::report
