// SPDX-License-Identifier: Apache-2.0
#include "base/launcher.h"

#include <cstdio>

namespace tutti::launcher {

void tell(std::string_view what, std::string_view model) {
  if (!std::getenv(kStory)) return;
  const std::string line = std::string(what).append(model).append("\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace tutti::launcher
