// SPDX-License-Identifier: Apache-2.0
// server.h -- ranks that answer each other while they compute. Requests go to *desks*; each desk has one owner among
// the ranks, whose serving thread answers without disturbing the rank's own work. Parameter servers are made of desks
// that hold parts of the weights (server_shard.h); a desk may as well deal numbers (TicketDesk) or hold ranks together.
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
#include "tutti/lots.h"
#include "tutti/parameters.h"

namespace tutti {

// What answers at the owner. Calls come one at a time for all desks of a rank, from the serving thread or from one that
// asks; state needs no lock of its own, and whoever else touches it does so inside Server::exclusively().
class Desk {
 public:
  virtual ~Desk() = default;
  // `client` asks what stands in `message`; the answer takes its place. Returns the length of the answer, which client
  // and desk agree on, or 0: not yet. The same call then comes again after every other request to this desk.
  virtual std::size_t answer(int client, std::span<std::byte> message) = 0;
};

struct DeskPlan {
  int owner = 0;
  std::size_t bytes = 0;  // of a request, and of the longest answer
  int clients = 0;        // ranks 0 to clients - 1 ask; 0 = all
  // Desks of one lane and owner are asked by each client in the order in which they were added, again and again. Only
  // the next of them is listened to, so that an idle server has few messages to look at. -1 = a lane of its own.
  int lane = -1;
  // Of a client's own messages, which its device may write; the host sees them, too. Any thread of the rank may move
  // messages on, so they do not lie in memory that only threads of a device see.
  const FloatMemory* memory = &host_memory();
};

class Server {
 public:
  // Collective, with a communicator of its own. Error when the communicator allows no talk beside the main thread.
  explicit Server(Communicator&);
  // Ends the serving thread. No request of this rank may be under way.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before open(), on every rank the same desks in the same order; `desk` is null where the rank is not its owner.
  // Returns the desk's number.
  int add(const DeskPlan&, std::unique_ptr<Desk> desk);
  void open();  // plans all messages and starts to serve
  int rank() const { return me_; }
  int ranks() const { return comm_->size(); }
  bool owns(int desk) const { return desks_[static_cast<std::size_t>(desk)].plan.owner == me_; }

  // While `work` runs, this rank answers nobody; afterwards desks look again at requests that wait.
  void exclusively(const std::function<void()>& work);

  // Asking: fill message(), ask(), then wait() or poll answered(). One request per desk at a time; different desks may
  // be asked by different threads. Waiting sleeps, and meanwhile serves others.
  std::span<std::byte> message(int desk);
  void ask(int desk, std::size_t answer_bytes);
  bool answered(int desk);
  std::span<const std::byte> wait(int desk);  // the answer; valid until the next ask()

 private:
  // One client's place at a desk of this rank.
  struct Place {
    MessageBytes message;
    std::unique_ptr<Transfer> receive, send;  // null for this rank itself
    bool waits = false;                       // a request is here, its answer is not ready
    bool leaves = false;                      // the answer is on its way out: no new request may come in yet
    std::size_t answered = 0;                 // bytes; this rank's own place only
  };
  struct Post {
    DeskPlan plan;
    int lane = 0;  // into lanes_, where this rank owns the desk
    std::unique_ptr<Desk> desk;
    std::vector<Place> places;  // by client, where this rank owns the desk
    std::vector<int> waiting;   // clients, in order of arrival
    // Of this rank as a client of another.
    MessageBytes out, in;
    std::unique_ptr<Transfer> send, receive;
    std::size_t answer_bytes = 0;
    bool under_way = false;
  };
  struct Lane {
    int name = 0;
    std::vector<int> desks;
    std::vector<std::size_t> next;  // by client: which desk is asked next
  };

  Post& post(int desk) { return desks_[static_cast<std::size_t>(desk)]; }
  int clients(const Post&) const;
  void plan_owned(Post&, int number);
  void plan_asking(Post&, int number);
  void run();
  bool look(Transfer* answer);
  void choose_messages(Transfer* answer);
  bool look_at(Lane&, int client);
  void answer_waiting(int desk);
  void deliver(int desk, int client, std::size_t bytes);
  bool listen_again();
  bool arrived(const Post&);
  void check_failure();

  std::unique_ptr<Communicator> comm_;
  const int me_;
  std::vector<Post> desks_;
  std::vector<Lane> lanes_;
  std::vector<std::pair<int, int>> leaving_;  // desk and client of answers on their way out
  std::unique_ptr<Transfer> drive_;           // never completes: looking at it moves other messages on
  std::byte nothing_{};

  // One thread at a time looks at messages, and while it does so nobody else has to wait: a look may take as long as
  // other ranks keep the core that it gives away.
  std::mutex looking_;  // before mutex_, where both are held
  std::unique_ptr<Watch> watch_;
  std::vector<Transfer*> messages_;  // of this look

  std::mutex mutex_;  // all of the serving side but the looks
  std::exception_ptr failure_;
  std::atomic<bool> stop_{false};
  std::atomic<int> asking_{0};   // requests of this rank under way
  std::atomic<int> waiting_{0};  // threads of this rank in wait()
  std::thread thread_;
};

// Deals the numbers from `next` up to, not including, `end`, each once; -1 when there are no more.
class TicketDesk : public Desk {
 public:
  static constexpr std::size_t kBytes = sizeof(std::int64_t);
  void restart(std::int64_t next, std::int64_t end) { next_ = next, end_ = end; }
  std::int64_t dealt_until() const { return next_; }
  std::size_t answer(int client, std::span<std::byte> message) override;

 private:
  std::int64_t next_ = 0, end_ = 0;
};

// The same seen from any rank; one thread of a rank asks.
class Tickets {
 public:
  Tickets(Server&, int owner);  // adds the desk; before Server::open()
  // From here on [next, end); the owner's call counts. Nobody may ask meanwhile: ranks meet before and after it.
  void restart(std::int64_t next, std::int64_t end);
  std::int64_t take();  // -1: no more

 private:
  Server& server_;
  TicketDesk* desk_ = nullptr;  // at the owner
  int number_;
};

// Where ranks wait for each other asleep, for as long as it takes; a collective call of the communicator would keep the
// core busy that a serving thread needs.
class Meeting {
 public:
  explicit Meeting(Server&, int owner = 0);  // adds the desk; before Server::open()
  void meet();                               // all ranks arrive before any leaves

 private:
  Server& server_;
  int number_;
};

// Deals lots of data to the first `workers` ranks as they ask; the others get one that lies behind all data.
class ServedLots : public LotDealer {
 public:
  ServedLots(Server&, int owner, int workers);  // adds desks; before Server::open()
  void start_range() override;
  std::int64_t next() override;

 private:
  Tickets tickets_;
  Meeting meeting_;
  const bool works_;
};

}  // namespace tutti
