// SPDX-License-Identifier: Apache-2.0
#include "actions/together.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/memory.h"
#include "tutti/error.h"

namespace tutti::actions {

bool together(Communicator& world, const std::function<void()>& part) {
  std::string failure;
  bool no_memory = false;
  try {
    part();
  } catch (const std::bad_alloc&) {
    failure = kOutOfMemory;
    no_memory = true;
  } catch (const std::exception& e) {
    failure = e.what();
    if (failure.empty()) failure = "failed";
    if (failure.back() == '\n') failure.pop_back();
  }
  const auto length = static_cast<std::int64_t>(failure.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)));
  int first = 0;
  while (first < world.size() && lengths[static_cast<std::size_t>(first)] == 0) ++first;
  if (first == world.size()) return true;

  failure.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(first)]));
  world.broadcast(first, std::as_writable_bytes(std::span(failure.data(), failure.size())));
  world.broadcast(first, std::as_writable_bytes(std::span(&no_memory, 1)));
  if (first > 0) failure = fmt::format("[rank {}] {}", first, failure);
  if (no_memory) throw Error(failure);
  if (world.rank() == 0) std::fprintf(stderr, "%s\n", failure.c_str());
  return false;
}

}  // namespace tutti::actions
