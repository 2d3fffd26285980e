// SPDX-License-Identifier: Apache-2.0
// reconcile_axes.h -- operands on different dynamic axes of which one was made by First, Last, Gather and the like.
// Their sequences may well be equal, so the network gets a ReconcileDynamicAxis, which compares them in each minibatch.
#pragma once

#include <vector>

#include "tutti/error.h"
#include "tutti/graph.h"

namespace tutti::graph {

// Adds the nodes that are missing, one warning for each. Axes that the user has declared as different stay so: the
// inference of shapes refuses to mix them, as it does whatever else is wrong with the graph.
std::vector<Diagnostic> reconcile_axes(Graph&);

}  // namespace tutti::graph
