// SPDX-License-Identifier: Apache-2.0
// background_writer.h -- writes checkpoints while training goes on: one thread, one job after the other. Of rank 0; the
// other ranks have one without jobs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tutti {

class BackgroundWriter {
 public:
  // Writes the files that `name` stands for in messages; without a name it only prepares. May be called again after it
  // has thrown.
  struct Job {
    std::string name;
    std::function<void()>
        first;  // if any; kept for the next job until it succeeds, as nobody has its contents any more
    std::function<void()> write;
  };

  BackgroundWriter() = default;
  ~BackgroundWriter();  // close()
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  void submit(Job);                               // waits for the job before, as wait() does
  bool busy(std::chrono::milliseconds patience);  // whether the job before is still being written, after so long a wait
  // For the watchdog this is progress: the disk, not a rank, is slow. Warns after 30 s, 60 s, ...
  void wait();
  // Jobs that failed since the last one that did not; each was warned about when it failed.
  int failures_in_a_row();
  // Waits for the last job and drops what it could not write. Nothing is submitted afterwards.
  void close();
  // Waits for the last job, and repeats it now and then if it failed. Returns why the last attempt failed; "" = it is
  // on disk.
  std::string finish(int attempts);

 private:
  void run();
  void begin();
  void attempt();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  Job job_;
  bool waiting_ = false, ending_ = false;  // waiting_: job_ is not done
  int failures_ = 0;
  std::string why_;
};

}  // namespace tutti
