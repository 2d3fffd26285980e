// SPDX-License-Identifier: Apache-2.0
// state_copy.h -- an in-memory copy of all state that a training run changes, to restore it.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "train/training.h"
#include "tutti/archive.h"

namespace tutti {

// An archive of values by name.
class MemoryState final : public Archive {
 public:
  bool loading() const override { return loading_; }
  bool has(std::string_view name) const override { return !loading_ || values_.contains(std::string(name)); }
  void operator()(std::string_view name, bool& v) override { visit(name, v); }
  void operator()(std::string_view name, std::int64_t& v) override { visit(name, v); }
  void operator()(std::string_view name, double& v) override { visit(name, v); }
  void operator()(std::string_view name, std::string& v) override { visit(name, v); }
  void operator()(std::string_view name, std::span<float> v) override;
  void rewind(bool loading) { loading_ = loading; }

 private:
  template <class T>
  void visit(std::string_view name, T& v) {
    if (loading_)
      v = std::get<T>(values_.at(std::string(name)));
    else
      values_[std::string(name)] = v;
  }
  std::map<std::string, std::variant<bool, std::int64_t, double, std::string, std::vector<float>>> values_;
  bool loading_ = false;
};

struct StateCopy {
  MemoryState values;
  Progress progress;
};

// Use between epochs, or between the last step of an epoch and its checkpoint.
StateCopy copy_state(Training&);
void restore_state(Training&, StateCopy&);

}  // namespace tutti
