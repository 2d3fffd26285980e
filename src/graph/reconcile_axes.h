// SPDX-License-Identifier: Apache-2.0
// reconcile_axes.h -- operands on different dynamic axes of which one was made by First, Last, Gather or a similar
// operation. Their sequences may be equal, so a ReconcileDynamicAxis is inserted, which compares them in each
// minibatch.
#pragma once

#include <vector>

#include "tutti/error.h"
#include "tutti/graph.h"

namespace tutti::graph {

// Adds the missing nodes and returns a warning for each. Axes that the user declared differently are not reconciled;
// shape inference rejects mixing them.
std::vector<Diagnostic> reconcile_axes(Graph&);

}  // namespace tutti::graph
