// SPDX-License-Identifier: Apache-2.0
// whole_model.h -- files hold whole parameters, whatever their placement: brings the parts of the ranks together before
// they are saved, and takes this rank's part of what was loaded.
#pragma once

#include <memory>
#include <vector>

#include "train/model_file.h"
#include "tutti/archive.h"
#include "tutti/communicator.h"

namespace tutti {

// A view of a network with whole values. Those that this rank holds a part of are copies; `ranks` hold the other parts.
class WholeModel {
 public:
  WholeModel(Network&, Communicator* ranks);
  void gather();   // copies are complete on rank 0 afterwards. Collective.
  void scatter();  // takes this rank's parts from the copies, which must be complete on every rank
  ModelView view;

 private:
  struct Part {
    ParameterShard shard;
    std::span<float> mine;
    std::vector<float> whole;
  };
  Communicator* ranks_;
  std::vector<std::unique_ptr<Part>> parts_;
};

// Archives state by parameter ("momentum/<slice>") as whole values. Saving is collective over `ranks`; `to` is null on
// ranks that do not save. Loading: `to` gives every rank the whole values.
class WholeArchive final : public Archive {
 public:
  WholeArchive(Archive* to, bool loading, const Parameters& parameters, Communicator& ranks)
      : to_(to), loading_(loading), parameters_(parameters), ranks_(ranks) {}
  bool loading() const override { return loading_; }
  bool has(std::string_view name) const override { return !to_ || to_->has(name); }
  void operator()(std::string_view name, bool& v) override { pass(name, v); }
  void operator()(std::string_view name, std::int64_t& v) override { pass(name, v); }
  void operator()(std::string_view name, double& v) override { pass(name, v); }
  void operator()(std::string_view name, std::string& v) override { pass(name, v); }
  void operator()(std::string_view name, std::span<float> v) override;

 private:
  template <class T>
  void pass(std::string_view name, T& v) {
    if (to_) (*to_)(name, v);
  }
  Archive* to_;
  const bool loading_;
  const Parameters& parameters_;
  Communicator& ranks_;
};

}  // namespace tutti
