// SPDX-License-Identifier: Apache-2.0
// A POSIX thread, because std::thread cannot choose its stack.
#include "brainscript/deep_stack.h"

#include <pthread.h>

#include "tutti/error.h"

namespace tutti::brainscript {
namespace {

// Reserved, not used, until recursion gets there. The address sanitizer follows exceptions on stacks of up to 64 MiB.
constexpr std::size_t stack_bytes = deep_stack_bytes + (std::size_t{4} << 20);

struct Job {
  const std::function<void()>* work;
  std::exception_ptr failure;
};

void* run(void* data) {
  auto* job = static_cast<Job*>(data);
  try {
    (*job->work)();
  } catch (...) {
    job->failure = std::current_exception();
  }
  return nullptr;
}

struct Attributes {
  Attributes() { pthread_attr_init(&value); }
  ~Attributes() { pthread_attr_destroy(&value); }
  Attributes(const Attributes&) = delete;
  pthread_attr_t value;
};

}  // namespace

void on_deep_stack(const std::function<void()>& work) {
  Job job{&work, nullptr};
  Attributes attributes;
  pthread_t thread;
  if (pthread_attr_setstacksize(&attributes.value, stack_bytes) != 0 ||
      pthread_create(&thread, &attributes.value, run, &job) != 0)
    throw Error("cannot start the thread that evaluates the network description (address space is short)");
  pthread_join(thread, nullptr);
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace tutti::brainscript
