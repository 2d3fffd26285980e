// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what a call must keep, exchanges the stacks, takes back what was saved there.
extern "C" void cuda_emulator_change_stack(void** from, void* to);
asm(R"(
.text
.globl cuda_emulator_change_stack
.hidden cuda_emulator_change_stack
.type cuda_emulator_change_stack, @function
cuda_emulator_change_stack:
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
.size cuda_emulator_change_stack, .-cuda_emulator_change_stack
)");
#endif

namespace cuda_emulator {
namespace {

thread_local Fiber* entering = nullptr;

// Stacks serve fiber after fiber, of any thread of the host, so that the system makes their pages only once. Below each
// lies a page that nobody may touch. They are not of malloc, which may have been told to fill what it gives and takes.
class Stacks {
 public:
  unsigned char* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return fresh();
    unsigned char* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void give_back(unsigned char* stack) {
    const std::lock_guard lock(mutex_);
    free_.push_back(stack);
  }

 private:
  static unsigned char* fresh() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const p =
        mmap(nullptr, page + Fiber::stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0) throw std::bad_alloc();
    return static_cast<unsigned char*>(p) + page;
  }
  std::mutex mutex_;
  std::vector<unsigned char*> free_;
};
Stacks& stacks() {
  static Stacks& all = *new Stacks;
  return all;
}

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

Fiber::Fiber() : stack_(stacks().take()) {}
Fiber::~Fiber() { stacks().give_back(stack_); }

bool Fiber::holds(const void* p) const {
  const auto at = reinterpret_cast<std::uintptr_t>(p), bottom = reinterpret_cast<std::uintptr_t>(stack_);
  return at >= bottom && at < bottom + stack_bytes;
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
  auto top = (reinterpret_cast<std::uintptr_t>(stack_) + stack_bytes) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top) - 1;  // as after a call: 8 bytes off the alignment
  *words = nullptr;
  *--words = reinterpret_cast<void*>(&Fiber::entered);
  for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
  inside_ = words;
#else
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = stack_bytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, &Fiber::entered, 0);
#endif
  entering = this;
  resume();
}

void Fiber::resume() {
  before_change(&outer_fake_stack_, stack_, stack_bytes);
#if defined(__x86_64__)
  cuda_emulator_change_stack(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
  after_change(outer_fake_stack_, nullptr, nullptr);
}

void Fiber::leave() {
  before_change(&fake_stack_, outer_stack_, outer_size_);
#if defined(__x86_64__)
  cuda_emulator_change_stack(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
  after_change(fake_stack_, &outer_stack_, &outer_size_);
}

}  // namespace cuda_emulator
