// SPDX-License-Identifier: Apache-2.0
// buffer.h -- a growing array that keeps its memory when cleared and does not initialise new elements, because shares
// are rebuilt for every minibatch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace tutti::reader {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::span<const T> view() const { return {data_.get(), size_}; }

  // Appends `n` uninitialised elements and returns the first.
  T* extend(std::size_t n) {
    if (capacity_ - size_ < n) grow(size_ + n);
    T* place = data_.get() + size_;
    size_ += n;
    return place;
  }
  void push_back(T value) { *extend(1) = value; }
  void append(const T* from, std::size_t n) {
    T* to = extend(n);
    if (n > 0) std::memcpy(to, from, n * sizeof(T));
  }
  void shrink(std::size_t size) { size_ = size; }
  void clear() { size_ = 0; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(T* p) const { ::operator delete(p, alignment); }
  };

  void grow(std::size_t least) {
    const std::size_t capacity = std::max({least, capacity_ + capacity_ / 2, std::size_t{16}});
    std::unique_ptr<T, Free> bigger(static_cast<T*>(::operator new(capacity * sizeof(T), alignment)));
    if (size_ > 0) std::memcpy(bigger.get(), data_.get(), size_ * sizeof(T));
    data_ = std::move(bigger);
    capacity_ = capacity;
  }

  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace tutti::reader
