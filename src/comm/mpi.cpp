// SPDX-License-Identifier: Apache-2.0
// The communicator over MPI. Counts in MPI are int, so long messages travel as
// several; persistent requests keep the step loop free of allocations.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "base/host.h"
#include "comm/session.h"
#include "comm/shared_pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// To other hosts: messages below Open MPI's eager limit leave at once, without asking the receiver, who computes.
constexpr std::size_t kLargestToOtherHosts = 61440;

// `doing` is called only on failure, so messages cost nothing in the step loop.
template <class Doing>
void check(int code, const Doing& doing) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(
      fmt::format("MPI failed while {}: {}", doing(),
                  length > 0 ? std::string(text, static_cast<std::size_t>(length)) : fmt::format("code {}", code)));
}

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

// One MPI message per `largest` bytes (an empty transfer is one empty message); calls use(offset, count).
template <class Use>
void for_each_part(std::size_t bytes, std::size_t largest, const Use& use) {
  std::size_t at = 0;
  do {
    const std::size_t n = std::min(largest, bytes - at);
    use(at, static_cast<int>(n));
    at += n;
  } while (at < bytes);
}

class MpiTransfer : public Transfer {
 public:
  MpiTransfer(bool sending, int peer, int world_peer, int tag, std::byte* data, std::size_t bytes, std::size_t largest,
              MPI_Comm comm)
      : sending_(sending),
        peer_(peer),
        world_peer_(world_peer),
        tag_(tag),
        data_(data),
        bytes_(bytes),
        largest_(largest),
        comm_(comm) {
    for_each_part(bytes, largest_, [&](std::size_t at, int count) {
      parts_.push_back(MPI_REQUEST_NULL);
      check(sending_ ? MPI_Send_init(data_ + at, count, MPI_BYTE, peer_, tag_, comm_, &parts_.back())
                     : MPI_Recv_init(data_ + at, count, MPI_BYTE, peer_, tag_, comm_, &parts_.back()),
            [&] { return "planning " + doing(); });
    });
    statuses_.resize(parts_.size());
    loose_.reserve(parts_.size());
  }
  ~MpiTransfer() override {
    if (finalized()) return;
    if (active_ && !sending_)
      for (MPI_Request& request : open()) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    if (active_ && sending_ && part_only_)
      for (MPI_Request& request : open()) MPI_Request_free(&request);
    for (MPI_Request& request : parts_) MPI_Request_free(&request);
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  void start() override {
    assert(!active_);
    active_ = true, part_only_ = false, arrived_ = 0, started_bytes_ = bytes_;
    check(MPI_Startall(static_cast<int>(parts_.size()), parts_.data()), [&] { return doing(); });
  }

  bool start_part(std::size_t i) override {
    if (i >= parts_.size()) return false;
    assert(active_ == (i > 0));
    if (i == 0) active_ = true, part_only_ = false, arrived_ = 0, started_bytes_ = bytes_;
    check(MPI_Start(&parts_[i]), [&] { return doing(); });
    return i + 1 < parts_.size();
  }

  // Persistent requests have a fixed length; shorter messages get requests of their own.
  void start(std::size_t bytes) override {
    if (bytes == bytes_) return start();
    assert(!active_ && bytes < bytes_);
    active_ = true, part_only_ = true, arrived_ = 0, started_bytes_ = bytes;
    loose_.clear();
    for_each_part(bytes, largest_, [&](std::size_t at, int count) {
      loose_.push_back(MPI_REQUEST_NULL);
      check(sending_ ? MPI_Isend(data_ + at, count, MPI_BYTE, peer_, tag_, comm_, &loose_.back())
                     : MPI_Irecv(data_ + at, count, MPI_BYTE, peer_, tag_, comm_, &loose_.back()),
            [&] { return doing(); });
    });
  }

  bool done() override {
    if (!active_) return true;
    int flag = 0;
    const int code = MPI_Testall(static_cast<int>(open().size()), open().data(), &flag, statuses_.data());
    finish(code, flag != 0);  // as arguments of one call the flag might be read first
    return flag != 0;
  }

  bool complete() const override { return !active_; }

  void wait() override {
    if (!active_) return;
    const Waiting waiting(sending_ ? "a message to be received" : "a message", world_peer_);
    finish(MPI_Waitall(static_cast<int>(open().size()), open().data(), statuses_.data()), true);
  }

  // For a poller, which polls one part after the other.
  MPI_Request next_part() { return open().front(); }
  void part_is_here(int code, const MPI_Status& status) {
    check(code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : code, [&] { return doing(); });
    if (part_only_) open().front() = MPI_REQUEST_NULL;  // the poller had a copy
    check_length(status);
    ++arrived_;
    active_ = !open().empty();
  }

 private:
  std::vector<MPI_Request>& running() { return part_only_ ? loose_ : parts_; }
  std::span<MPI_Request> open() { return std::span(running()).subspan(arrived_); }

  std::string doing() const {
    return fmt::format("{} {} bytes {} rank {} (tag {})", sending_ ? "sending" : "receiving", bytes_,
                       sending_ ? "to" : "from", peer_, tag_);
  }

  void finish(int code, bool all_here) {
    if (code == MPI_ERR_IN_STATUS)
      for (std::size_t i = 0; i < open().size(); ++i)
        if (const MPI_Status& status = statuses_[i];
            status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
          code = status.MPI_ERROR;
    check(code, [&] { return doing(); });
    if (!all_here) return;
    for (const MPI_Status* status = statuses_.data(); !open().empty(); ++status, ++arrived_) check_length(*status);
    active_ = false;
  }

  // The status of the first open part.
  void check_length(const MPI_Status& status) {
    if (sending_) return;
    const int expected = static_cast<int>(std::min(largest_, started_bytes_ - arrived_ * largest_));
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), [&] { return doing(); });
    if (count != expected)
      throw Error(fmt::format("MPI failed while {}: the message has {} bytes instead of {}", doing(), count, expected));
  }

