// SPDX-License-Identifier: Apache-2.0
// compute_type.h -- computeType of a command block or of an enclosing one: the number type of products.
#pragma once

#include "actions/action.h"
#include "tutti/backend.h"
#include "tutti/config.h"

namespace tutti::actions {

// As one key of an action's table.
void describe_compute_type(config::Fields&, ComputeType&);
// A type that the device does not support is a mistake.
void check_compute_type(const ActionContext&, ComputeType);
// Of a block that was checked before.
ComputeType compute_type_of(const config::Record& command);

}  // namespace tutti::actions
