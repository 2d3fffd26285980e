// SPDX-License-Identifier: Apache-2.0
// options.h -- the ParallelTrain=[...] block of SGD.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective/transport.h"
#include "parallel/exchange_bits.h"
#include "parallel/fault_injection.h"
#include "parallel/groups/options.h"
#include "parallel/local_sgd/asa_options.h"
#include "parallel/local_sgd/block_options.h"
#include "parallel/parameter_server/options.h"
#include "tutti/codec.h"
#include "tutti/config.h"

namespace tutti {

enum class MethodKind { none, data_parallel, model_averaging, block_momentum, asgd, asa, easgd };

struct DataParallelOptions {
  config::Schedule<std::int64_t> gradient_bits = 32;
  bool zero_threshold = true;
  bool buffered_async = false;
  bool reset_residuals = false;
  // For methods that exchange gradients under another name.
  const char* method = "DataParallelSGD";
  bool announces = true;  // the number of bits
  NumberFormat sixteen_bits = NumberFormat::levels;
  Quantizer quantizer = Quantizer::adaptive;
  bool double_precision = false;  // set by the owner of the block before reading: precision = "double" allows 64 bits

  void describe(config::Fields& f);

 private:
  void describe_exchange_bits(config::Fields& f);
};

struct ParallelTrainOptions;

// The method within groups.
struct InsideGroups {
  std::vector<ParallelTrainOptions> level;  // one; empty = DataParallelSGD in 32 bits
  int depth = 1;
  void describe(config::Fields& f);
};

struct ParallelTrainOptions {
  MethodKind method = MethodKind::none;
  std::int64_t start_epoch = 1;   // counts from 1, as written
  std::int64_t start_sample = 0;  // of that epoch
  bool distributed_reading = true;
  bool distributed_reading_given = false;
  std::int64_t sync_perf_stats = 0;
  Transport transport = Transport::automatic;
  DataParallelOptions data_parallel;
  std::optional<ModelAveragingOptions> model_averaging;
  std::optional<BlockMomentumOptions> block_momentum;
  AsaOptions asa;
  EasgdOptions easgd;
  ServerOptions servers;
  std::optional<FaultHookOptions> fault_hook;
  std::vector<std::string> unused_blocks;  // of methods other than this one, as written
  GroupOptions groups;                     // with them `method` works between the groups
  InsideGroups inside_groups;
  int depth = 0;           // of the block: 0 = ParallelTrain, 1 = its insideGroups, ...
  bool on_device = false;  // the gradients, known when the network is

  void describe(config::Fields& f);
  void put_on_device();                 // all levels
  ParallelTrainOptions inside() const;  // what works within the groups
  std::string name() const;             // of the method, with those within its groups
  // Whether the ranks work together in this epoch, which counts from 0.
  bool parallel_at(std::int64_t epoch) const { return method != MethodKind::none && epoch + 1 >= start_epoch; }

 private:
  void describe_start(config::Fields& f);
  void describe_groups(config::Fields& f);
  void describe_transport(config::Fields& f);
  void check_servers(config::Fields& f) const;
};

}  // namespace tutti