  bool sending_;
  int peer_, world_peer_, tag_;
  std::byte* data_;
  std::size_t bytes_, largest_, started_bytes_ = 0;
  MPI_Comm comm_;
  bool active_ = false, part_only_ = false;
  std::size_t arrived_ = 0;  // parts that are complete, the first ones
  std::vector<MPI_Request> parts_, loose_;
  std::vector<MPI_Status> statuses_;
};

// One part of each transfer at a time: few requests, however long the messages.
class MpiPoller : public TransferPoller {
 public:
  explicit MpiPoller(std::size_t most) : seen_(most), requests_(most), found_(most), statuses_(most) {}

  void poll(std::span<Transfer* const> transfers) override {
    while (look_at_next_parts(transfers)) {
    }
  }

 private:
  // Whether a transfer that has further parts has advanced.
  bool look_at_next_parts(std::span<Transfer* const> transfers) {
    int open = 0;
    for (Transfer* t : transfers) {
      auto& transfer = static_cast<MpiTransfer&>(*t);
      if (transfer.complete()) continue;
      seen_[static_cast<std::size_t>(open)] = &transfer;
      requests_[static_cast<std::size_t>(open++)] = transfer.next_part();
    }
    if (open == 0) return false;
    int found = 0;
    const int code = MPI_Testsome(open, requests_.data(), &found, found_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(code, [] { return "looking at messages"; });
    bool go_on = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
      MpiTransfer& transfer = *seen_[static_cast<std::size_t>(found_[i])];
      transfer.part_is_here(code, statuses_[i]);
      go_on = go_on || !transfer.complete();
    }
    return go_on;
  }

  std::vector<MpiTransfer*> seen_;
  std::vector<MPI_Request> requests_;
  std::vector<int> found_;
  std::vector<MPI_Status> statuses_;
};

