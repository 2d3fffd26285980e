// SPDX-License-Identifier: Apache-2.0
// Kernels, block after block. Every thread of a block is a fiber; a fiber runs until it waits at a barrier or for the
// other lanes of its warp. Threads that never wait share one fiber.
#include <cuda_runtime.h>

#include "fiber.h"
#include "order.h"
#include "place.h"
#include "queue.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

constinit thread_local cuda_emulator::Index threadIdx, blockIdx, blockDim, gridDim;

// The kernels' declaration of the memory that a launch asks for; CUDA defines it for each block. Behind it stands what
// tells that a block wrote beyond.
namespace tutti::cuda {
extern thread_local uint4 asked_for[];
constinit thread_local uint4 asked_for[cuda_emulator::most_shared_memory / sizeof(uint4) + 1] = {};
}  // namespace tutti::cuda

namespace cuda_emulator {
namespace {

constexpr unsigned kMostThreads = 1024, kMostGrid = 65535;

struct Warp {
  Exchange exchange, ready;
  Collective collective = Collective::barrier;
  std::uint32_t mask = 0, alive = 0;
  std::uint64_t round = 0;
  std::uint32_t barriers = 0;
};

struct Block {
  const std::function<void()>* thread = nullptr;
  std::vector<Index> index_of;  // of each thread
  Index* index = nullptr;       // of the thread that runs
  unsigned threads = 0, next = 0, alive = 0, at_barrier = 0;
  std::uint64_t rounds = 0, barrier_round = 0;  // rounds: of all warps and of the barrier
  std::vector<std::unique_ptr<Fiber>> fibers;   // kept for the next kernel
  std::vector<unsigned> thread_of;              // what a fiber runs now
  std::vector<unsigned> start, resume;          // the orders of threads and of fibers
  std::vector<Warp> warps;
  unsigned fiber = 0, number = 0;
  bool works = false;  // a fiber runs
  std::uint64_t launch = 0;
  std::exception_ptr failure;
};

thread_local Block* block = nullptr;

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "cuda_emulator: %s\n", why);
  std::abort();
}

void become(Block& b, unsigned thread) {
  b.thread_of[b.fiber] = thread;
  *b.index = b.index_of[thread];
}

void finish_warp(Block& b, Warp& w) {
  if (w.exchange.present == 0 || (w.mask & w.alive & ~w.exchange.present) != 0) return;
  w.ready = w.exchange, w.exchange = {}, ++w.round, ++b.rounds;
  if (w.collective == Collective::barrier) ++w.barriers;
}

void finish_barrier(Block& b) {
  if (b.at_barrier == 0 || b.at_barrier < b.alive) return;
  b.at_barrier = 0, ++b.barrier_round, ++b.rounds;
}

// Lets the others run until `done`.
template <class Done>
void wait_until(Block& b, const Done& done) {
  const unsigned fiber = b.fiber;
  while (!done()) {
    b.fibers[fiber]->leave();
    b.fiber = fiber;
    become(b, b.thread_of[fiber]);
  }
}

// A fiber takes the next thread that has not started, until there is none.
void fiber_main() {
  Block& b = *block;
  const unsigned fiber = b.fiber;
  while (b.next < b.threads) {
    const unsigned thread = b.start[b.next++];
    b.fiber = fiber;
    become(b, thread);
    try {
      (*b.thread)();
    } catch (...) {
      b.failure = std::current_exception();
    }
    b.fiber = fiber;
    --b.alive;
    Warp& w = b.warps[thread / 32];
    w.alive &= ~(1u << thread % 32);
    finish_warp(b, w), finish_barrier(b);
  }
  b.thread_of[fiber] = kMostThreads;
  b.fibers[fiber]->leave();
}

void start_fiber(Block& b) {
  const auto fiber = static_cast<unsigned>(b.thread_of.size());
  b.thread_of.push_back(kMostThreads), b.resume.push_back(fiber);
  if (b.fibers.size() == fiber) b.fibers.push_back(std::make_unique<Fiber>());
  b.fiber = fiber;
  b.fibers[fiber]->start(fiber_main);
}

// Everybody who has started may go on, but for the warps that are held back: one bit for each.
void resume_fibers(Block& b, Order& order, std::uint32_t held) {
  order.shuffle(b.resume);
  for (const unsigned fiber : b.resume)
    if (b.thread_of[fiber] < kMostThreads && !(held >> b.thread_of[fiber] / 32 & 1u))
      b.fiber = fiber, b.fibers[fiber]->resume();
}

void number(std::vector<unsigned>& numbers, std::size_t count, Order& order) {
  numbers.resize(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  order.shuffle(numbers);
}

void clear(Block& b) {
  b.next = 0, b.alive = b.threads, b.at_barrier = 0, b.thread_of.clear(), b.resume.clear();
  unsigned left = b.threads;
  for (Warp& w : b.warps) {
    if (w.exchange.present != 0) w.exchange = {};  // a block has failed
    w.alive = left < 32 ? (1u << left) - 1 : ~0u, w.round = 0, w.barriers = 0;
    left -= std::min(left, 32u);
  }
}

void run_block(Block& b, Order& order) {
  clear(b);
  if (order.drawn()) number(b.start, b.threads, order);
  bool moved = true;
  while (b.alive > 0 && !b.failure) {
    const bool starts = b.next < b.threads;  // somebody waits, or nobody has started: one more fiber
    if (starts && (b.thread_of.empty() || order.below(4) != 3)) {
      start_fiber(b);
      continue;
    }
    const std::uint64_t rounds = b.rounds;
    const unsigned alive = b.alive;
    const std::uint32_t held = moved ? order.bits() : 0;
    resume_fibers(b, order, held);
    moved = b.alive != alive || b.rounds != rounds;
    if (!moved && !starts && held == 0) stop("the threads of a block wait for each other for ever");
  }
}

}  // namespace

