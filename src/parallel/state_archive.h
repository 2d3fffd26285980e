// SPDX-License-Identifier: Apache-2.0
// state_archive.h -- one archive entry for state that only some ranks have. Group leaders hold the common state of
// their groups, but every rank takes part in reading it.
#pragma once

#include <functional>
#include <string>

#include "tutti/archive.h"

namespace tutti {

// When saving, `visit` describes the state. When loading, it is called only if `understands` is true.
void archive_packed(Archive&, const std::string& name, bool understands, const std::function<void(Archive&)>& visit);

}  // namespace tutti
