// SPDX-License-Identifier: Apache-2.0
// The checksum follows as a message of its own, with the same tag: messages of one pair and tag arrive in order.
#include "comm/checksums.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <atomic>
#include <cassert>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "comm/agreement.h"
#include "tutti/shared_memory.h"

namespace tutti {
namespace {

std::atomic<bool> damages{false};

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct WorldRank {
  int rank = 0;
  std::string host;
};

[[noreturn]] void refuse(const WorldRank& from, std::size_t bytes, const std::string& what) {
  throw CodedError(
      kMessageDamaged,
      fmt::format("{} of {} bytes from rank {} on {} was damaged on its way: its checksum is wrong\nfix: look "
                  "after memory and network of these hosts, and start again: the run goes on from its last "
                  "checkpoint",
                  what, bytes, from.rank, from.host));
}

void verify(std::span<std::byte> bytes, std::uint64_t sum, const WorldRank& from, const std::string& what) {
  if (!bytes.empty() && damages.exchange(false)) bytes[bytes.size() / 2] ^= std::byte{1};
  if (checksum(bytes) != sum) refuse(from, bytes.size(), what);
}

class CheckedTransfer final : public Transfer {
 public:
  CheckedTransfer(Communicator& comm, bool sending, int peer, int tag, std::span<std::byte> bytes, WorldRank from)
      : sending_(sending), tag_(tag), bytes_(bytes), from_(std::move(from)) {
    const auto sum = std::span(&sum_, 1);
    data_ = sending ? comm.plan_send(peer, tag, bytes) : comm.plan_receive(peer, tag, bytes);
    check_ = sending ? comm.plan_send(peer, tag, std::as_bytes(sum))
                     : comm.plan_receive(peer, tag, std::as_writable_bytes(sum));
  }

  void start() override { start(bytes_.size()); }
  void start(std::size_t bytes) override {
    assert(complete_);
    complete_ = false, started_ = bytes;
    if (sending_) sum_ = checksum(bytes_.first(bytes));
    data_->start(bytes);
    check_->start();
  }
  bool done() override {
    if (!complete_ && static_cast<int>(data_->done()) + static_cast<int>(check_->done()) == 2) finish();
    return complete_;
  }
  bool complete() const override { return complete_; }
  void wait() override {
    if (complete_) return;
    data_->wait();
    check_->wait();
    finish();
  }

 private:
  void finish() {
    complete_ = true;
    if (!sending_) verify(bytes_.first(started_), sum_, from_, fmt::format("a message (tag {})", tag_));
  }

  const bool sending_;
  const int tag_;
  const std::span<std::byte> bytes_;
  const WorldRank from_;
  std::uint64_t sum_ = 0;
  std::unique_ptr<Transfer> data_, check_;
  std::size_t started_ = 0;
  bool complete_ = true;
};

class CheckedPoller final : public TransferPoller {
 public:
  void poll(std::span<Transfer* const> transfers) override {
    for (Transfer* t : transfers)
      if (!t->complete()) t->done();
  }
};

class CheckedCommunicator final : public Communicator {
 public:
  CheckedCommunicator(Communicator& comm, std::unique_ptr<Communicator> owned, ChecksummedMessages which)
      : owned_(std::move(owned)), comm_(comm), which_(which) {
    const auto hosts = hosts_of(comm);
    for (int r = 0; r < comm.size(); ++r) peers_.push_back({comm.world_rank(r), hosts[static_cast<std::size_t>(r)]});
  }

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string host() const override { return comm_.host(); }
  int world_rank(int rank) const override { return comm_.world_rank(rank); }

  std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte> bytes) override {
    if (!checks(to)) return comm_.plan_send(to, tag, bytes);
    const std::span<std::byte> unchanged(const_cast<std::byte*>(bytes.data()), bytes.size());
    return std::make_unique<CheckedTransfer>(comm_, true, to, tag, unchanged, peer(to));
  }
  std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte> bytes) override {
    if (!checks(from)) return comm_.plan_receive(from, tag, bytes);
    return std::make_unique<CheckedTransfer>(comm_, false, from, tag, bytes, peer(from));
  }
  std::unique_ptr<TransferPoller> plan_poller(std::size_t) override { return std::make_unique<CheckedPoller>(); }

  void barrier() override { comm_.barrier(); }
  void broadcast(int root, std::span<std::byte> bytes) override {
    comm_.broadcast(root, bytes);
    std::uint64_t sum = rank() == root ? checksum(bytes) : 0;
    comm_.broadcast(root, std::as_writable_bytes(std::span(&sum, 1)));
    if (rank() != root && checks(root)) verify(bytes, sum, peer(root), "a broadcast");
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    comm_.all_gather(mine, all);
    const auto sums = from_all(comm_, checksum(mine));
    for (int r = 0; r < size(); ++r)
      if (r != rank() && checks(r))
        verify(all.subspan(mine.size() * static_cast<std::size_t>(r), mine.size()), sums[static_cast<std::size_t>(r)],
               peer(r), "a part of an all-gather");
  }
  void all_reduce_sum(std::span<float> values) override { comm_.all_reduce_sum(values); }
  using Communicator::all_reduce_sum;

  std::unique_ptr<Communicator> split(int color) override {
    auto part = comm_.split(color);
    Communicator& inner = *part;
    return std::make_unique<CheckedCommunicator>(inner, std::move(part), which_);
  }
  // Values in shared memory would have no checksum: ranks on one host send messages, too.
  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override {
    return which_ == ChecksummedMessages::all ? nullptr : comm_.share_memory(bytes);
  }
  bool threads_may_talk() const override { return comm_.threads_may_talk(); }
  void fail(std::exception_ptr reason) noexcept override { comm_.fail(reason); }

 private:
  const WorldRank& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  bool checks(int rank) const {
    return which_ == ChecksummedMessages::all || peer(rank).host != peer(this->rank()).host;
  }

  std::unique_ptr<Communicator> owned_;  // of split()
  Communicator& comm_;
  const ChecksummedMessages which_;
  std::vector<WorldRank> peers_;
};

}  // namespace

std::unique_ptr<Communicator> make_checksummed(Communicator& comm, ChecksummedMessages which) {
  return std::make_unique<CheckedCommunicator>(comm, nullptr, which);
}

void damage_next_message() { damages = true; }

}  // namespace tutti
