// SPDX-License-Identifier: Apache-2.0
// tally_exchange.h -- adds the tallies of all ranks, in rank order and unquantised, without holding anybody up between
// begin() and finish().
#pragma once

#include <memory>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

// Zeros, of as many evaluations.
void clear(Tally&);

// What the others added to `all`, which contains `mine`.
Tally without(Tally all, const Tally& mine);

class TallyExchange {
 public:
  explicit TallyExchange(Communicator& comm) : comm_(comm) {}
  void begin(const Tally&);
  bool pending() const { return pending_; }
  Tally& finish();  // valid until the next finish()
  std::int64_t take_bytes();

 private:
  void plan(const Tally&);
  void write(const Tally&, std::size_t rank);
  void add(std::size_t rank);

  Communicator& comm_;
  bool planned_ = false, pending_ = false;
  std::size_t evaluations_ = 0, words_ = 0;
  std::vector<std::int64_t> all_;                     // a message per rank: counts, doubles by their bits
  std::vector<std::unique_ptr<Transfer>> transfers_;  // receives first
  Tally sum_;
  std::int64_t bytes_ = 0;
};

// What the other ranks pass; lists of evaluations may be shorter at ranks that have had no step. Collective.
Tally tally_of_others(Communicator&, const Tally& mine);

}  // namespace tutti
