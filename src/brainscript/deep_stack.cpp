// SPDX-License-Identifier: Apache-2.0
// A POSIX thread, because std::thread cannot choose its stack.
#include "brainscript/deep_stack.h"

#include <pthread.h>

#include <cassert>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "tutti/error.h"

namespace tutti::brainscript {
namespace {

// Reserved, not used, until recursion gets there. The address sanitizer follows exceptions on stacks of up to 64 MiB.
constexpr std::size_t stack_bytes = deep_stack_bytes + (std::size_t{4} << 20);

struct Job {
  const std::function<void()>* work = nullptr;
  std::exception_ptr failure;
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void()>* part = nullptr;  // for the starting thread
  std::exception_ptr part_failure;
  bool finished = false;
};
thread_local Job* running = nullptr;

void* run(void* data) {
  auto* job = static_cast<Job*>(data);
  running = job;
  try {
    (*job->work)();
  } catch (...) {
    job->failure = std::current_exception();
  }
  const std::scoped_lock lock(job->mutex);
  job->finished = true;
  job->changed.notify_all();
  return nullptr;
}

// Until the work is done, runs the parts that it passes back.
void serve(Job& job) {
  std::unique_lock lock(job.mutex);
  for (;;) {
    job.changed.wait(lock, [&] { return job.part || job.finished; });
    if (job.finished) return;
    try {
      (*job.part)();
    } catch (...) {
      job.part_failure = std::current_exception();
    }
    job.part = nullptr;
    job.changed.notify_all();
  }
}

struct Attributes {
  Attributes() { pthread_attr_init(&value); }
  ~Attributes() { pthread_attr_destroy(&value); }
  Attributes(const Attributes&) = delete;
  pthread_attr_t value;
};

}  // namespace

void on_deep_stack(const std::function<void()>& work) {
  Job job;
  job.work = &work;
  Attributes attributes;
  pthread_t thread;
  if (pthread_attr_setstacksize(&attributes.value, stack_bytes) != 0 ||
      pthread_create(&thread, &attributes.value, run, &job) != 0)
    throw Error("cannot start the thread that evaluates the network description (address space is short)");
  serve(job);
  pthread_join(thread, nullptr);
  if (job.failure) std::rethrow_exception(job.failure);
}

void on_starting_thread(const std::function<void()>& part) {
  assert(running && "on_starting_thread() must be called on a deep stack");
  Job& job = *running;
  std::unique_lock lock(job.mutex);
  job.part = &part;
  job.changed.notify_all();
  job.changed.wait(lock, [&] { return !job.part; });
  if (job.part_failure) std::rethrow_exception(std::exchange(job.part_failure, nullptr));
}

}  // namespace tutti::brainscript
