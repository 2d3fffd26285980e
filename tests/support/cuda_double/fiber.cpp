// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what a call must keep, exchanges the stacks, takes back what was saved there.
extern "C" void cuda_double_change_stack(void** from, void* to);
asm(R"(
.text
.globl cuda_double_change_stack
.hidden cuda_double_change_stack
.type cuda_double_change_stack, @function
cuda_double_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_double_change_stack, .-cuda_double_change_stack
)");
#endif

namespace cuda_double {
namespace {

thread_local Fiber* entering = nullptr;

// The address sanitizer wants to know about every change of stacks.
void before_change(void** keep, const void* bottom, std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, bottom, size);
#else
  static_cast<void>(keep), static_cast<void>(bottom), static_cast<void>(size);
#endif
}
void after_change(void* kept, const void** bottom, std::size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, bottom, size);
#else
  static_cast<void>(kept), static_cast<void>(bottom), static_cast<void>(size);
#endif
}

}  // namespace

Fiber::Fiber(std::size_t stack_bytes)
    : stack_bytes_(stack_bytes), stack_(std::make_unique_for_overwrite<unsigned char[]>(stack_bytes)) {}

bool Fiber::holds(const void* p) const {
  const auto at = reinterpret_cast<std::uintptr_t>(p), bottom = reinterpret_cast<std::uintptr_t>(stack_.get());
  return at >= bottom && at < bottom + stack_bytes_;
}

void Fiber::entered() {
  Fiber& f = *entering;
  after_change(f.fake_stack_, &f.outer_stack_, &f.outer_size_);
  f.body_();
}

// The sanitizer's stack is kept from start to start: a body that has left for good cannot give it back.
void Fiber::start(void (*body)()) {
  body_ = body;
#if defined(__x86_64__)
  auto top = (reinterpret_cast<std::uintptr_t>(stack_.get()) + stack_bytes_) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top) - 1;  // as after a call: 8 bytes off the alignment
  *words = nullptr;
  *--words = reinterpret_cast<void*>(&Fiber::entered);
  for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
  inside_ = words;
#else
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = stack_bytes_;
  inside_.uc_link = nullptr;
  makecontext(&inside_, &Fiber::entered, 0);
#endif
  resume();
}

void Fiber::resume() {
  entering = this;
  before_change(&outer_fake_stack_, stack_.get(), stack_bytes_);
#if defined(__x86_64__)
  cuda_double_change_stack(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
  after_change(outer_fake_stack_, nullptr, nullptr);
}

void Fiber::leave() {
  before_change(&fake_stack_, outer_stack_, outer_size_);
#if defined(__x86_64__)
  cuda_double_change_stack(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
  after_change(fake_stack_, &outer_stack_, &outer_size_);
}

}  // namespace cuda_double
