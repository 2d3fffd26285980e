// SPDX-License-Identifier: Apache-2.0
#include "interchange/tensor_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "train/file.h"
#include "tutti/error.h"

namespace tutti::interchange {

std::vector<std::uint64_t> reversed_axes(const Shape& shape) { return {shape.dims.rbegin(), shape.dims.rend()}; }

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

const TensorEntry* TensorFile::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const TensorEntry& e, std::string_view wanted) { return e.name < wanted; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
  const File file = File::open(path);
  std::array<std::byte, 2> first{};
  if (file.size() >= first.size()) file.read(0, first);
  const bool zip = first[0] == std::byte{'P'} && first[1] == std::byte{'K'};
  return zip ? open_npz(path) : open_safetensors(path);
}

}  // namespace tutti::interchange
