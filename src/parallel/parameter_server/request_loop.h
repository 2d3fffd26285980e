// SPDX-License-Identifier: Apache-2.0
// request_loop.h -- ranks that serve each other while they compute. Requests go to *handlers*; each handler has one
// owner among the ranks, whose serving thread responds without disturbing the rank's own work. Parameter servers are
// made of handlers that hold parts of the weights (shard.h); a handler may as well hand out numbers (CounterHandler) or
// hold ranks together.
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

// Serves requests at their owner. Calls come one at a time for all handlers of a rank, from the serving thread or from
// one that asks; state needs no lock of its own, and whoever else touches it does so inside Server::exclusively().
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // `client` asks what stands in `message`; the response takes its place. Returns the length of the response, which
  // client and handler agree on, or 0: not yet. The same call then comes again after every other request to this
  // handler.
  virtual std::size_t handle(int client, std::span<std::byte> message) = 0;
};

struct HandlerPlan {
  int owner = 0;
  std::size_t bytes = 0;  // of a request, and of the longest response
  int clients = 0;        // ranks 0 to clients - 1 ask; 0 = all
  // Handlers of one lane and owner are asked by each client in the order in which they were added, again and again.
  // Only the next of them is listened to, so that an idle server has few messages to look at. -1 = a lane of its own.
  int lane = -1;
  // Of a client's own messages, which its device may write; the host sees them, too. Any thread of the rank may move
  // messages on, so they do not lie in memory that only threads of a device see.
  const FloatMemory* memory = &host_memory();
};

class Server {
 public:
  // Collective, with a communicator of its own. Error when the communicator allows no talk beside the main thread.
  explicit Server(Communicator&);
  // Ends the serving thread. No request of this rank may be in flight.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before open(), on every rank the same handlers in the same order; `handler` is null where the rank is not its
  // owner. Returns the handler's number.
  int add(const HandlerPlan&, std::unique_ptr<RequestHandler> handler);
  void open();  // plans all messages and starts to serve
  int rank() const { return me_; }
  int ranks() const { return comm_->size(); }
  bool owns(int handler) const { return handlers_[static_cast<std::size_t>(handler)].plan.owner == me_; }

  // While `work` runs, this rank serves nobody; afterwards handlers look again at requests that wait.
  void exclusively(const std::function<void()>& work);

  // Fill message(), request(), then wait() or poll responded(). One request per handler at a time; different handlers
  // may be asked by different threads. Waiting sleeps, and meanwhile serves others.
  std::span<std::byte> message(int handler);
  void request(int handler, std::size_t response_bytes);
  bool responded(int handler);
  std::span<const std::byte> wait(int handler);  // the response; valid until the next request()

 private:
  // One client's place at a handler of this rank.
  struct Place {
    MessageBytes message;
    std::unique_ptr<Transfer> receive, send;  // null for this rank itself
    bool waits = false;                       // a request is here, its response is not ready
    bool leaves = false;                      // the response is on its way out: no new request may come in yet
    std::size_t response_bytes = 0;           // bytes; this rank's own place only
  };
  struct Post {
    HandlerPlan plan;
    int lane = 0;  // into lanes_, where this rank owns the handler
    std::unique_ptr<RequestHandler> handler;
    std::vector<Place> places;  // by client, where this rank owns the handler
    std::vector<int> waiting;   // clients, in order of arrival
    // Of this rank as a client of another.
    MessageBytes out, in;
    std::unique_ptr<Transfer> send, receive;
    std::size_t response_bytes = 0;
    bool in_flight = false;
  };
  struct Lane {
    int name = 0;
    std::vector<int> handlers;
    std::vector<std::size_t> next;  // by client: which handler is asked next
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
  std::vector<std::pair<int, int>> leaving_;  // handler and client of responses on their way out
  std::unique_ptr<Transfer> drive_;           // never completes: looking at it moves other messages on
  std::byte nothing_{};

  // One thread at a time looks at messages, and while it does so nobody else has to wait: a look may take as long as
  // other ranks keep the core that it gives away.
  std::mutex looking_;  // before mutex_, where both are held
  std::unique_ptr<TransferPoller> poller_;
  std::vector<Transfer*> messages_;  // of this look

  std::mutex mutex_;  // all of the serving side but the looks
  std::exception_ptr failure_;
  std::atomic<bool> stop_{false};
  std::atomic<int> asking_{0};   // requests of this rank in flight
  std::atomic<int> waiting_{0};  // threads of this rank in wait()
  std::thread thread_;
};

// Hands out the numbers from `next` up to, not including, `end`, each once; -1 when there are no more.
class CounterHandler : public RequestHandler {
 public:
  static constexpr std::size_t kBytes = sizeof(std::int64_t);
  void restart(std::int64_t next, std::int64_t end) { next_ = next, end_ = end; }
  std::int64_t handed_out_until() const { return next_; }
  std::size_t handle(int client, std::span<std::byte> message) override;

 private:
  std::int64_t next_ = 0, end_ = 0;
};

// The same seen from any rank; one thread of a rank asks.
class ServedCounter {
 public:
  ServedCounter(Server&, int owner);  // adds the handler; before Server::open()
  // From here on [next, end); the owner's call counts. Nobody may ask meanwhile: ranks meet before and after it.
  void restart(std::int64_t next, std::int64_t end);
  std::int64_t take();  // -1: no more

 private:
  Server& server_;
  CounterHandler* handler_ = nullptr;  // at the owner
  int number_;
};

// Where ranks wait for each other asleep, for as long as it takes; a collective call of the communicator would keep the
// core busy that a serving thread needs.
class ServedBarrier {
 public:
  explicit ServedBarrier(Server&, int owner = 0);  // adds the handler; before Server::open()
  void wait();                                     // all ranks arrive before any leaves

 private:
  Server& server_;
  int number_;
};

// Hands out work units to the first `workers` ranks as they ask; the others get one that lies behind all data.
class ServedWorkQueue : public WorkQueue {
 public:
  ServedWorkQueue(Server&, int owner, int workers);  // adds handlers; before Server::open()
  void start_range() override;
  std::int64_t next() override;

 private:
  ServedCounter next_unit_;
  ServedBarrier barrier_;
  const bool works_;
};

}  // namespace tutti
