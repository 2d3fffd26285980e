// SPDX-License-Identifier: Apache-2.0
// watch_link.h -- the connections of the watchdogs: TCP, apart from MPI, so that they tell something when MPI hangs.
// Never blocks, except connect_to_any().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

// Of fixed size; all hosts of a run have one byte order (static_assert in container.cpp).
struct WatchMessage {
  enum class Type : std::uint32_t {
    hello,     // of a rank that connects
    welcome,   // the other end belongs to this run
    beat,      // this rank is alive, and what it does
    stop,      // a signal asks to stop the run; number = signal
    hold,      // begin no minibatch before `decision`
    position,  // number = the last one begun
    decision,  // number = the last one that may begin; signal = who asked
    end,       // the run is over; number = exit code
    failed,    // this rank has printed its error and waits for the others to exit
    leave,     // another rank has failed: exit without output
    bye        // this rank is done
  };
  std::uint64_t session = 0;
  Type type = Type::beat;
  std::int32_t rank = 0;
  std::int64_t number = 0;
  std::int32_t signal = 0;
  // Of a beat. In a hello, `doing` is the name of the host.
  std::int32_t peer = -1, bucket = -1;
  std::int64_t epoch = 0, minibatch = 0;
  std::int64_t idle_ms = 0;  // since the last progress of its training thread
  std::uint8_t waiting = 0, training = 0;  // not bool: any byte may arrive
  std::array<char, 96> doing{};
};

class WatchLink {
 public:
  WatchLink() = default;
  explicit WatchLink(int fd);
  WatchLink(WatchLink&&) noexcept;
  WatchLink& operator=(WatchLink&&) noexcept;
  ~WatchLink();

  bool open() const { return fd_ >= 0 && !closed_; }
  int fd() const { return fd_; }
  void send(const WatchMessage&);
  std::optional<WatchMessage> receive();
  // Why the connection has ended: 0 = the other process closed it, which the kernel does when it dies; or errno.
  int why_closed() const { return why_closed_; }
  // Whether the other host has acknowledged all that was sent. If a process stops reading, its receive window is full
  // after some minutes of heartbeats; bytes that the kernel has not sent do not count.
  bool acknowledged() const;

 private:
  void flush();
  void close_because(int why);

  int fd_ = -1;
  bool closed_ = false;
  int why_closed_ = 0;
  std::vector<char> in_, out_;
};

// Where rank 0 can be reached: its port at all IPv4 addresses of its host.
struct WatchAddress {
  std::uint64_t session = 0;  // drawn for this run: other programs may listen at an address that several hosts have
  std::uint16_t port = 0;     // 0 = none
  std::int32_t count = 0;
  std::array<std::uint32_t, 16> ipv4{};  // in network order
};

class WatchListener {
 public:
  WatchListener();  // never throws; without a socket the address has port 0
  ~WatchListener();
  WatchListener(const WatchListener&) = delete;
  const WatchAddress& address() const { return address_; }
  int fd() const { return fd_; }
  WatchLink accept();

 private:
  int fd_ = -1;
  WatchAddress address_;
};

// Tries every address until one answers with a welcome. Blocks for up to `patience` for each.
WatchLink connect_to_any(const WatchAddress&, int rank, std::chrono::milliseconds patience);

}  // namespace tutti
