// SPDX-License-Identifier: Apache-2.0
// kernel_record.h -- which libraries compute the large products of a training; kept in the checkpoint, so that a
// resumed run gives the same bits.
#pragma once

#include <memory>
#include <string>

#include "tutti/archive.h"
#include "tutti/kernel_choices.h"

namespace tutti {

struct KernelRecord {
  std::shared_ptr<KernelChoices> used = std::make_shared<KernelChoices>();  // by the network of this rank
  std::string lines;    // the choices of all processors of the run: kind, library, what product_libraries() says
  std::string summary;  // for the log; empty without large products
};

// `lines` in the state of a checkpoint; older ones have none.
inline void archive_kernels(Archive& a, std::string& lines) {
  constexpr const char* name = "kernel choices";
  if (a.loading() ? a.has(name) : !lines.empty()) a(name, lines);
}

}  // namespace tutti
