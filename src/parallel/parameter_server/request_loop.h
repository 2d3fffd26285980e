// SPDX-License-Identifier: Apache-2.0
// request_loop.h -- ranks that serve each other's requests while they compute. Requests go to *handlers*. Each handler
// is owned by one rank, whose serving thread responds without disturbing the rank's own work. Parameter servers are
// handlers that hold shards of the weights (shard.h); other handlers hand out numbers (CounterHandler) or implement a
// barrier.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/codec.h"
#include "tutti/communicator.h"
#include "tutti/parameters.h"
#include "tutti/work_queue.h"

namespace tutti {

// Serves requests at its owner. All handlers of a rank are called one at a time, from the serving thread or from a
// requesting thread, so their state needs no lock. Any other access must be inside Server::exclusively().
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // The request of `client` is in `message`, and the response replaces it. Returns the length of the response, on which
  // client and handler agree, or 0 if it is not ready. The same call is then repeated after every other request to this
  // handler.
  virtual std::size_t handle(int client, std::span<std::byte> message) = 0;
};

struct HandlerPlan {
  int owner = 0;
  std::size_t bytes = 0;  // of a request and of the longest response
  int clients = 0;        // ranks 0 to clients - 1 send requests; 0 = all
  // Each client uses the handlers of one lane and owner in the order in which they were added, cyclically. Only the
  // next one is polled, so an idle server polls few messages. -1 = a lane of its own.
  int lane = -1;
  // Allocator of a client's messages, which its device may write and the host must be able to read. Any thread of the
  // rank may send them, so the memory must not belong to one thread of a device.
  const FloatMemory* memory = &host_memory();
};

class Server {
 public:
  // Collective; uses a communicator of its own. Throws Error if the communicator is not thread-safe.
  explicit Server(Communicator&);
  // Ends the serving thread. No request of this rank may be in flight.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Adds a handler; call before open(), on every rank in the same order. `handler` is null on ranks other than its
  // owner. Returns the number of the handler.
  int add(const HandlerPlan&, std::unique_ptr<RequestHandler> handler);
  void open();  // plans all messages and starts to serve
  int rank() const { return me_; }
  int ranks() const { return comm_->size(); }
  bool owns(int handler) const { return handlers_[static_cast<std::size_t>(handler)].plan.owner == me_; }

  // Runs `work` while this rank serves no requests. Afterwards handlers check waiting requests again.
  void exclusively(const std::function<void()>& work);

  // To send a request: fill message(), call request(), then wait() or poll responded(). Each handler takes one request
  // at a time; different threads may use different handlers. wait() sleeps, and this rank keeps serving.
  std::span<std::byte> message(int handler);
  void request(int handler, std::size_t response_bytes);
  bool responded(int handler);
  // Returns the response, valid until the next request(). `what`: what this rank waits for if not for the handler's
  // owner.
  std::span<const std::byte> wait(int handler, const char* what = nullptr);

 private:
  // The slot of a client at a handler of this rank.
  struct Place {
    MessageBytes message;
    std::unique_ptr<Transfer> receive, send;  // null for this rank itself
    bool waits = false;                       // a request has arrived, its response is not ready
    bool leaves = false;                      // the response is being sent: no new request may be received yet
    std::size_t response_bytes = 0;           // size of the response; for this rank's own slot only
  };
  struct Post {
    HandlerPlan plan;
    int lane = 0;  // index in lanes_, if this rank owns the handler
    std::unique_ptr<RequestHandler> handler;
    std::vector<Place> places;  // by client, if this rank owns the handler
    std::vector<int> waiting;   // clients, in order of arrival
    // Of this rank as a client of another rank.
    MessageBytes out, in;
    std::unique_ptr<Transfer> send, receive;
    std::size_t response_bytes = 0;
    bool in_flight = false;
  };
  struct Lane {
    int name = 0;
    std::vector<int> handlers;
    std::vector<std::size_t> next;  // by client: the handler to be used next
  };

  Post& post(int handler) { return handlers_[static_cast<std::size_t>(handler)]; }
  int clients(const Post&) const;
  void plan_owned(Post&, int number);
  void plan_asking(Post&, int number);
  void run();
  bool look(Transfer* response);
  void choose_messages(Transfer* response);
  bool look_at(Lane&, int client);
  void respond_to_waiting(int handler);
  void deliver(int handler, int client, std::size_t bytes);
  bool listen_again();
  bool arrived(const Post&);
  void check_failure();

  std::unique_ptr<Communicator> comm_;
  const int me_;
  std::vector<Post> handlers_;
  std::vector<Lane> lanes_;
  std::vector<std::pair<int, int>> leaving_;  // handler and client of responses being sent
  std::unique_ptr<Transfer> drive_;           // never completes: polling it makes progress on other messages
  std::byte nothing_{};

  // One thread at a time polls messages, and nobody else has to wait meanwhile: a poll may take as long as other ranks
  // keep a core that it yields.
  std::mutex looking_;  // lock before mutex_ if both are needed
  std::unique_ptr<TransferPoller> poller_;
  std::vector<Transfer*> messages_;  // messages of this poll

  std::mutex mutex_;  // protects all of the serving side except polls
  std::exception_ptr failure_;
  std::atomic<bool> stop_{false};
  std::atomic<int> asking_{0};   // requests of this rank in flight
  std::atomic<int> waiting_{0};  // threads of this rank in wait()
  std::thread thread_;
};

// Hands out the numbers from `next` up to, but not including, `end`, each once; then -1.
class CounterHandler : public RequestHandler {
 public:
  static constexpr std::size_t kBytes = sizeof(std::int64_t);
  void restart(std::int64_t next, std::int64_t end) { next_ = next, end_ = end; }
  std::int64_t handed_out_until() const { return next_; }
  std::size_t handle(int client, std::span<std::byte> message) override;

 private:
  std::int64_t next_ = 0, end_ = 0;
};

// The counter as seen from any rank. One thread per rank may take numbers.
class ServedCounter {
 public:
  ServedCounter(Server&, int owner);  // adds the handler; call before Server::open()
  // Sets the range to [next, end); only the owner's call counts. No take() may be in flight, so ranks need a barrier
  // before and after it.
  void restart(std::int64_t next, std::int64_t end);
  std::int64_t take();  // -1: no more

 private:
  Server& server_;
  CounterHandler* handler_ = nullptr;  // at the owner
  int number_;
};

// A barrier in which ranks sleep for as long as it takes. A collective of the communicator would keep a core busy that
// a serving thread needs.
class ServedBarrier {
 public:
  explicit ServedBarrier(Server&, int owner = 0);  // adds the handler; call before Server::open()
  void wait();                                     // returns after all ranks have called it

 private:
  Server& server_;
  int number_;
};

// Hands out work units on request to the ranks that work; the others get a unit beyond all data.
class ServedWorkQueue : public WorkQueue {
 public:
  ServedWorkQueue(Server&, int owner, bool works);  // adds handlers; call before Server::open()
  void start_range() override;
  std::int64_t next() override;

 private:
  ServedCounter next_unit_;
  ServedBarrier barrier_;
  const bool works_;
};

}  // namespace tutti
