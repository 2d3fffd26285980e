// SPDX-License-Identifier: Apache-2.0
// starter.h -- `trainer new KIND DATA`: a commented config for the user's own data, with the dimensions found
// in them.
#pragma once

namespace tutti::starter {

// `argv` begins after "new". Exit code 2 for mistakes.
int run(int argc, const char* const* argv);

}  // namespace tutti::starter
