// SPDX-License-Identifier: Apache-2.0
// What another rank sends: encoded columns of any number of bits, and the messages of the watchdogs.
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "comm/watch_link.h"
#include "comm/watch_verdict.h"
#include "tutti/codec.h"

namespace {

void decode(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    const auto codec = make_codec({.bits = bits});
    for (const std::size_t rows : {1, 7, 64, 100}) {
      const std::size_t columns = 3, bytes = codec->bytes(rows, columns);
      std::vector<std::byte> message(bytes);
      std::memcpy(message.data(), data, std::min(size, bytes));
      std::vector<float> values(rows * columns);
      codec->decode(rows, columns, message.data(), values.data());
    }
  }
}

void watch(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  WatchLink link(ends[0]);
  [[maybe_unused]] const auto n = send(ends[1], data, size, MSG_NOSIGNAL);
  close(ends[1]);
  std::vector<WatchedRank> ranks(1);
  while (const auto message = link.receive()) {
    ranks[0].beat = *message;
    ranks[0].linked = true;
    where_it_is(ranks[0]);
    judge(ranks, 1, 1);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decode(data, size);
  watch(data, size);
  return 0;
}