class MpiCommunicator : public Communicator {
 public:
  // `owned` communicators are freed here; MPI_COMM_WORLD is not.
  MpiCommunicator(MPI_Comm comm, bool owned, std::size_t largest) : comm_(comm), owned_(owned), largest_(largest) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), [] { return "setting the error handler"; });
    check(MPI_Comm_rank(comm_, &rank_), [] { return "asking for the rank"; });
    check(MPI_Comm_size(comm_, &size_), [] { return "asking for the number of ranks"; });
    find_neighbours();
  }
  ~MpiCommunicator() override {
    if (owned_ && !finalized()) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override { return host_name(); }
  int world_rank(int rank) const override { return world_ranks_[static_cast<std::size_t>(rank)]; }
  bool takes_device_memory() const override {
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
  }

  std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte> bytes) override {
    // Sent bytes are never written; one class serves both directions.
    return std::make_unique<MpiTransfer>(true, to, world_rank(to), tag, const_cast<std::byte*>(bytes.data()),
                                         bytes.size(), largest_message(to), comm_);
  }

  std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte> bytes) override {
    return std::make_unique<MpiTransfer>(false, from, world_rank(from), tag, bytes.data(), bytes.size(),
                                         largest_message(from), comm_);
  }

  std::unique_ptr<TransferPoller> plan_poller(std::size_t most) override { return std::make_unique<MpiPoller>(most); }

  void barrier() override {
    const Waiting waiting("all ranks (barrier)");
    check(MPI_Barrier(comm_), [] { return "waiting for the other ranks at a barrier"; });
  }

  void broadcast(int root, std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    const Waiting waiting("a broadcast", world_rank(root));
    for_each_part(bytes.size(), largest_, [&](std::size_t at, int count) {
      check(MPI_Bcast(bytes.data() + at, count, MPI_BYTE, root, comm_),
            [&] { return fmt::format("broadcasting {} bytes from rank {}", bytes.size(), root); });
    });
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    assert(all.size() == mine.size() * static_cast<std::size_t>(size_));
    if (mine.empty()) return;
    const Waiting waiting("all ranks (all-gather)");
    if (mine.size() <= largest_) {
      const int count = static_cast<int>(mine.size());
      check(MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, comm_),
            [&] { return fmt::format("gathering {} bytes of every rank", count); });
      return;
    }
    std::memcpy(all.data() + mine.size() * static_cast<std::size_t>(rank_), mine.data(), mine.size());
    for (int r = 0; r < size_; ++r) broadcast(r, all.subspan(mine.size() * static_cast<std::size_t>(r), mine.size()));
  }

  void all_reduce_sum(std::span<float> values) override {
    const Waiting waiting("all ranks (all-reduce)");
    for_each_part(values.size(), largest_ / sizeof(float) + 1, [&](std::size_t at, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, values.data() + at, count, MPI_FLOAT, MPI_SUM, comm_),
            [&] { return fmt::format("summing {} floats over the ranks", values.size()); });
    });
  }
  using Communicator::all_reduce_sum;

  std::unique_ptr<Communicator> split(int color) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, rank_, &part), [] { return "splitting a communicator"; });
    return std::make_unique<MpiCommunicator>(part, true, largest_);
  }

  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override {
    if (std::find(neighbour_.begin(), neighbour_.end(), false) != neighbour_.end()) return nullptr;
    return share_pages(*this, bytes, [this] {
      int waits = 0;
      check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &waits, MPI_STATUS_IGNORE),
            [] { return "moving messages on"; });
    });
  }

  bool threads_may_talk() const override {
    int level = MPI_THREAD_SINGLE;
    check(MPI_Query_thread(&level), [] { return "asking what threads may do"; });
    return level >= MPI_THREAD_MULTIPLE;
  }

  void fail(std::exception_ptr reason) noexcept override {
    try {
      std::rethrow_exception(reason);
    } catch (const CodedError& e) {
      abort_all(e.what(), e.code());
    } catch (const std::exception& e) {
      abort_all(e.what(), 1);
    } catch (...) {
      abort_all("unknown error", 1);
    }
  }

 private:
  // Collective, like the creation of every communicator.
  void find_neighbours() {
    const auto doing = [] { return "asking which ranks share a host"; };
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), doing);
    MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &all), doing);
    check(MPI_Comm_group(host, &near), doing);
    std::vector<int> ranks(static_cast<std::size_t>(size_)), there(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    check(MPI_Group_translate_ranks(all, size_, ranks.data(), near, there.data()), doing);
    for (const int r : there) neighbour_.push_back(r != MPI_UNDEFINED);
    MPI_Group world = MPI_GROUP_NULL;
    world_ranks_.resize(ranks.size());
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), doing);
    check(MPI_Group_translate_ranks(all, size_, ranks.data(), world, world_ranks_.data()), doing);
    MPI_Group_free(&world);
    MPI_Group_free(&all);
    MPI_Group_free(&near);
    MPI_Comm_free(&host);
  }

  std::size_t largest_message(int peer) const {
    return neighbour_[static_cast<std::size_t>(peer)] ? largest_ : std::min(largest_, kLargestToOtherHosts);
  }

  MPI_Comm comm_;
  bool owned_;
  std::size_t largest_;
  int rank_ = 0, size_ = 1;
  std::vector<bool> neighbour_;  // by rank: on this host
  std::vector<int> world_ranks_;
};

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(std::size_t largest_message) {
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, false, largest_message);
}

}  // namespace tutti
