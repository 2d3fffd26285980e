// SPDX-License-Identifier: Apache-2.0
#include "actions/compute_type.h"

namespace tutti::actions {

void describe_compute_type(config::Fields& f, ComputeType& type) {
  f.choice("computeType", type, {{"float32", ComputeType::float32}, {"bfloat16", ComputeType::bfloat16}},
           "numbers of products and convolutions; weights, sums and everything else are float32");
  if (!supports("cpu", type))
    f.problem("computeType", "this processor does not compute in bfloat16: that needs AVX-512 with BF16",
              "write computeType = float32, or leave the key out");
}

ComputeType compute_type_of(const config::Record& command) {
  ComputeType type = ComputeType::float32;
  Problems said_already;
  config::Notices ignored;
  config::read_open_fields(
      command, "", [&](config::Fields& f) { describe_compute_type(f, type); }, said_already, ignored);
  return type;
}

}  // namespace tutti::actions
