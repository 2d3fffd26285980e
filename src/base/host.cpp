// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/instruction_set.h"
#include "base/write_root.h"
#include "tutti/error.h"

namespace tutti {

#if defined(__x86_64__)
namespace {

// oneDNN's own limit holds for our loops too: layouts and kernels of the two must fit.
InstructionSet allowed_set() {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* const value = std::getenv(name);
    if (!value) continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    if (text.starts_with("AVX2")) return InstructionSet::avx2;
    if (text == "SSE41" || text == "AVX") return InstructionSet::portable;
  }
  return InstructionSet::avx512;
}

}  // namespace

InstructionSet widest_set() {
  static const InstructionSet allowed = allowed_set();
  // clang has a name for the conversion of halves in later versions only.
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool halves = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") || !halves)
    return InstructionSet::portable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return std::min(allowed, wide ? InstructionSet::avx512 : InstructionSet::avx2);
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
  require_in_write_root(path);
  std::ofstream out(path, std::ios::binary);
  if (!out) throw Error(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  write(out);
  out.flush();
  if (!out) throw Error(fmt::format("writing '{}' failed (disk full?)", path));
}

}  // namespace tutti
