// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

const Makers& makers() {
  static const Makers all = [] {
    Makers listed;
    for (const auto list :
         {list_delays, list_elementwise, list_images, list_local_convolution, list_normalization, list_products,
          list_ranking, list_ranks, list_recurrent, list_reductions, list_sequences, list_shape})
      list(listed);
    return listed;
  }();
  return all;
}

}  // namespace

bool has_kernel(const std::string& operation) { return makers().contains(operation); }

std::unique_ptr<Kernel> make_kernel(Instruction instruction) {
  const auto found = makers().find(instruction.operation);
  assert(found != makers().end() && "lowering left an operation without a kernel");
  return found->second(std::move(instruction));
}

}  // namespace tutti::graph
