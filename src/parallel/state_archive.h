// SPDX-License-Identifier: Apache-2.0
// state_archive.h -- state that only some ranks understand, in one entry that all can pass along: the leaders of groups
// have what the groups have in common, and every rank takes part in reading it back.
#pragma once

#include <functional>
#include <string>

#include "tutti/archive.h"

namespace tutti {

// Saving, `visit` describes the state; loading, it is called only where `understands`.
void archive_packed(Archive&, const std::string& name, bool understands, const std::function<void(Archive&)>& visit);

}  // namespace tutti
