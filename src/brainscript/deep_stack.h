// SPDX-License-Identifier: Apache-2.0
// deep_stack.h -- runs work on a thread with a large stack: evaluation recurses as deep as the user's
// functions call each other, and must reach its own limit before that of the machine.
#pragma once

#include <cstddef>
#include <functional>

namespace tutti::brainscript {

// What the work may use of the stack.
constexpr std::size_t deep_stack_bytes = std::size_t{56} << 20;
void on_deep_stack(const std::function<void()>& work);  // exceptions come through
// Called from within such work: runs a part on the thread that started it, which alone may speak with other ranks.
void on_starting_thread(const std::function<void()>& part);

}  // namespace tutti::brainscript
