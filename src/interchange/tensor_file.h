// SPDX-License-Identifier: Apache-2.0
// tensor_file.h -- named tensors in the files of other programs: safetensors and npz. `trainer export` writes them,
// `trainer import` reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/number_kind.h"
#include "tutti/shape.h"

namespace tutti::interchange {

// The axes of a shape as these files list them: there the last axis is the fastest in memory, here the first one, so
// the same bytes have the axes reversed.
std::vector<std::uint64_t> reversed_axes(const Shape&);
std::string shape_text(std::span<const std::uint64_t>);  // "(2, 50)"

struct TensorEntry {
  std::string name;
  std::vector<std::uint64_t> shape;
  NumberKind kind = NumberKind::float32;
};

// An open file whose table has been read and checked against its size.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  // Sorted by name.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(std::string_view name) const;
  // The values in the order of memory in which the last axis is the fastest. Throws Error.
  virtual std::vector<float> read(const TensorEntry&) = 0;

 protected:
  std::vector<TensorEntry> entries_;
};

// By content: npz files are zip archives. Throws Error with file and byte if it is neither, or damaged.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);
std::unique_ptr<TensorFile> open_safetensors(const std::string& path);
std::unique_ptr<TensorFile> open_npz(const std::string& path);

struct Tensor {
  std::string name;
  Shape shape;
  std::span<const float> values;
};
// The same tensors give the same bytes. A file appears under its name only when it is complete. Throws Error.
void write_safetensors(const std::string& path, std::span<const Tensor>);
void write_npz(const std::string& path, std::span<const Tensor>);

}  // namespace tutti::interchange
