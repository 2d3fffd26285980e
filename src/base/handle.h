// SPDX-License-Identifier: Apache-2.0
// handle.h -- owns a handle of a C library and destroys it with the library's function.
#pragma once

#include <utility>

namespace tutti {

template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& o) noexcept : value_(std::exchange(o.value_, nullptr)) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(value_, o.value_);
    return *this;
  }
  ~Handle() {
    if (value_) Destroy(value_);
  }
  T get() const { return value_; }
  T* out() { return &value_; }

 private:
  T value_ = nullptr;
};

}  // namespace tutti
