// SPDX-License-Identifier: Apache-2.0
// all_reduce_gradients.h -- DataParallelSGD: sums the gradients of every minibatch over the ranks, in 32 bits or in few
// bits with error feedback (Seide et al., Interspeech 2014). Every rank makes the same update.
#pragma once

#include <memory>
#include <vector>

#include "collective/all_reduce.h"
#include "parallel/data_parallel_options.h"
#include "tutti/codec.h"
#include "tutti/parallel_method.h"

namespace tutti {

class AllReduceGradients final : public GradientExchange {
 public:
  // Prints the time of every `print_every`-th exchange; 0 = none. `transport` is the result of resolve_transport().
  AllReduceGradients(const DataParallelOptions&, std::int64_t print_every, ResolvedTransport transport, Communicator&);

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  void begin_step(const StepInfo&, ReducedGradientSink&) override;
  bool follows_device() const override { return parameters_ && !is_host(parameters_->gradients.memory()); }
  void chunk_ready(std::size_t chunk) override;
  void chunks_ready(std::span<const std::size_t> chunks) override;
  void finish_step() override;
  void drain(ReducedGradientSink&) override;
  void archive(Archive&) override;

 private:
  // A delayed step whose gradients have not been delivered yet (buffered asynchronous mode).
  struct Pending {
    bool any = false;
    std::int64_t columns = 0;
  };

  void build(int bits);
  void need_residuals();
  void hand_out_residuals();
  void ask(std::int64_t columns, const ReducedGradientSink&);
  bool passes_through() const;
  void ready_in_step(std::size_t chunk);
  void exchange_behind();
  void deliver_what_is_there();
  void deliver(std::size_t first, std::size_t end, std::int64_t columns, ReducedGradientSink&);
  void count_spent();
  void print_times();

  DataParallelOptions options_;
  std::int64_t print_every_;
  Communicator& comm_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // indices of all chunks

  int bits_ = 0, bits_of_epoch_ = 0;
  Summed summed_ = Summed::gradients;
  const float* mask_ = nullptr;  // while contributions are summed
  std::unique_ptr<Codec> codec_;
  std::unique_ptr<AllReduce> exchange_;

  FloatBuffer local_residual_, owner_residual_;
  bool left_over_ = false;            // the codec is lossless, but an earlier one left residuals
  std::int64_t residual_epoch_ = -1;  // the epoch at whose start the residuals were cleared last

  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_ = 0;
  // Chunks of this step. In buffered asynchronous mode, delivered_ counts those that are encoded.
  std::size_t announced_ = 0, delivered_ = 0;
  Pending pending_;

  std::int64_t steps_ = 0;
  double worked_before_ = 0, waited_before_ = 0;
  ResolvedTransport
      transport_;  // declared last: destroyed first, which cancels pending transfers before their buffers go
};

}  // namespace tutti
