// SPDX-License-Identifier: Apache-2.0
// fiber.h -- a function on a stack of its own that leaves and is resumed later, on one thread. On x86-64 a change costs
// a few nanoseconds; elsewhere the system's contexts do it, with a system call each.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_emulator {

class Fiber {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  void start(void (*body)());  // body ends by leaving for good; the stack may then be started anew
  void resume();
  bool holds(const void* p) const;  // on its stack
  void leave();                     // from inside: back to where it was started or resumed

 private:
  static void entered();

  unsigned char* const stack_;
  void (*body_)() = nullptr;
#if defined(__x86_64__)
  void *inside_ = nullptr, *outside_ = nullptr;  // stack pointers
#else
  ucontext_t inside_, outside_;
#endif
  void* fake_stack_ = nullptr;  // of the address sanitizer
  void* outer_fake_stack_ = nullptr;
  const void* outer_stack_ = nullptr;
  std::size_t outer_size_ = 0;
};

}  // namespace cuda_emulator
