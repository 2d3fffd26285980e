// SPDX-License-Identifier: Apache-2.0
// hosts.h -- which hosts can take part in a run.
#pragma once

#include <string>

#include "launch/options.h"

namespace tutti::launch {

// By "localhost", the short or full name of this host, or the address of one of its interfaces.
bool is_this_host(const std::string& name);
// Whether both name one host: "node1" and "node1.cluster.org" do.
bool is_same_host(const std::string& a, const std::string& b);
// Whether processes can be started there, and reach this host over the network. Takes some seconds if not. `own_name`
// becomes what the host calls itself, if it can be reached.
bool is_reachable(const std::string& host, const Options&, std::string* own_name = nullptr);
// What to say of one that is not: a name that does not resolve may be misspelled.
std::string unreachable_text(const std::string& host);
// The other end, started on that host: connects to where the word says. Returns the exit code.
int answer_probe(const std::string& where);

}  // namespace tutti::launch
