// SPDX-License-Identifier: Apache-2.0
// hdf5_handle.h -- identifiers of libhdf5 that are closed at the end of their scope.
#pragma once

#include <hdf5.h>

#include <utility>

namespace tutti::reader {

template <auto Close>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }
  hid_t get() const { return id_; }
  bool good() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
};
using FileHandle = Handle<H5Fclose>;
using DatasetHandle = Handle<H5Dclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using ListHandle = Handle<H5Pclose>;

}  // namespace tutti::reader
