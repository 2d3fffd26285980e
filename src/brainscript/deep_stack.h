// SPDX-License-Identifier: Apache-2.0
// deep_stack.h -- runs work on a thread with a large stack. Evaluation recurses as deep as the user's functions call
// each other, and must reach its own limit before the stack ends.
#pragma once

#include <cstddef>
#include <functional>

namespace tutti::brainscript {

// The part of the stack that the work may use.
constexpr std::size_t deep_stack_bytes = std::size_t{56} << 20;
void on_deep_stack(const std::function<void()>& work);  // exceptions come through
// Called from within such work: runs a part on the thread that started it, which alone may communicate with other
// ranks.
void on_starting_thread(const std::function<void()>& part);

}  // namespace tutti::brainscript
