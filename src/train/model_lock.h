// SPDX-License-Identifier: Apache-2.0
// model_lock.h -- allows one run at a time to work on a model path. The lock ends with its process, however the process
// ends, so there is nothing to clean up (docs/checkpoints.md).
#pragma once

#include <chrono>
#include <string>

namespace tutti {

class ModelLock {
 public:
  // Creates and locks "<model_path>.lock", which names host, process and start time of the owner. Waits up to
  // `patience` for a killed process to end. Throws an Error that names the owner if another run holds the lock.
  explicit ModelLock(const std::string& model_path, std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~ModelLock();  // removes the file
  ModelLock(ModelLock&&) noexcept;
  ModelLock& operator=(ModelLock&&) = delete;

 private:
  bool try_lock();

  std::string path_;
  int fd_ = -1;
};

}  // namespace tutti
