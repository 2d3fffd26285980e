// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tutti/error.h"

namespace tutti {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::ofstream out(path, std::ios::binary);
  if (!out) throw Error(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  write(out);
  out.flush();
  if (!out) throw Error(fmt::format("writing '{}' failed (disk full?)", path));
}

}  // namespace tutti