std::optional<Place> place(const void* p) {
  const Block* const b = block;
  if (!b || !b->works || (p && b->fibers[b->fiber]->holds(p))) return std::nullopt;
  const unsigned thread = b->thread_of[b->fiber];
  return Place{b->launch, b->number, thread, static_cast<std::uint32_t>(b->barrier_round),
               b->warps[thread / 32].barriers};
}

unsigned lane() {
  const Block& b = *block;
  return b.thread_of[b.fiber] % 32;
}

void block_barrier() {
  Block& b = *block;
  const std::uint64_t round = b.barrier_round;
  ++b.at_barrier;
  finish_barrier(b);
  wait_until(b, [&] { return b.barrier_round != round; });
}

const Exchange& exchange(Collective collective, std::uint32_t mask, std::uint64_t mine) {
  Block& b = *block;
  const unsigned thread = b.thread_of[b.fiber], lane = thread % 32;
  Warp& w = b.warps[thread / 32];
  const std::uint32_t me = 1u << lane;
  if (!(mask & me)) stop("a lane is not in the mask that it passes");
  if (w.exchange.present == 0)
    w.collective = collective, w.mask = mask;
  else if (w.collective != collective || w.mask != mask)
    stop("lanes of a warp meet in different calls, or by different masks");
  const std::uint64_t round = w.round;
  w.exchange.value[lane] = mine, w.exchange.present |= me;
  finish_warp(b, w);
  wait_until(b, [&] { return w.round != round; });
  return w.ready;
}

namespace {

bool fits(const cudaLaunchConfig_t& config) {
  const std::size_t threads = std::size_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z;
  return threads > 0 && threads <= kMostThreads && config.blockDim.z <= 64 && config.gridDim.x > 0 &&
         config.gridDim.x <= 0x7fffffffu && config.gridDim.y > 0 && config.gridDim.z > 0 &&
         config.gridDim.y <= kMostGrid && config.gridDim.z <= kMostGrid;
}

// What launches of a kernel may ask for.
struct SharedMemory {
  std::mutex mutex;
  std::map<const void*, std::size_t> most;
};
SharedMemory& shared_memory() {
  static SharedMemory s;
  return s;
}
std::size_t shared_memory_of(const void* kernel) {
  constexpr std::size_t without_asking = std::size_t{48} << 10;
  const std::lock_guard lock(shared_memory().mutex);
  const auto found = shared_memory().most.find(kernel);
  return found == shared_memory().most.end() ? without_asking : found->second;
}

// Bytes behind the shared memory that a block may use.
class Fence {
 public:
  explicit Fence(std::size_t bytes) : at_(reinterpret_cast<unsigned char*>(tutti::cuda::asked_for) + bytes) {
    std::fill_n(at_, width, mark);
  }
  bool stands() const { return std::count(at_, at_ + width, mark) == width; }

 private:
  static constexpr std::ptrdiff_t width = 16;
  static constexpr unsigned char mark = 0xa5;
  unsigned char* at_;
};

// What all blocks of a kernel have in common.
void prepare(Block& b, const cudaLaunchConfig_t& config, const std::function<void()>& thread, Order& order) {
  static std::atomic<std::uint64_t> launches = 0;
  const dim3 size = config.blockDim;
  b.thread = &thread, b.launch = ++launches, b.index = &threadIdx;
  b.threads = size.x * size.y * size.z;
  b.warps.resize((b.threads + 31) / 32);
  b.index_of.clear();
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) b.index_of.push_back({x, y, z});
  if (!order.drawn()) number(b.start, b.threads, order);
}

// One kernel at a time, under the device's mutex. What it needs outlives every thread of the host: one that ends may
// wait for the streams of others when its own variables are gone.
void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  static Block& own = *new Block;
  static std::vector<unsigned>& blocks = *new std::vector<unsigned>;
  Order& order = Order::of_thread();
  const dim3 grid = config.gridDim;
  block = &own;
  prepare(own, config, thread, order);
  blockDim = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  gridDim = {grid.x, grid.y, grid.z};
  number(blocks, std::size_t{grid.x} * grid.y * grid.z, order);
  const Fence fence(config.dynamicSmemBytes);
  for (const unsigned b : blocks) {
    own.number = b;
    blockIdx = {b % grid.x, b / grid.x % grid.y, b / (grid.x * grid.y)};
    own.works = true;
    run_block(own, order);
    own.works = false;
    if (!fence.stands()) stop("a block wrote beyond the shared memory that its launch asked for");
    if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
  }
}

}  // namespace

cudaError_t enqueue(const void* kernel, const cudaLaunchConfig_t& config, std::function<void()> thread) {
  static const bool has_kernels = !std::getenv("TUTTI_CUDA_EMULATOR_WITHOUT_KERNELS");  // as if built for other GPUs
  if (!has_kernels) return cudaErrorNoKernelImageForDevice;
  if (!fits(config)) return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes > shared_memory_of(kernel)) return cudaErrorInvalidValue;
  if (!is_of_this_device(config.stream)) return cudaErrorInvalidResourceHandle;
  return enqueue(config.stream, [config, thread = std::move(thread)] { run(config, thread); });
}

}  // namespace cuda_emulator

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<std::size_t>(value) > cuda_emulator::most_shared_memory) return cudaErrorInvalidValue;
  cuda_emulator::SharedMemory& s = cuda_emulator::shared_memory();
  const std::lock_guard lock(s.mutex);
  s.most[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
