// SPDX-License-Identifier: Apache-2.0
#include "actions/forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/memory.h"

namespace tutti::actions {
namespace {

constexpr double kPays = 1.05;  // more ranks pay from this factor on

std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0); }

double rate(const Measured& m) { return m.seconds > 0 ? static_cast<double>(m.samples) / m.seconds : 0; }

}  // namespace

std::string full_name(const Forecast& f) { return f.method + " in " + f.bits + " bits"; }

std::string no_gain_text(double speed, double single, int ranks) {
  if (ranks == 1 || speed >= kPays * single) return {};
  return fmt::format("{} ranks do not pay: one rank alone trains {:.0f} samples/s", ranks, single);
}

void forecast_steps(Forecast& f, const Measured& m, const LinkFigures& link) {
  const double steps = static_cast<double>(std::max<std::int64_t>(m.steps, 1));
  f.samples_per_second = rate(m), f.bytes_per_step = m.bytes / steps, f.memory = m.memory;
  const double alone = f.bytes_per_step / link.bandwidth + 2 * link.latency;
  if (f.bytes_per_step > 0) f.hidden = std::clamp(1 - m.wait / steps / alone, 0.0, 1.0);
}

// Both trials have n steps, and exchanges that differ in number. Where a disturbance makes an exchange too long, a step
// still takes no less than the slowest rank computes.
void forecast_blocks(Forecast& f, const Measured& never, const Measured& always, double period) {
  const double n = static_cast<double>(std::max<std::int64_t>(never.steps, 1));
  const double more = always.exchanges - never.exchanges;
  const double exchange = more > 0 ? std::max(0.0, (always.seconds - never.seconds) / more) : 0;
  const double step = std::max(1e-9, std::max(never.seconds - never.exchanges * exchange, never.computing) / n);
  const double samples = static_cast<double>(never.samples) / n;
  f.samples_per_second = samples / (step + exchange / period);
  f.bytes_per_step = always.exchanges > 0 ? always.bytes / always.exchanges / period : 0;
  f.memory = always.memory;
  f.never = never, f.always = always, f.period = period;
}

// If the longer trial does not show how long the end takes, a step takes the mean; never less than ranks compute.
void forecast_epochs(Forecast& f, const Measured& some, const Measured& more, double steps, const LinkFigures& link) {
  forecast_steps(f, more, link);
  const auto n = static_cast<double>(more.steps), longer = n - static_cast<double>(some.steps);
  if (longer <= 0 || more.seconds <= some.seconds) return;
  const double mean = more.seconds / n;
  const double step = std::clamp((more.seconds - some.seconds) / longer, std::min(more.computing / n, mean), mean);
  const double end = more.seconds - n * step;
  f.samples_per_second = static_cast<double>(more.samples) / n * steps / (steps * step + end);
}

double mean_period(std::int64_t epoch, std::int64_t minibatch, std::int64_t samples, std::int64_t steps) {
  const std::int64_t whole = epoch / minibatch, rest = epoch % minibatch;
  const std::int64_t all = std::max<std::int64_t>(1, whole + (rest > 0));
  const std::int64_t every = std::max<std::int64_t>(1, steps > 0 ? steps : rounded_up(samples, minibatch));
  const bool rest_ends_a_block = rest > 0 && whole % every * minibatch + rest >= samples;
  const std::int64_t exchanges = steps > 0 ? rounded_up(all, every) : whole / every + rest_ends_a_block + 1;
  return static_cast<double>(all) / static_cast<double>(exchanges);
}

void take_faster(Forecast& f, const Forecast& again) {
  if (!again.refused.empty()) return;
  const auto faster = [](const Measured& a, const Measured& b) { return rate(b) > rate(a) ? b : a; };
  if (f.period > 0 && again.period > 0)
    forecast_blocks(f, faster(f.never, again.never), faster(f.always, again.always), again.period);
  else if (again.samples_per_second > f.samples_per_second)
    f = again;
}

