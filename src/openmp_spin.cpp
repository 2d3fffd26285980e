// SPDX-License-Identifier: Apache-2.0
#include "openmp_spin.h"

#include <unistd.h>

namespace tutti {
namespace {

char spin_count[] = "GOMP_SPINCOUNT=2000";
char* path = nullptr;  // the variable

// Neither the C library nor a sanitizer works yet when the next two are called.
[[gnu::no_sanitize("address", "undefined", "thread")]]
bool sets(const char* entry, const char* name) {
  for (; *name; ++entry, ++name)
    if (*entry != *name) return false;
  return *entry == '=';
}

// libgomp reads the environment when it is loaded. Before that, variables can be replaced but not added.
[[gnu::no_sanitize("address", "undefined", "thread")]]
void replace_path(int, char**, char** environment) {
  char** found = nullptr;
  for (; *environment; ++environment) {
    if (sets(*environment, "GOMP_SPINCOUNT") || sets(*environment, "OMP_WAIT_POLICY")) return;
    if (sets(*environment, "PATH")) found = environment;
  }
  if (!found) return;  // waits are long ones
  path = *found;
  *found = spin_count;
}

// Called by the dynamic linker before it initialises any library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = replace_path;

}  // namespace

void limit_openmp_spinning() {
  for (char** variable = environ; path && *variable; ++variable)
    if (*variable == spin_count) *variable = path;
}

}  // namespace tutti
