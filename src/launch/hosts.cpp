// SPDX-License-Identifier: Apache-2.0
// A remote shell may work over another network than the ranks (or none at all, as in scripts/cluster.sh). So the host
// is asked to connect back.
#include "launch/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/host.h"
#include "comm/watch_link.h"
#include "launch/process.h"

namespace tutti::launch {
namespace {

using namespace std::chrono_literals;
constexpr double kPatience = 8;  // seconds

std::string to_word(const WatchAddress& a) {
  std::string word = fmt::format("{},{}", a.session, a.port);
  for (int i = 0; i < a.count; ++i) word += fmt::format(",{}", a.ipv4[static_cast<std::size_t>(i)]);
  return word;
}

bool welcome(WatchListener& listener, std::vector<WatchLink>& strangers, std::string& name) {
  for (WatchLink l = listener.accept(); l.open(); l = listener.accept()) strangers.push_back(std::move(l));
  for (WatchLink& l : strangers)
    if (const auto hello = l.receive(); hello && hello->session == listener.address().session) {
      WatchMessage answer;
      answer.session = hello->session, answer.type = WatchMessage::Type::welcome;
      l.send(answer);
      name = hello->doing.data();
      return true;
    }
  return false;
}

// Whether that host connects back, and the name it then gives.
bool answers(const std::string& host, const Options& options, std::string& name) {
  WatchListener listener;
  std::vector<std::string> words;
  if (options.agent.empty())
    words = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host};
  else
    words = {options.agent, host};
  for (const std::string& word : {own_path(), std::string("launch"), "--answer=" + to_word(listener.address())})
    words.push_back(word);
  Process process(words, Process::Output::none, {}, "install ssh, or name another remote shell with --agent");
  std::vector<WatchLink> strangers;
  const auto start = Clock::now();
  bool connected = false;
  while (!connected && seconds_since(start) < kPatience && process.running()) {
    connected = welcome(listener, strangers, name);
    std::this_thread::sleep_for(20ms);
  }
  connected = connected || welcome(listener, strangers, name);
  process.kill_tree();
  return connected;
}

// Whether the text is the address of an interface of this host.
bool is_own_address(const std::string& text) {
  in_addr four{};
  in6_addr six{};
  const bool is_four = inet_pton(AF_INET, text.c_str(), &four) == 1;
  ifaddrs* all = nullptr;
  if ((!is_four && inet_pton(AF_INET6, text.c_str(), &six) != 1) || getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* i = all; i && !found; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != (is_four ? AF_INET : AF_INET6)) continue;
    if (is_four)
      found = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr == four.s_addr;
    else
      found = IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr, &six);
  }
  freeifaddrs(all);
  return found;
}

// Whether the name is looked up as an address of this host, loopback included.
bool leads_here(const std::string& name) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &all) != 0) return false;
  bool found = false;
  for (const addrinfo* i = all; i && !found; i = i->ai_next) {
    char text[NI_MAXHOST] = "";
    if (getnameinfo(i->ai_addr, i->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      found = std::string_view(text).starts_with("127.") || is_own_address(text);
  }
  freeaddrinfo(all);
  return found;
}

}  // namespace

// A lookup can take seconds: only for a name that may well be this host's.
bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == "127.0.0.1" || name == host_name() || is_own_address(name)) return true;
  return is_same_host(name, host_name()) && leads_here(name);
}

bool is_same_host(const std::string& a, const std::string& b) {
  if (a.size() > b.size()) return is_same_host(b, a);
  const bool short_name = a.find('.') == a.npos && a.find_first_not_of("0123456789") != a.npos;
  return !a.empty() && (a == b || (short_name && b.starts_with(a + ".")));
}

bool is_reachable(const std::string& host, const Options& options, std::string* own_name) {
  std::string name = host_name();
  const bool reachable = is_this_host(host) || answers(host, options, name);
  if (reachable && own_name) *own_name = name;
  return reachable;
}

std::string unreachable_text(const std::string& host) {
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (found) freeaddrinfo(found);
  if (failed == 0) return "it cannot be reached";
  return fmt::format(
      "it cannot be reached: its name does not resolve here ({}). fix: correct the name, or add it to /etc/hosts",
      gai_strerror(failed));
}

int answer_probe(const std::string& where) {
  WatchAddress address;
  std::stringstream in(where);
  std::string word;
  if (!std::getline(in, word, ',')) return 1;
  address.session = std::strtoull(word.c_str(), nullptr, 10);
  if (!std::getline(in, word, ',')) return 1;
  address.port = static_cast<std::uint16_t>(std::atoi(word.c_str()));
  while (std::getline(in, word, ',') && address.count < static_cast<int>(address.ipv4.size()))
    address.ipv4[static_cast<std::size_t>(address.count++)] =
        static_cast<std::uint32_t>(std::strtoul(word.c_str(), nullptr, 10));
  // Loopback leads to this host itself, whose listener, if any, has another session.
  return connect_to_any(address, 1, 2000ms).open() ? 0 : 1;
}

}  // namespace tutti::launch
