// SPDX-License-Identifier: Apache-2.0
// hosts.h -- which hosts can take part in a run.
#pragma once

#include <string>

#include "launch/options.h"

namespace tutti::launch {

bool is_this_host(const std::string& name);
// Whether processes can be started there, and reach this host over the network. Takes some seconds if not.
bool is_reachable(const std::string& host, const Options&);
// The other end, started on that host: connects to where the word says. Returns the exit code.
int answer_probe(const std::string& where);

}  // namespace tutti::launch
