// SPDX-License-Identifier: Apache-2.0
// all_reduce_gradients.h -- DataParallelSGD: the gradients of every minibatch are summed over the ranks, in full or in
// few bits with error feedback (Seide et al., Interspeech 2014), and every rank makes the same update.
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
  // Every `print_every`-th exchange prints its time; 0 = none does. `transport` as resolve_transport() has it.
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
  // Gradients in flight that nobody has got yet (buffered asynchronous mode).
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
  void ready_behind(std::size_t chunk);
  void deliver_what_is_there();
  void deliver(std::size_t first, std::size_t end, std::int64_t columns, ReducedGradientSink&);
  void count_spent();
  void print_times();

  DataParallelOptions options_;
  std::int64_t print_every_;
  Communicator& comm_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // their numbers

  int bits_ = 0, bits_of_epoch_ = 0;
  Summed summed_ = Summed::gradients;
  const float* mask_ = nullptr;  // while contributions are summed
  std::unique_ptr<Codec> codec_;
  std::unique_ptr<AllReduce> exchange_;

  FloatBuffer local_residual_, owner_residual_;
  bool left_over_ = false;            // the codec loses nothing, but one before it did
  std::int64_t residual_epoch_ = -1;  // the epoch whose start last cleared the residuals

  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_ = 0;
  std::size_t announced_ = 0, delivered_ = 0;  // chunks, in this step
  Pending pending_;

  std::int64_t steps_ = 0;
  double worked_before_ = 0, waited_before_ = 0;
  ResolvedTransport
      transport_;  // declared last: destroyed first, which cancels pending transfers before their buffers go
};

}  // namespace tutti
