// SPDX-License-Identifier: Apache-2.0
// Ranks as threads. All ranks of a run share one mutex and one condition variable: simple enough to be obviously
// correct, and fast enough for tests. Bytes are copied once, from the sender's to the receiver's memory.
#include "comm/threads.h"
#include "base/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/error.h"
#include "tutti/parameters.h"
#include "tutti/shared_memory.h"

namespace tutti {
namespace {

// Shared by every communicator of one run, also by those that split() makes.
struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
  bool failed = false;
  std::exception_ptr first;  // what failed first

  void fail(const std::exception_ptr& reason);
};

// Thrown in ranks that waited for a rank that failed; run_ranks drops it.
struct PeerFailed : Error {
  PeerFailed() : Error("another rank failed") {}
};

void Hub::fail(const std::exception_ptr& reason) {
  bool of_peer = false;
  try {
    std::rethrow_exception(reason);
  } catch (const PeerFailed&) {
    of_peer = true;
  } catch (...) {
  }
  const std::lock_guard lock(mutex);
  if (!of_peer && !first) first = reason;
  failed = true;
  changed.notify_all();
}

class ThreadTransfer;

// Transfers that wait for their peer, in order of start. A transfer brings its own element, so that starting one
// allocates nothing.
using Queue = std::list<ThreadTransfer*>;

// A group of ranks.
struct World {
  World(std::shared_ptr<Hub> h, int n)
      : hub(std::move(h)), size(n), pairs(static_cast<std::size_t>(n * n)), slots(static_cast<std::size_t>(n)) {}
  std::shared_ptr<Hub> hub;
  int size;
  std::vector<Queue> pairs;  // [from * size + to]
  struct Slot {
    const std::byte* bytes = nullptr;
    std::size_t count = 0;
    int color = 0;
    std::shared_ptr<World> part;
    std::shared_ptr<FloatBuffer> memory;
  };
  std::vector<Slot> slots;
  int arrived = 0;
  std::uint64_t round = 0;
};

class ThreadTransfer : public Transfer {
 public:
  ThreadTransfer(std::shared_ptr<World> world, std::size_t pair, int tag, const std::byte* source, std::byte* target,
                 std::size_t bytes)
      : world_(std::move(world)),
        pair_(pair),
        tag_(tag),
        source_(source),
        target_(target),
        planned_(bytes),
        bytes_(bytes) {}
  ~ThreadTransfer() override {
    const std::lock_guard lock(world_->hub->mutex);
    if (waiting_) leave();
  }
  ThreadTransfer(const ThreadTransfer&) = delete;
  ThreadTransfer& operator=(const ThreadTransfer&) = delete;

  void start() override { start(planned_); }
  void start(std::size_t bytes) override {
    Hub& hub = *world_->hub;
    const std::lock_guard lock(hub.mutex);
    assert(!waiting_ && bytes <= planned_);
    bytes_ = bytes;
    if (hub.failed) throw PeerFailed();
    for (ThreadTransfer* const other : queue()) {
      if (other->tag_ != tag_ || (other->source_ != nullptr) == (source_ != nullptr)) continue;
      if (other->bytes_ != bytes_)
        throw Error(fmt::format("a message of tag {} has {} bytes on one side and {} on the other", tag_, other->bytes_,
                                bytes_));
      if (bytes_ > 0) std::memcpy(target_ ? target_ : other->target_, source_ ? source_ : other->source_, bytes_);
      other->leave();
      hub.changed.notify_all();
      return;
    }
    waiting_ = true;
    queue().splice(queue().end(), element_);
  }

  bool done() override {
    const std::lock_guard lock(world_->hub->mutex);
    if (waiting_ && world_->hub->failed) throw PeerFailed();
    return !waiting_;
  }

  bool complete() const override {
    const std::lock_guard lock(world_->hub->mutex);
    return !waiting_;
  }

  void wait() override {
    Hub& hub = *world_->hub;
    std::unique_lock lock(hub.mutex);
    hub.changed.wait(lock, [&] { return !waiting_ || hub.failed; });
    if (waiting_) throw PeerFailed();
  }

 private:
  Queue& queue() { return world_->pairs[pair_]; }
  void leave() {
    element_.splice(element_.end(), queue(), place_);
    waiting_ = false;
  }

  std::shared_ptr<World> world_;
  std::size_t pair_;
  int tag_;
  const std::byte* source_;  // null when receiving
  std::byte* target_;
  std::size_t planned_, bytes_;
  bool waiting_ = false;
  Queue element_{this};  // empty while it waits
  const Queue::iterator place_ = element_.begin();
};

class ThreadPoller : public TransferPoller {
 public:
  void poll(std::span<Transfer* const> transfers) override {
    for (Transfer* t : transfers) t->done();
  }
};

class ThreadMemory : public SharedMemory {
 public:
  explicit ThreadMemory(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  void add(std::shared_ptr<FloatBuffer> part) { parts_.push_back(std::move(part)); }
  std::span<std::byte> of(int rank) const override {
    return std::as_writable_bytes(parts_[static_cast<std::size_t>(rank)]->span());
  }
  void poll() override {
    const std::lock_guard lock(hub_->mutex);
    if (hub_->failed) throw PeerFailed();
  }

 private:
  std::shared_ptr<Hub> hub_;
  std::vector<std::shared_ptr<FloatBuffer>> parts_;  // by rank
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_->size; }
  std::string host() const override { return host_name(); }

