// SPDX-License-Identifier: Apache-2.0
// block_exchange.h -- local SGD: every rank trains on its share of the data for a block of samples, then the ranks
// exchange weights. Covers model averaging, block momentum, outer optimizers and elastic averaging. This class decides
// when to exchange and moves the data; a BlockRule computes the new weights, and a codec sets the number of bits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collective/all_reduce.h"
#include "parallel/local_sgd/block_rules.h"
#include "parallel/local_sgd/fragments.h"
#include "parallel/sync_point_lines.h"
#include "tutti/codec.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct BlockSettings {
  std::string name;             // of the method
  std::int64_t block_size = 0;  // samples over all ranks between two exchanges; 0 = exchange after every minibatch
  std::int64_t every = 0;       // alternatively: minibatches between two exchanges
  bool at_epoch_end = true;     // exchange once more at the end of an epoch
  bool reset_momentum = false;  // the optimizer clears its momentum at every exchange
  std::string once_text, epoch_text;  // printed before the first epoch, and before each epoch
  bool logs_exchanges = false;        // prints a line per exchange
  std::int64_t print_every = 0;       // and details about every n-th
  bool filters = false;               // ranks must exchange for learning to take effect: see advice()
  CodecOptions codec;
  ResolvedTransport transport;  // the result of resolve_transport()
  StreamSettings stream;
  bool library_sums = false;  // with MPI_Allreduce instead of shards
};

class BlockExchange final : public WeightExchange, Pollable {
 public:
  BlockExchange(BlockSettings, std::unique_ptr<BlockRule>, Communicator&);

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  bool is_due(const StepInfo&) const override;
  WeightChange after_update(const StepInfo&) override;
  void drain() override;
  WeightChange end_epoch() override;
  void show(Weights, std::span<const float> changed_from) override;
  void archive(Archive&, Section) override;
  void poll() override;

  std::string describe() const;
  std::string advice(std::int64_t samples) const;

 private:
  void synchronize() const { live_->weights.memory().synchronize(); }
  void keep_common();
  void change_places();
  void adopt(std::span<const float> changed_from);
  WeightChange exchange();
  void archive_rank(Archive&);
  void archive_common(Archive&);
  void archive_residuals(Archive&, const std::string& rank_name, const std::string& owner_name);
  void take_over(Archive&, const std::string& rank_name, float carried, std::span<float> residual);
  bool due(std::int64_t more_minibatches, std::int64_t more_samples) const;
  bool nothing_to_exchange() const;
  bool stream_step(const BlockSamples&);
  void stream_exchanged(double seconds);
  void exchange_chunks();
  void exchange_by_library();
  BlockSamples count_samples();

  BlockSettings settings_;
  std::unique_ptr<BlockRule> rule_;
  Communicator& comm_;
  Parameters* live_ = nullptr;
  Parameters block_;  // weights: equal on all ranks; gradients: offers and their sums
  std::unique_ptr<Codec> codec_;
  const WeightKernels* kernels_ = nullptr;
  std::unique_ptr<AllReduce> all_reduce_;
  std::unique_ptr<FragmentStream> stream_;  // null if weights are exchanged as a whole
  FloatBuffer residual_, owner_residual_;   // quantisation errors of offers and of sums

  BlockSamples since_;            // samples since the last exchange
  std::int64_t minibatches_ = 0;  // since the last exchange
  bool apart_ = false;            // this rank's weights may differ from the common ones
  bool shown_ = false;

  std::vector<std::int64_t> counts_;  // samples by rank
  bool announced_ = false, warned_fragments_ = false;
  SyncPointLines lines_;
  ResolvedTransport
      transport_;  // declared last: destroyed first, which cancels pending transfers before their buffers go
};

ParallelMethod make_block_exchange(BlockSettings, std::unique_ptr<BlockRule>, Communicator&);

}  // namespace tutti
