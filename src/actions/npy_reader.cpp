// SPDX-License-Identifier: Apache-2.0
#include "actions/npy_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "interchange/npy.h"
#include "interchange/tensor_file.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

// Values in the order of a sample, and how many sequences of how many steps.
struct InputArray {
  std::vector<float> values;
  std::size_t sequences = 0, steps = 1, elements = 1;
};

std::size_t dims_product(std::span<const std::uint64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>());
}

// Whether `dims` are `own` with neighbours put together, so that the values have the same order. Axes of one element
// count for nothing.
bool merges(std::span<const std::uint64_t> own, std::span<const std::uint64_t> dims) {
  std::size_t next = 0;
  for (const std::uint64_t d : dims) {
    std::uint64_t product = 1;
    while (product < d && next < own.size()) product *= own[next++];
    if (product != d) return false;
  }
  return dims_product(own.subspan(next)) == 1;
}

InputArray read_array(const Network::Input& input, const std::string& path, bool sequences) {
  interchange::NpyArray a = interchange::read_npy(path);
  InputArray read{std::move(a.values)};
  read.elements = input.shape.elements();
  // How many axes are in front of the sample: the others have its elements.
  const std::size_t most = std::min<std::size_t>(a.shape.size(), sequences ? 2 : 1);
  const auto own = interchange::reversed_axes(input.shape);
  const auto front_axes = [&](const auto& fits) {
    for (std::size_t front = most; front > 0; --front)
      if (fits(std::span<const std::uint64_t>(a.shape).subspan(front))) return front;
    return std::size_t{0};
  };
  // The axes of the input count before their product: (T, 1) is one sequence for an input of one element.
  std::size_t front = front_axes([&](auto rest) { return std::ranges::equal(rest, own); });
  if (front == 0) front = front_axes([&](auto rest) { return merges(own, rest); });
  if (front > 0) {
    read.sequences = sequences && front == 1 ? 1 : a.shape[0];
    if (sequences) read.steps = a.shape[front - 1];
    if (read.steps == 0) read.sequences = 0;
    return read;
  }
  std::vector<std::string> axes =
      sequences ? std::vector<std::string>{"sequences", "time"} : std::vector<std::string>{"samples"};
  for (const auto d : own) axes.push_back(fmt::format("{}", d));
  std::string wanted;
  for (const auto& axis : axes) wanted += (wanted.empty() ? "" : ", ") + axis;
  throw Error(
      fmt::format("'{}' has the shape {}, but the input '{}' needs ({})\nfix: reshape the array; axes are "
                  "those of the network in reverse (docs/export.md)",
                  path, interchange::shape_text(a.shape), input.name, wanted));
}

class ArrayReader final : public Reader {
 public:
  ArrayReader(std::vector<StreamInfo> streams, std::vector<InputArray> arrays)
      : streams_(std::move(streams)), arrays_(std::move(arrays)) {}
  const std::vector<StreamInfo>& streams() const override { return streams_; }
  std::int64_t sweep_samples() override { return static_cast<std::int64_t>(arrays_[0].sequences * arrays_[0].steps); }
  void start_epoch(const EpochPlan& plan) override {
    next_ = 0;
    at_once_ = std::max<std::size_t>(static_cast<std::size_t>(plan.minibatch) / std::max<std::size_t>(longest(), 1), 1);
  }
  bool takes_work_units() const override { return false; }

  const Batch* next() override {
    const std::size_t count = std::min(at_once_, arrays_[0].sequences - next_);
    if (count == 0) return nullptr;
    batch_.streams.clear();
    begins_.resize(arrays_.size());
    for (std::size_t s = 0; s < arrays_.size(); ++s) {
      const InputArray& a = arrays_[s];
      begins_[s].clear();
      for (std::size_t i = 0; i <= count; ++i) begins_[s].push_back(static_cast<std::int64_t>(i * a.steps));
      const std::size_t size = a.steps * a.elements;
      batch_.streams.push_back({.columns = count * a.steps,
                                .dense = std::span(a.values).subspan(next_ * size, count * size),
                                .values = {},
                                .indices = {},
                                .column_begin = {},
                                .sequence_begin = begins_[s]});
    }
    batch_.sequences = static_cast<std::int64_t>(count);
    batch_.samples = batch_.columns = batch_.global_samples = batch_.global_columns =
        static_cast<std::int64_t>(count * longest());
    batch_.position = static_cast<std::int64_t>(next_ * longest());
    next_ += count;
    return &batch_;
  }

 private:
  std::size_t longest() const { return std::ranges::max_element(arrays_, {}, &InputArray::steps)->steps; }

  std::vector<StreamInfo> streams_;
  std::vector<InputArray> arrays_;
  std::vector<std::vector<std::int64_t>> begins_;
  std::size_t next_ = 0, at_once_ = 1;
  Batch batch_;
};

}  // namespace

std::unique_ptr<Reader> read_arrays(const std::vector<Network::Input>& inputs, const std::vector<std::string>& files,
                                    bool sequences) {
  std::vector<StreamInfo> streams;
  std::vector<InputArray> arrays;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    streams.push_back({inputs[i].name, inputs[i].shape.elements(), false});
    arrays.push_back(read_array(inputs[i], files[i], sequences));
    if (arrays[i].sequences != arrays[0].sequences)
      throw Error(fmt::format("'{}' has {} samples, '{}' has {}\nfix: give all arrays the same first axis", files[0],
                              arrays[0].sequences, files[i], arrays[i].sequences));
  }
  return std::make_unique<ArrayReader>(std::move(streams), std::move(arrays));
}

}  // namespace tutti::actions
