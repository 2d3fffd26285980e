// SPDX-License-Identifier: Apache-2.0
#include "parallel/fault_injection.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

namespace tutti {

void FaultHookOptions::describe(config::Fields& f) {
  f("rank", rank, "rank to disturb; -1 = every rank");
  f("sleep", sleep, "seconds to sleep in each disturbed step");
  f("every", every, "disturb one step out of this many");
  f("firstStep", first_step, "number of undisturbed steps at the start");
  f("steps", steps, "number of steps to disturb; 0 = all remaining ones");
  f("exit", exit, "end the process of the rank in its first disturbed step, as if its host had failed");
  f("flipWeight", flip_weight, "flip a bit of this parameter in each disturbed step, as damaged memory does");
  f("flipMessage", flip_message, "flip a bit of the next message with a checksum that the rank receives");
  if (rank < -1) f.problem("rank", "ranks count from 0", "write -1 for every rank");
  if (!(sleep >= 0 && std::isfinite(sleep))) f.problem("sleep", "sleep must be a number of seconds, 0 or more");
  if (every < 1) f.problem("every", "every must be at least 1 step");
  if (first_step < 0) f.problem("firstStep", "a number of steps cannot be negative");
  if (steps < 0) f.problem("steps", "a number of steps cannot be negative", "write 0 for all steps");
}

std::string FaultHookOptions::text() const {
  const std::string who = rank < 0 ? "every rank" : fmt::format("rank {}", rank);
  if (exit) return fmt::format("{} ends in step {}", who, first_step + 1);
  std::string text = !flip_weight.empty() ? fmt::format("{} flips a bit of '{}' in ", who, flip_weight)
                     : flip_message       ? fmt::format("{} flips a bit of a message in ", who)
                                          : fmt::format("{} sleeps {:g} s in ", who, sleep);
  text += every == 1 ? "every step" : fmt::format("one step of {}", every);
  if (first_step > 0) text += fmt::format(", from step {} on", first_step + 1);
  if (steps > 0) text += fmt::format(", {} {}", steps, steps == 1 ? "time" : "times");
  return text;
}

bool FaultHook::due(std::int64_t step) const {
  if (!(here_ || options_.rank < 0) || step < options_.first_step) return false;
  const std::int64_t since = step - options_.first_step;
  return since % options_.every == 0 && (options_.steps == 0 || since / options_.every < options_.steps);
}

FaultHook::Disturbance FaultHook::before_step() {
  if (!due(step_++)) return {};
  if (options_.exit) std::raise(SIGKILL);
  std::this_thread::sleep_for(std::chrono::duration<double>(options_.sleep));
  return {options_.flip_weight, options_.flip_message};
}

}  // namespace tutti
