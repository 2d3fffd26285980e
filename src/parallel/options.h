// SPDX-License-Identifier: Apache-2.0
// options.h -- the ParallelTrain=[...] block of SGD.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/fault_injection.h"
#include "parallel/groups/options.h"
#include "parallel/method_table.h"
#include "tutti/config.h"

namespace tutti {

struct ParallelTrainOptions;

// The method inside the groups.
struct InsideGroups {
  std::vector<ParallelTrainOptions> level;  // one; empty = DataParallelSGD in 32 bits
  int depth = 1;
  void describe(config::Fields& f);
};

struct ParallelTrainOptions {
  MethodOptions method;                 // of the table's rows
  bool automatic = false;               // auto: actions/auto_method.h replaces `method` before a run
  std::vector<std::string> auto_allow;  // kinds of methods with other results that it may take
  std::int64_t start_epoch = 1;         // counts from 1, as written
  std::int64_t start_sample = 0;        // of that epoch
  bool distributed_reading = true;
  bool distributed_reading_given = false;
  std::int64_t sync_perf_stats = 0;
  Transport transport = Transport::automatic;
  std::optional<FaultHookOptions> fault_hook;
  std::vector<std::string> unused_blocks;  // of methods other than this one, as written
  GroupOptions groups;                     // if set, `method` works between the groups
  InsideGroups inside_groups;
  int depth = 0;                  // nesting depth: 0 = ParallelTrain, 1 = its insideGroups, ...
  bool on_device = false;         // gradients are on a device; set when the network is known
  bool double_precision = false;  // precision = "double"; set before reading

  void describe(config::Fields& f);
  void put_on_device();                 // at all levels
  ParallelTrainOptions inside() const;  // the settings inside the groups
  std::string name() const;             // of the method and of those inside its groups
  bool exchanges() const { return !std::holds_alternative<NoExchange>(method); }
  MethodTraits traits() const { return traits_of(method); }
  // The same, including the methods inside groups.
  bool sums_gradients() const { return traits().sums_gradients && (!groups.any() || inside().sums_gradients()); }
  bool delayed() const { return traits().delayed || (groups.any() && inside().delayed()); }
  // Whether updates of ranks add up at servers, here or inside groups, so that together they are those of one rank.
  bool adds_updates() const {
    const auto* const servers = std::get_if<ServerOptions>(&method);
    return (servers && !servers->average) || (groups.any() && inside().adds_updates());
  }
  // All ranks take part in every step; likewise.
  bool keeps_step() const {
    return !traits().work_queue && !traits().backup_workers && (!groups.any() || inside().keeps_step());
  }
  // The options of method T; selects the method if another one is set.
  template <class Options>
  Options& as() {
    return std::holds_alternative<Options>(method) ? std::get<Options>(method) : method.emplace<Options>();
  }

 private:
  template <class Options>
  void describe_method(config::Fields& f);
  void describe_choice(config::Fields& f);
  void describe_start(config::Fields& f);
  void describe_groups(config::Fields& f);
  void describe_transport(config::Fields& f);
  void check_servers(config::Fields& f) const;
  void check_masters(config::Fields& f) const;
};

// What the SGD block says of a method, whether or not it is the chosen one; the defaults if it says nothing. Mistakes
// are reported when the block is read.
template <class Options>
Options method_settings(const config::Record& sgd) {
  Options options;
  Problems ignored;
  config::Notices noted;
  if (sgd.is_block("ParallelTrain"))
    config::read_open_fields(sgd.block("ParallelTrain"), "ParallelTrain",
                             [&](config::Fields& f) {
                               f.alias("ASGD", ServerOptions::name);
                               f.block(Options::name, options, Options::help);
                             },
                             ignored, noted, {});
  return options;
}

// Makes the method of the block, including groups. The options must have been read without problems. Collective.
ParallelMethod make_method(const ParallelTrainOptions&, const MethodContext&);

}  // namespace tutti