Forecast median_of(std::vector<Forecast> rounds) {
  Forecast f = rounds.at(0);
  std::erase_if(rounds, [](const Forecast& r) { return !r.refused.empty(); });
  if (rounds.empty()) return f;
  const std::size_t middle = (rounds.size() - 1) / 2;
  const auto sorted_by = [&](auto speed) -> const Forecast& {
    std::ranges::sort(rounds, {}, speed);
    return rounds[middle];
  };
  if (f.period == 0) return sorted_by(&Forecast::samples_per_second);
  const Measured never = sorted_by([](const Forecast& r) { return rate(r.never); }).never;
  const Measured always = sorted_by([](const Forecast& r) { return rate(r.always); }).always;
  forecast_blocks(f, never, always, f.period);
  return f;
}

Choice choose(const std::vector<Forecast>& all) {
  Choice choice;
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    const Forecast& f = all[static_cast<std::size_t>(i)];
    const auto faster = [&](int than) {
      return than < 0 || f.samples_per_second > all[static_cast<std::size_t>(than)].samples_per_second;
    };
    if (!f.refused.empty()) continue;
    if (faster(choice.fastest)) choice.fastest = i;
    if (f.exact && faster(choice.exact)) choice.exact = i;
  }
  return choice;
}

std::string report_text(const std::vector<Forecast>& all, double single, int ranks) {
  std::string text = fmt::format("{:<30} {:>5} {:>12} {:>8} {:>12} {:>8} {:>11}\n", "method", "bits", "samples/s",
                                 "speed-up", "MB per step", "hidden", "memory");
  text +=
      fmt::format("{:<30} {:>5} {:>12.0f} {:>8.2f} {:>12} {:>8} {:>11}\n", "one rank", "-", single, 1.0, "-", "-", "-");
  for (const Forecast& f : all) {
    if (!f.refused.empty()) {
      text += fmt::format("{:<30} {:>5} not possible: {}\n", f.method, f.bits, f.refused);
      continue;
    }
    // With one rank all methods are alike, and their speeds differ by chance.
    const double factor = single > 0 ? f.samples_per_second / single : 0;
    const std::string speed_up = ranks == 1 ? "-" : fmt::format("{:.2f}", factor);
    text += fmt::format("{:<30} {:>5} {:>12.0f} {:>8} {:>12.3f} {:>8} {:>11}\n", f.method, f.bits, f.samples_per_second,
                        speed_up, f.bytes_per_step / 1e6, f.hidden < 0 ? "-" : fmt::format("{:.0f} %", 100 * f.hidden),
                        bytes_text(f.memory));
  }
  const Choice choice = choose(all);
  if (choice.fastest < 0) return text + "choice: none, no method is possible with these settings\n";
  const Forecast& fastest = all[static_cast<std::size_t>(choice.fastest)];
  if (choice.exact >= 0) {
    const Forecast& exact = all[static_cast<std::size_t>(choice.exact)];
    text +=
        fmt::format("choice: {}, {:.0f} samples/s: the fastest whose result is that of DataParallelSGD in 32 bits\n",
                    full_name(exact), exact.samples_per_second);
    if (choice.exact != choice.fastest && ranks > 1)
      text += fmt::format(
          "fastest: {}, {:.0f} samples/s, {:.2f} times as fast; its results differ, so compare the losses\n",
          full_name(fastest), fastest.samples_per_second,
          fastest.samples_per_second / std::max(exact.samples_per_second, 1e-9));
    if (const std::string no_gain = no_gain_text(exact.samples_per_second, single, ranks); !no_gain.empty())
      text += fmt::format(
          "{}{}\n", no_gain,
          fastest.samples_per_second >= kPays * single ? ", and only a method with other results is faster" : "");
  } else {
    text += fmt::format("choice: {}, {:.0f} samples/s\n", full_name(fastest), fastest.samples_per_second);
  }
  return text;
}

}  // namespace tutti::actions
