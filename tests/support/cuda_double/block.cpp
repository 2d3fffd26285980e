// SPDX-License-Identifier: Apache-2.0
// Kernels, block after block. Every thread of a block is a fiber; a fiber runs until it waits at a barrier or for the
// other lanes of its warp. Threads that never wait share one fiber.
#include <cuda_runtime.h>

#include "fiber.h"
#include "order.h"
#include "place.h"
#include "queue.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <vector>

constinit thread_local cuda_double::Index threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_double {
namespace {

constexpr unsigned kMostThreads = 1024, kMostGrid = 65535;

struct Warp {
  Exchange exchange, ready;
  Meeting meeting = Meeting::barrier;
  std::uint32_t mask = 0, alive = 0;
  std::uint64_t round = 0;
  std::uint32_t barriers = 0;
};

struct Block {
  const std::function<void()>* thread = nullptr;
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
  std::fprintf(stderr, "cuda_double: %s\n", why);
  std::abort();
}

void become(unsigned thread) {
  block->thread_of[block->fiber] = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

Warp& my_warp() { return block->warps[block->thread_of[block->fiber] / 32]; }

void settle_warp(Warp& w) {
  if (w.exchange.present == 0 || (w.mask & w.alive & ~w.exchange.present) != 0) return;
  w.ready = w.exchange, w.exchange = {}, ++w.round, ++block->rounds;
  if (w.meeting == Meeting::barrier) ++w.barriers;
}

void settle_barrier() {
  if (block->at_barrier == 0 || block->at_barrier < block->alive) return;
  block->at_barrier = 0, ++block->barrier_round, ++block->rounds;
}

// Lets the others run until `done`.
template <class Done>
void wait_until(const Done& done) {
  const unsigned fiber = block->fiber;
  while (!done()) {
    block->fibers[fiber]->leave();
    block->fiber = fiber;
    become(block->thread_of[fiber]);
  }
}

// A fiber takes the next thread that has not started, until there is none.
void fiber_main() {
  const unsigned fiber = block->fiber;
  while (block->next < block->threads) {
    const unsigned thread = block->start[block->next++];
    block->fiber = fiber;
    become(thread);
    try {
      (*block->thread)();
    } catch (...) {
      block->failure = std::current_exception();
    }
    block->fiber = fiber;
    --block->alive;
    Warp& w = block->warps[thread / 32];
    w.alive &= ~(1u << thread % 32);
    settle_warp(w), settle_barrier();
  }
  block->thread_of[fiber] = kMostThreads;
  block->fibers[fiber]->leave();
}

void start_fiber() {
  Block& b = *block;
  const auto fiber = static_cast<unsigned>(b.thread_of.size());
  b.thread_of.push_back(kMostThreads), b.resume.push_back(fiber);
  if (b.fibers.size() == fiber) b.fibers.push_back(std::make_unique<Fiber>());
  b.fiber = fiber;
  b.fibers[fiber]->start(fiber_main);
}

// Everybody who has started may go on, but for the warps that are held back: one bit for each.
void resume_fibers(Order& order, std::uint32_t held) {
  Block& b = *block;
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

void run_block(Order& order) {
  Block& b = *block;
  b.next = 0, b.alive = b.threads, b.at_barrier = 0, b.thread_of.clear(), b.resume.clear();
  number(b.start, b.threads, order);
  b.warps.assign((b.threads + 31) / 32, {});
  for (unsigned t = 0; t < b.threads; ++t) b.warps[t / 32].alive |= 1u << t % 32;
  bool moved = true;
  while (b.alive > 0 && !b.failure) {
    const bool starts = b.next < b.threads;  // somebody waits, or nobody has started: one more fiber
    if (starts && (b.thread_of.empty() || order.below(4) != 3)) {
      start_fiber();
      continue;
    }
    const std::uint64_t rounds = b.rounds;
    const unsigned alive = b.alive;
    const std::uint32_t held = moved ? order.bits() : 0;
    resume_fibers(order, held);
    moved = b.alive != alive || b.rounds != rounds;
    if (!moved && !starts && held == 0) stop("the threads of a block wait for each other for ever");
  }
}

}  // namespace

bool in_kernel() { return block && block->works; }
Place place() {
  const unsigned thread = block->thread_of[block->fiber];
  return {block->launch, block->number, thread, static_cast<std::uint32_t>(block->barrier_round), my_warp().barriers};
}
bool on_own_stack(const void* p) { return block->fibers[block->fiber]->holds(p); }

unsigned lane() { return block->thread_of[block->fiber] % 32; }

void block_barrier() {
  const std::uint64_t round = block->barrier_round;
  ++block->at_barrier;
  settle_barrier();
  wait_until([&] { return block->barrier_round != round; });
}

const Exchange& exchange(Meeting meeting, std::uint32_t mask, std::uint64_t mine) {
  Warp& w = my_warp();
  const std::uint32_t me = 1u << lane();
  if (!(mask & me)) stop("a lane is not in the mask that it passes");
  if (w.exchange.present == 0)
    w.meeting = meeting, w.mask = mask;
  else if (w.meeting != meeting || w.mask != mask)
    stop("lanes of a warp meet in different calls, or by different masks");
  const std::uint64_t round = w.round;
  w.exchange.value[lane()] = mine, w.exchange.present |= me;
  settle_warp(w);
  wait_until([&] { return w.round != round; });
  return w.ready;
}

namespace {

bool fits(const cudaLaunchConfig_t& config) {
  const std::size_t threads = std::size_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z;
  return threads > 0 && threads <= kMostThreads && config.blockDim.z <= 64 && config.dynamicSmemBytes == 0 &&
         config.gridDim.x > 0 && config.gridDim.x <= 0x7fffffffu && config.gridDim.y > 0 && config.gridDim.z > 0 &&
         config.gridDim.y <= kMostGrid && config.gridDim.z <= kMostGrid;
}

void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  static thread_local Block own;
  static thread_local std::vector<unsigned> blocks;
  Order& order = Order::of_thread();
  const dim3 grid = config.gridDim;
  block = &own;
  own.thread = &thread;
  own.threads = config.blockDim.x * config.blockDim.y * config.blockDim.z;
  blockDim = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  gridDim = {grid.x, grid.y, grid.z};
  number(blocks, std::size_t{grid.x} * grid.y * grid.z, order);
  static std::atomic<std::uint64_t> launches = 0;
  own.launch = ++launches;
  for (const unsigned b : blocks) {
    own.number = b;
    blockIdx = {b % grid.x, b / grid.x % grid.y, b / (grid.x * grid.y)};
    own.works = true;
    run_block(order);
    own.works = false;
    if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
  }
}

}  // namespace

cudaError_t enqueue(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  if (!fits(config)) return cudaErrorInvalidConfiguration;
  enqueue(config.stream, [config, thread = std::move(thread)] { run(config, thread); });
  return cudaSuccess;
}

}  // namespace cuda_double
