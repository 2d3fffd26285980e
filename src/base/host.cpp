// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/instruction_set.h"
#include "tutti/error.h"

namespace tutti {

#if defined(__x86_64__)
InstructionSet widest_set() {
  // clang has a name for the conversion of halves in later versions only.
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool halves = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") || !halves)
    return InstructionSet::portable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? InstructionSet::avx512 : InstructionSet::avx2;
}
#else
InstructionSet widest_set() { return InstructionSet::portable; }
#endif

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
