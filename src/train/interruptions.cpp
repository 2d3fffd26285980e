// SPDX-License-Identifier: Apache-2.0
// What comes from outside between two minibatches: signals, and disturbances on purpose.
#include <fmt/format.h>

#include <bit>
#include <csignal>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "base/stop_request.h"
#include "train/checkpointing.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// Epochs and trials that this thread has begun in the run, also those that are trained again.
thread_local std::int64_t passes = 0;

const char* signal_name(int signal) { return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGUSR1"; }

}  // namespace

void begin_pass() { ++passes; }

bool may_begin(const Training& t, std::int64_t minibatch) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // minibatches of an epoch
  now_at(t.progress.epoch + 1, minibatch);
  return stop_request::admits(passes * most + minibatch);
}

void stop_run(Training& t, bool saves) {
  const int signal = stop_request::deciding_signal();
  const bool saved = saves && t.progress.samples_in_epoch > 0 && !t.sgd.truncated;
  if (saved) checkpoint(t, true);
  finish_checkpoints(t);
  log::line(
      fmt::format("Stopped by {} in epoch {} after {} minibatches. {}. Start the same command again to go on "
                  "(exit code {}).",
                  signal_name(signal), t.progress.epoch + 1, t.progress.minibatches_in_epoch,
                  saved ? fmt::format("The state is in '{}'", mid_epoch_name(t.model_path, t.progress.epoch))
                  : t.progress.samples_in_epoch > 0 ? "The last checkpoint is that of the epoch before"
                  : t.progress.epoch > 0            ? "The state is that of the end of the epoch before"
                                                    : "Nothing is trained yet",
                  static_cast<int>(kPreempted)));
  stop_request::state_saved(kPreempted);
  throw StopRun{kPreempted};
}

void disturb(Training& t) {
  const FaultHook::Disturbance disturbance = t.fault_hook.before_step();
  if (disturbance.flip_message) damage_next_message();
  Parameters& p = t.network->parameters();
  for (const Slice& s : p.slices) {
    if (s.name != disturbance.flip_weight) continue;
    float& value = p.weights.span()[s.offset + s.size() / 2];
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << 20));
  }
}

}  // namespace tutti
