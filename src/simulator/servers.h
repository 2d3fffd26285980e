// SPDX-License-Identifier: Apache-2.0
// servers.h -- workers that push to servers and fetch from them without waiting for each other: DataParallelASGD and
// asynchronous EASGD (src/parallel/parameter_server). One event per message.
#pragma once

#include <vector>

#include "simulator/parts.h"

namespace tutti::simulator {

struct ShardLoad {
  int owner = 0;
  double values = 0, bytes = 0;  // of a request, and of a response
  double messages = 1;           // that the request consists of
  int span = 1;                  // many ranks: the owner is one of so many, another one for the next worker
};

struct ServerLoad {
  int workers = 1;  // the first ranks
  int first_server = 0, servers = 1;
  bool naps = true;     // who waits sleeps in between, and looks late
  bool rotates = true;  // a worker begins with its own shard, not with the first one
  std::vector<ShardLoad> shards;
  double block = 0;                          // seconds of a core that a worker computes between two exchanges
  double encode = 0, serve = 0, decode = 0;  // seconds per value: at the worker, the server, the worker
};
// The program's own plan of shards; with many ranks some shards are put together, to have fewer events. `servers`: the
// last ranks, which only serve; 0 = all ranks, which also work.
ServerLoad server_load(const Parameters& layout, const std::string& coding, int ranks, int servers, double head_bytes);

struct ServedRun {
  double seconds = 0;                         // of an exchange with the computing before it, of the mean worker
  double sent = 0;                            // bytes per rank and exchange, of the busiest rank
  double received = 0;                        // likewise
  double total_sent = 0, total_received = 0;  // of all ranks, in all
};
// The mean of `exchanges` exchanges after `warm_up` ones.
ServedRun run_servers(const ServerLoad&, const MessageCost&, const Cluster&, int warm_up, int exchanges);

}  // namespace tutti::simulator