  std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte> bytes) override {
    assert(to >= 0 && to < size());
    static constexpr std::byte nothing{};
    return std::make_unique<ThreadTransfer>(world_, pair(rank_, to), tag, bytes.empty() ? &nothing : bytes.data(),
                                            nullptr, bytes.size());
  }
  std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte> bytes) override {
    assert(from >= 0 && from < size());
    return std::make_unique<ThreadTransfer>(world_, pair(from, rank_), tag, nullptr, bytes.data(), bytes.size());
  }
  std::unique_ptr<TransferPoller> plan_poller(std::size_t) override { return std::make_unique<ThreadPoller>(); }

  void barrier() override {
    std::unique_lock lock(world_->hub->mutex);
    meet(lock);
  }

  void broadcast(int root, std::span<std::byte> bytes) override {
    publish(bytes);
    const World::Slot& from = world_->slots[static_cast<std::size_t>(root)];
    if (from.count != bytes.size())
      throw Error(
          fmt::format("a broadcast has {} bytes on rank {} and {} on rank {}", from.count, root, bytes.size(), rank_));
    if (rank_ != root && !bytes.empty()) std::memcpy(bytes.data(), from.bytes, bytes.size());
    barrier();
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    assert(all.size() == mine.size() * static_cast<std::size_t>(size()));
    publish(mine);
    for (std::size_t r = 0; r < world_->slots.size(); ++r) {
      const World::Slot& from = world_->slots[r];
      if (from.count != mine.size())
        throw Error(fmt::format("gathering {} bytes on rank {} but {} on rank {}", from.count, r, mine.size(), rank_));
      if (!mine.empty()) std::memcpy(all.data() + r * mine.size(), from.bytes, mine.size());
    }
    barrier();
  }

  std::unique_ptr<Communicator> split(int color) override {
    auto& slots = world_->slots;
    const auto me = static_cast<std::size_t>(rank_);
    std::unique_lock lock(world_->hub->mutex);
    slots[me].color = color;
    meet(lock);
    int first = -1, before = 0, members = 0;
    for (int r = 0; r < size(); ++r) {
      if (slots[static_cast<std::size_t>(r)].color != color) continue;
      if (first < 0) first = r;
      if (r < rank_) ++before;
      ++members;
    }
    if (first == rank_) slots[me].part = std::make_shared<World>(world_->hub, members);
    meet(lock);
    auto part = std::make_unique<ThreadCommunicator>(slots[static_cast<std::size_t>(first)].part, before);
    meet(lock);
    slots[me].part.reset();
    return part;
  }

  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override {
    auto memory = std::make_unique<ThreadMemory>(world_->hub);
    auto& mine = world_->slots[static_cast<std::size_t>(rank_)].memory;
    mine = std::make_shared<FloatBuffer>((bytes + sizeof(float) - 1) / sizeof(float));
    std::unique_lock lock(world_->hub->mutex);
    meet(lock);
    for (const World::Slot& slot : world_->slots) memory->add(slot.memory);
    meet(lock);
    mine.reset();
    return memory;
  }

  void fail(std::exception_ptr reason) noexcept override { world_->hub->fail(reason); }

 private:
  std::size_t pair(int from, int to) const { return static_cast<std::size_t>(from * world_->size + to); }

  // All ranks arrive before any leaves.
  void meet(std::unique_lock<std::mutex>& lock) {
    Hub& hub = *world_->hub;
    if (hub.failed) throw PeerFailed();
    const std::uint64_t round = world_->round;
    if (++world_->arrived == world_->size) {
      world_->arrived = 0;
      ++world_->round;
      hub.changed.notify_all();
      return;
    }
    hub.changed.wait(lock, [&] { return world_->round != round || hub.failed; });
    if (world_->round == round) throw PeerFailed();
  }

  void publish(std::span<const std::byte> bytes) {
    std::unique_lock lock(world_->hub->mutex);
    auto& slot = world_->slots[static_cast<std::size_t>(rank_)];
    slot.bytes = bytes.data();
    slot.count = bytes.size();
    meet(lock);
  }

  std::shared_ptr<World> world_;
  int rank_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() {
  return std::make_unique<ThreadCommunicator>(std::make_shared<World>(std::make_shared<Hub>(), 1), 0);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& fn) {
  const auto hub = std::make_shared<Hub>();
  const auto world = std::make_shared<World>(hub, ranks);
  const auto run = [&](int rank) {
    try {
      ThreadCommunicator comm(world, rank);
      fn(comm);
    } catch (...) {
      hub->fail(std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  }
  if (hub->first) std::rethrow_exception(hub->first);
}

}  // namespace tutti
