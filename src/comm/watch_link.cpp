// SPDX-License-Identifier: Apache-2.0
#include "comm/watch_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <type_traits>
#include <utility>

#include "base/host.h"

namespace tutti {
namespace {

static_assert(std::is_trivially_copyable_v<WatchMessage>);

void prepare(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool wait_for(int fd, short events, std::chrono::milliseconds patience) {
  pollfd p{fd, events, 0};
  return poll(&p, 1, static_cast<int>(patience.count())) == 1;
}

WatchLink try_address(std::uint32_t ipv4, const WatchAddress& where, int rank, std::chrono::milliseconds patience) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return {};
  prepare(fd);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(where.port), to.sin_addr.s_addr = ipv4;
  WatchLink link(fd);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    int error = 0;
    socklen_t size = sizeof error;
    if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, patience) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      return {};
  }
  WatchMessage hello;
  hello.session = where.session, hello.type = WatchMessage::Type::hello, hello.rank = rank;
  host_name().copy(hello.doing.data(), hello.doing.size() - 1);
  link.send(hello);
  if (!wait_for(fd, POLLIN, patience)) return {};
  const auto answer = link.receive();
  const bool right = answer && answer->type == WatchMessage::Type::welcome && answer->session == where.session;
  return right ? std::move(link) : WatchLink();
}

}  // namespace

WatchLink::WatchLink(int fd) : fd_(fd) {}
WatchLink::WatchLink(WatchLink&& o) noexcept { *this = std::move(o); }
WatchLink& WatchLink::operator=(WatchLink&& o) noexcept {
  std::swap(fd_, o.fd_), std::swap(closed_, o.closed_), std::swap(why_closed_, o.why_closed_);
  std::swap(in_, o.in_), std::swap(out_, o.out_);
  return *this;
}
WatchLink::~WatchLink() {
  if (fd_ >= 0) close(fd_);
}

void WatchLink::close_because(int why) { closed_ = true, why_closed_ = why; }

void WatchLink::send(const WatchMessage& message) {
  if (!open()) return;
  constexpr std::size_t most = 4096 * sizeof message;  // of a frozen process nobody reads
  const char* bytes = reinterpret_cast<const char*>(&message);
  if (out_.size() < most) out_.insert(out_.end(), bytes, bytes + sizeof message);
  flush();
}

void WatchLink::flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return close_because(errno == EPIPE ? 0 : errno);
    if (n <= 0) return;
    out_.erase(out_.begin(), out_.begin() + n);
  }
}

std::optional<WatchMessage> WatchLink::receive() {
  if (fd_ < 0) return {};
  if (!closed_) flush();
  WatchMessage message;
  char buffer[sizeof message];
  while (!closed_ && in_.size() < sizeof message) {
    const ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      close_because(n == 0 || errno == ECONNRESET ? 0 : errno);
      break;
    }
    in_.insert(in_.end(), buffer, buffer + n);
  }
  if (in_.size() < sizeof message) return {};
  std::memcpy(static_cast<void*>(&message), in_.data(), sizeof message);
  in_.erase(in_.begin(), in_.begin() + sizeof message);
  message.doing.back() = '\0';
  return message;
}

bool WatchLink::acknowledged() const {
  int unacknowledged = 0, unsent = 0;
  return fd_ >= 0 && ioctl(fd_, SIOCOUTQ, &unacknowledged) == 0 && ioctl(fd_, SIOCOUTQNSD, &unsent) == 0 &&
         unacknowledged == unsent;
}

WatchListener::WatchListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  if (fd_ < 0) return;
  prepare(fd_);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  if (bind(fd_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(fd_, 1024) != 0 ||
      getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size) != 0)
    return;
  std::random_device draw;
  address_.session = (std::uint64_t{draw()} << 32) | draw();
  address_.port = ntohs(any.sin_port);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  // Loopback last: it leads to this host from everywhere.
  for (const bool loopback : {false, true})
    for (const ifaddrs* i = all; i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_UP) == 0) continue;
      if (((i->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      if (address_.count < static_cast<int>(address_.ipv4.size()))
        address_.ipv4[static_cast<std::size_t>(address_.count++)] =
            reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr;
    }
  freeifaddrs(all);
}

WatchListener::~WatchListener() {
  if (fd_ >= 0) close(fd_);
}

WatchLink WatchListener::accept() {
  const int fd = ::accept(fd_, nullptr, nullptr);
  if (fd < 0) return {};
  prepare(fd);
  return WatchLink(fd);
}

WatchLink connect_to_any(const WatchAddress& where, int rank, std::chrono::milliseconds patience) {
  for (int i = 0; i < where.count && where.port != 0; ++i)
    if (WatchLink link = try_address(where.ipv4[static_cast<std::size_t>(i)], where, rank, patience); link.open())
      return link;
  return {};
}

}  // namespace tutti
