// SPDX-License-Identifier: Apache-2.0
#include "actions/compute_type.h"

namespace tutti::actions {

void describe_compute_type(config::Fields& f, ComputeType& type) {
  f.choice("computeType", type,
           {{"float32", ComputeType::float32},
            {"tf32", ComputeType::tf32},
            {"bfloat16", ComputeType::bfloat16},
            {"float16", ComputeType::float16}},
           "number type of matrix products and convolutions; weights, sums and all other operations are float32");
}

void check_compute_type(const ActionContext& context, ComputeType type) {
  if (supports(context.device, type)) return;
  const auto value = context.command.find("computeType");
  context.problems->add(Diagnostic{value ? value->where : context.command.where(),
                                   type == ComputeType::bfloat16
                                       ? "this processor cannot compute in bfloat16, which needs AVX-512 with BF16"
                                       : "the CPU computes in float32 and bfloat16 only; tf32 and float16 need a GPU",
                                   "write computeType = float32, or leave the key out"});
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
