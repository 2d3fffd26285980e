// SPDX-License-Identifier: Apache-2.0
// Kernels compiled with -fsanitize=thread tell of everything they read and write; but it is not the sanitizer of that
// name that they tell, it is this file, which knows what orders the threads of a kernel: barriers of their block and of
// their warp, nothing else. Two threads that touch the same bytes without one between them, one of them writing, end
// the test, whether or not the order they ran in did any harm; so does shared memory that is read before it is written,
// and an address that is not a multiple of its access. What is touched by accesses of less than four bytes and by
// larger ones in the same kernel is watched for each kind by itself.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "cuda_runtime.h"
#include "place.h"

namespace cuda_emulator {
namespace {

struct Access {
  const void* by = nullptr;  // the instruction
  Place place;
};

// One word, or one byte, in the launch that touched it last; of shared memory, in the block. Of its readers two
// are kept, for who writes is one thread.
struct Cell {
  std::uint64_t launch = 0;
  std::uint32_t block = 0;
  Access writer, readers[2];
};

// Kernels run one at a time, whichever thread of the host runs them.
class Cells {
 public:
  Cell& at(std::uintptr_t number) {
    const std::uintptr_t page = number / cells_of_page;
    Recent& recent = recent_[page % recent_.size()];
    if (page != recent.number || !recent.page) {
      auto& cells = pages_[page];
      if (!cells) cells = std::make_unique<Page>();
      recent = {page, cells.get()};
    }
    return (*recent.page)[number % cells_of_page];
  }

 private:
  static constexpr std::size_t cells_of_page = 1024;
  using Page = std::array<Cell, cells_of_page>;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::array<Recent, 64> recent_;  // kernels go through several arrays at once
};

// Where shared memory lies: among the thread-local variables of this library, beside what says which thread runs.
class SharedMemory {
 public:
  bool holds(std::uintptr_t p) {
    if (begin_ == end_) dl_iterate_phdr(look_at, this);
    if (p < begin_ || p >= end_) return false;
    for (const Index* known : {&threadIdx, &blockIdx, &blockDim, &gridDim})
      if (const auto at = reinterpret_cast<std::uintptr_t>(known); p >= at && p < at + sizeof *known) return false;
    return true;
  }

 private:
  static int look_at(dl_phdr_info* library, std::size_t, void* self) {
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const auto& part = library->dlpi_phdr[i];
      const auto begin = reinterpret_cast<std::uintptr_t>(library->dlpi_tls_data), end = begin + part.p_memsz;
      const auto known = reinterpret_cast<std::uintptr_t>(&threadIdx);
      if (part.p_type != PT_TLS || known < begin || known >= end) continue;
      static_cast<SharedMemory*>(self)->begin_ = begin, static_cast<SharedMemory*>(self)->end_ = end;
      return 1;
    }
    return 0;
  }
  std::uintptr_t begin_ = 0, end_ = 0;
};

Cells& of_words = *new Cells;
Cells& of_bytes = *new Cells;

// In words that addr2line takes.
void tell(const char* what, const Access& a) {
  Dl_info library{};
  dladdr(a.by, &library);
  const auto offset = reinterpret_cast<std::uintptr_t>(a.by) - reinterpret_cast<std::uintptr_t>(library.dli_fbase);
  std::fprintf(stderr, "  %s by block %u, thread %u: addr2line -Cfie %s 0x%zx\n", what, a.place.block, a.place.thread,
               library.dli_fname ? library.dli_fname : "?", static_cast<std::size_t>(offset - 1));
}

[[noreturn]] void end(const char* problem, const Access& now, const char* doing, const Access* before = nullptr,
                      const char* did = nullptr) {
  std::fprintf(stderr, "cuda_emulator: %s\n", problem);
  tell(doing, now);
  if (before) tell(did, *before);
  std::abort();
}

bool ordered(const Access& before, const Place& now) {
  const Place& p = before.place;
  if (p.block != now.block) return false;
  return p.thread == now.thread || p.barriers < now.barriers ||
         (p.thread / 32 == now.thread / 32 && p.warp_barriers < now.warp_barriers);
}

void check(const Access& before, const Access& now, const char* did, const char* doing) {
  if (before.by && !ordered(before, now.place))
    end("two threads touch the same memory with nothing between them", now, doing, &before, did);
}

void read(Cell& cell, const Access& now, bool shared) {
  if (shared && !cell.writer.by) end("shared memory is read before it is written", now, "read");
  check(cell.writer, now, "written", "read");
  for (Access& reader : cell.readers)
    if (!reader.by || ordered(reader, now.place)) {
      reader = now;
      return;
    }
}

void write(Cell& cell, const Access& now, bool) {
  check(cell.writer, now, "written", "written");
  for (Access& reader : cell.readers) check(reader, now, "read", "written"), reader.by = nullptr;
  cell.writer = now;
}

template <auto Touch>
void touch(const volatile void* p, std::size_t bytes, const void* by) {
  const std::optional<Place> where = place(const_cast<const void*>(p));
  if (!where) return;
  static thread_local SharedMemory shared_memory;
  const Access now{by, *where};
  const auto first = reinterpret_cast<std::uintptr_t>(p);
  const bool shared = shared_memory.holds(first);
  const std::size_t unit = bytes < 4 ? 1 : 4;
  Cells& cells = bytes < 4 ? of_bytes : of_words;
  for (std::uintptr_t at = first; at < first + bytes; at += unit) {
    Cell& cell = cells.at(at / unit);
    if (cell.launch != now.place.launch || (shared && cell.block != now.place.block))
      cell = {now.place.launch, now.place.block, {}, {}};
    Touch(cell, now, shared);
  }
}

template <auto Touch, std::size_t Bytes>
void touch_whole(const volatile void* p, const void* by) {
  if (reinterpret_cast<std::uintptr_t>(p) % Bytes != 0)
    if (const auto where = place())
      end("an address is not a multiple of what is read or written there", {by, *where}, "touched");
  touch<Touch>(p, Bytes, by);
}

}  // namespace
}  // namespace cuda_emulator

// What the compiler calls. It says "unaligned" where it makes of an access several smaller ones.
#define TUTTI_ACCESS(bytes)                                                                  \
  void __tsan_read##bytes(void* p) {                                                         \
    cuda_emulator::touch_whole<cuda_emulator::read, bytes>(p, __builtin_return_address(0));  \
  }                                                                                          \
  void __tsan_write##bytes(void* p) {                                                        \
    cuda_emulator::touch_whole<cuda_emulator::write, bytes>(p, __builtin_return_address(0)); \
  }                                                                                          \
  void __tsan_unaligned_read##bytes(void* p) {                                               \
    cuda_emulator::touch<cuda_emulator::read>(p, bytes, __builtin_return_address(0));        \
  }                                                                                          \
  void __tsan_unaligned_write##bytes(void* p) {                                              \
    cuda_emulator::touch<cuda_emulator::write>(p, bytes, __builtin_return_address(0));       \
  }

extern "C" {
TUTTI_ACCESS(1)
TUTTI_ACCESS(2)
TUTTI_ACCESS(4)
TUTTI_ACCESS(8)
TUTTI_ACCESS(16)
void __tsan_read_range(void* p, unsigned long bytes) {
  cuda_emulator::touch<cuda_emulator::read>(p, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long bytes) {
  cuda_emulator::touch<cuda_emulator::write>(p, bytes, __builtin_return_address(0));
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
}
