// SPDX-License-Identifier: Apache-2.0
// model_lock.h -- one run at a time works on a model path. The lock ends with its process, however that ends, so there
// is nothing to clean up (docs/checkpoints.md).
#pragma once

#include <chrono>
#include <string>

namespace tutti {

class ModelLock {
 public:
  // Creates and locks "<model_path>.lock", which names host, process and start time of the owner. A process that was
  // killed may need a moment to end, hence `patience`. Throws Error, which names the owner, if another run holds it.
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
