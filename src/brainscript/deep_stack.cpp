// SPDX-License-Identifier: Apache-2.0
// A POSIX thread, because std::thread cannot choose its stack.
#include "brainscript/deep_stack.h"

#include <pthread.h>

#include <cassert>
#include <condition_variable>
#include <future>
#include <mutex>

#include "tutti/error.h"

namespace tutti::brainscript {
namespace {

// Reserved, not used, until recursion gets there. The address sanitizer follows exceptions on stacks of up to 64 MiB.
constexpr std::size_t stack_bytes = deep_stack_bytes + (std::size_t{4} << 20);

struct Job {
  std::packaged_task<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  std::packaged_task<void()>* part = nullptr;  // for the starting thread
  bool finished = false;
};
thread_local Job* running = nullptr;

void* run(void* data) {
  auto* job = static_cast<Job*>(data);
  running = job;
  job->work();
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
    (*job.part)();
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
  Job job{std::packaged_task<void()>(work), {}, {}};
  std::future<void> done = job.work.get_future();
  Attributes attributes;
  pthread_t thread;
  if (pthread_attr_setstacksize(&attributes.value, stack_bytes) != 0 ||
      pthread_create(&thread, &attributes.value, run, &job) != 0)
    throw Error("cannot start the thread that evaluates the network description (address space is short)");
  serve(job);
  pthread_join(thread, nullptr);
  done.get();
}

void on_starting_thread(const std::function<void()>& part) {
  assert(running && "on_starting_thread() must be called on a deep stack");
  std::packaged_task<void()> task(part);
  std::future<void> done = task.get_future();
  std::unique_lock lock(running->mutex);
  running->part = &task;
  running->changed.notify_all();
  running->changed.wait(lock, [&] { return !running->part; });
  done.get();
}

}  // namespace tutti::brainscript
