// SPDX-License-Identifier: Apache-2.0
// starter.h -- `trainer new KIND DATA`: a commented config for the user's own data, whose dimensions come from a look
// at them.
#pragma once

namespace tutti::starter {

// `argv` begins behind "new". Exit code 2 for mistakes.
int run(int argc, const char* const* argv);

}  // namespace tutti::starter
