// SPDX-License-Identifier: Apache-2.0
// library.h -- the standard library, written in the network language itself.
#pragma once

#include <string_view>

namespace tutti::brainscript {

std::string_view library_text();

}  // namespace tutti::brainscript
