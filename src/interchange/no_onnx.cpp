// SPDX-License-Identifier: Apache-2.0
// A build without ONNX says what is missing.
#include "interchange/onnx_export.h"
#include "tutti/error.h"

namespace tutti::interchange {

bool has_onnx() { return false; }

OnnxSummary write_onnx(const std::string&, const graph::Graph&, std::span<const Tensor>,
                       const std::vector<std::size_t>&) {
  throw Error(
      "this trainer was built without ONNX\nfix: install protobuf-compiler, libprotobuf-dev and libonnx-dev, and build "
      "again (meson option onnx)");
}

}  // namespace tutti::interchange
