// SPDX-License-Identifier: Apache-2.0
#include "train/report.h"

#include <fmt/format.h>
#include <fmt/printf.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "base/memory.h"
#include "config/text.h"
#include "tutti/log.h"

namespace tutti {
namespace {

bool shows_exponent(double v) { return fmt::sprintf("%.8g", v).find('e') != std::string::npos; }

constexpr double kProgressSeconds = 0.5;  // between two progress lines

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// "ce = 0.56111", short, for the progress line.
std::string short_result(const NodeResult& r, double average) {
  return is_error_rate(r) ? fmt::format("{} = {:.5g}%", r.name, 100 * average)
                          : fmt::format("{} = {:.5g}", r.name, average);
}

}  // namespace

bool is_error_rate(const NodeResult& r) {
  constexpr std::string_view losses[] = {"CrossEntropy", "CrossEntropyWithSoftmax", "SquareError", "Logistic",
                                         "WeightedLogistic"};
  const std::string name = config::to_lower(r.name);
  if (r.operation == "ClassificationError") return name.ends_with('s');
  if (std::find(std::begin(losses), std::end(losses), r.operation) != std::end(losses)) return false;
  return name.ends_with("errs") || name.ends_with("errors");
}

bool larger_is_better(const NodeResult& r) {
  return r.operation == "Precision" || r.operation == "Recall" || r.operation == "F1Score";
}

std::string format_result(const NodeResult& r, double sum, double count) {
  const double average = count == 0 ? 0 : sum / count;
  std::string value;
  if (is_error_rate(r))
    value = fmt::sprintf(shows_exponent(average) ? "%2.3e%%" : "%2.3f%%", 100 * average);
  else
    value = fmt::sprintf(shows_exponent(average) ? "%.8e" : "%.8f", average);
  return fmt::format("{} = {} * {:.0f}", r.name, value, count);
}

std::string format_results(const std::vector<NodeResult>& names, const std::vector<StepMetrics::Evaluation>& values) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i)
    out += (i ? "; " : "") + format_result(names[i], values[i].sum, values[i].count);
  return out;
}

std::vector<StepMetrics::Evaluation> criterion_first(const StepMetrics& metrics) {
  std::vector<StepMetrics::Evaluation> all{{metrics.criterion, metrics.criterion_count}};
  all.insert(all.end(), metrics.evaluations.begin(), metrics.evaluations.end());
  return all;
}

Report::Report(NodeResult criterion, std::vector<NodeResult> evaluations, std::int64_t interval, std::int64_t first,
               int trace_level, bool progress_tracing)
    : names_(std::move(evaluations)),
      interval_(interval),
      first_(first),
      trace_level_(trace_level),
      progress_tracing_(progress_tracing) {
  names_.insert(names_.begin(), std::move(criterion));
}

StepMetrics Report::no_metrics() const {
  StepMetrics none;
  none.evaluations.resize(names_.size() - 1);
  return none;
}

void Report::begin_epoch(const EpochHeading& heading) {
  at_ = heading;
  minibatch_ = interval_begin_ = 0;
  samples_here_ = samples_done_ = samples_of_interval_ = 0;
  epoch_ = since_ = no_metrics();
  interval_times_ = {};
  interval_start_ = epoch_start_ = Clock::now();
}

void Report::continue_epoch(std::int64_t minibatches_done, const StepMetrics& epoch, const StepMetrics& interval) {
  epoch_ = epoch;
  samples_done_ = epoch.samples;
  since_ = interval;
  epoch_.evaluations.resize(names_.size() - 1);
  since_.evaluations.resize(names_.size() - 1);
  minibatch_ = interval_begin_ = minibatches_done;
  while (interval_begin_ > 0 && !line_due(interval_begin_)) --interval_begin_;
}

bool Report::line_due(std::int64_t minibatch) const {
  return interval_ > 0 && (minibatch <= first_ || minibatch % interval_ == 0);
}

bool Report::line_due_between(std::int64_t before, std::int64_t now) const {
  while (before < now)
    if (line_due(++before)) return true;
  return false;
}

void Report::add(const StepMetrics& metrics) {
  epoch_ += metrics;
  since_ += metrics;
}

void Report::add_to_epoch(const StepMetrics& metrics) { epoch_ += metrics; }

void Report::step(std::int64_t samples, std::int64_t minibatches, const EpochTimes& times) {
  const std::int64_t before = minibatch_;
  pass(samples, minibatches);
  const bool draws = progress_due();
  if (line_due_between(before, minibatch_)) interval_line(times);
  if (draws) progress_line(times);
}

void Report::pass(std::int64_t samples, std::int64_t minibatches) {
  samples_here_ += samples;
  samples_done_ += samples;
  samples_of_interval_ += samples;
  minibatch_ += minibatches;
}

std::string Report::results(const StepMetrics& metrics) const {
  return format_results(names_, criterion_first(metrics)) + "; ";
}

std::string Report::heading() const { return fmt::sprintf("Epoch[%2d of %d]", at_.epoch, at_.epochs); }

void Report::interval_line(const EpochTimes& times) {
  const double seconds = seconds_since(interval_start_);
  if ((metrics_ || ranks_) && at_.prefix.empty()) record_interval(seconds, times);
  if (trace_level_ > 0) {
    std::string percent;
    if (at_.minibatches > 0) {
      const double reports = static_cast<double>(at_.minibatches) / static_cast<double>(interval_);
      const int digits = std::max(static_cast<int>(std::ceil(std::log10(std::max(reports, 1e-9)))) - 2, 2);
      percent = fmt::sprintf(", %2.*f%%", digits,
                             100.0 * static_cast<double>(minibatch_) / static_cast<double>(at_.minibatches));
    }
    log::values(fmt::sprintf("%s %s-Minibatch[%4d-%4d%s]: %stime = %.4fs; samplesPerSecond = %.1f", at_.prefix,
                             heading(), interval_begin_ + 1, minibatch_, percent, results(since_), seconds,
                             interval_speed(seconds)));
  }
  if (progress_tracing_ && at_.minibatches > 0 && at_.prefix.empty()) {
    const double done =
        (static_cast<double>(at_.epoch - 1) + static_cast<double>(minibatch_) / static_cast<double>(at_.minibatches)) /
        static_cast<double>(at_.epochs);
    log::result(fmt::sprintf("PROGRESS: %.2f%%", 100 * std::min(done, 1.0)));
  }
  interval_begin_ = minibatch_;
  interval_start_ = Clock::now();
  interval_times_ = times;
  samples_of_interval_ = 0;
  since_ = no_metrics();
}

bool Report::progress_due() const {
  return log::shows_progress() && seconds_since(progress_shown_) >= kProgressSeconds;
}

// "epoch 2/10  45%  ETA 0:01:23  ce = 0.56111  12345 samples/s  waits 3.2%", the result since the epoch began. `waits`:
// the share of the time in which this rank waited for the exchange with others. A narrow terminal lacks the last ones.
void Report::progress_line(const EpochTimes& times) {
  progress_shown_ = Clock::now();
  const double rate = static_cast<double>(samples_here_) / std::max(seconds_since(epoch_start_), 1e-9);
  std::string text = fmt::format("epoch {}/{}", at_.epoch, at_.epochs);
  if (at_.samples > 0) {
    const std::int64_t left = at_.samples * (at_.epochs - at_.epoch + 1) - samples_done_;
    text +=
        fmt::format("  {:.0f}%  ETA {}", 100.0 * static_cast<double>(samples_done_) / static_cast<double>(at_.samples),
                    duration(static_cast<double>(left) / std::max(rate, 1e-9)));
  }
  if (epoch_.criterion_count > 0) text += "  " + short_result(names_[0], epoch_.criterion / epoch_.criterion_count);
  text += fmt::format("  {:.0f} samples/s", rate);
  if (times.exchange.exchanges > 0)
    text += fmt::format("  waits {:.1f}%", 100 * times.exchange.wait / std::max(times.total, 1e-9));
  log::progress(text);
}

void Report::end_epoch(const EpochFigures& f) {
  log::progress("");
  ended_.push_back({at_.epoch, format_results(names_, criterion_first(epoch_)), ""});
  log::values(
      fmt::sprintf("Finished %s: [Training] %stotalSamplesSeen = %d; learningRatePerSample = %.8g; epochTime=%.6gs",
                   heading(), results(epoch_), f.total_samples_seen, f.learning_rate, f.seconds));
  if (progress_tracing_) {
    log::result(
        fmt::sprintf("PROGRESS: %.2f%%", 100.0 * static_cast<double>(at_.epoch) / static_cast<double>(at_.epochs)));
    const bool has_evaluation = !epoch_.evaluations.empty() && epoch_.evaluations[0].count > 0;
    const double error = has_evaluation ? epoch_.evaluations[0].sum / epoch_.evaluations[0].count
                                        : epoch_.criterion / std::max(epoch_.criterion_count, 1.0);
    log::result(fmt::sprintf("EVALERR: %.7f%%", has_evaluation ? 100 * error : error));
  }
}

void Report::end_trial(double learning_rate_per_sample, std::int64_t minibatch) {
  log::progress("");
  log::line(fmt::sprintf(" Finished Mini-Epoch[%d]: %slearningRatePerSample = %.8g; minibatchSize = %d", at_.epoch,
                         results(epoch_), learning_rate_per_sample, minibatch));
}

void Report::validation(const std::vector<StepMetrics::Evaluation>& values) {
  const std::string text = format_results(names_, values);
  if (!ended_.empty()) ended_.back().validation = text;
  record_validation(values);
  log::values(fmt::format("Finished {}: [Validate] {}", heading(), text));
}

void Report::undo_epochs_after(std::int64_t epoch) {
  std::erase_if(ended_, [&](const EndedEpoch& e) { return e.epoch > epoch; });
}

std::string Report::result() const {
  if (ended_.empty()) return {};
  const EndedEpoch& last = ended_.back();
  return fmt::format("after {} of {} epochs: {}{}{}", last.epoch, at_.epochs, last.training,
                     last.validation.empty() ? "" : "; on the validation data: ", last.validation);
}

void Report::times(const EpochTimes& t, int ranks) const {
  const ExchangeStats& x = t.exchange;
  const double rest = t.total - t.read - t.network - t.update - x.encode - x.wait - x.decode;
  std::string text =
      fmt::format("Times of {}: compute {:.3f} s, waiting for data {:.3f} s", heading(), t.network, t.read);
  if (x.exchanges > 0)
    text += fmt::format(", encode {:.3f} s, wait for ranks {:.3f} s, decode {:.3f} s", x.encode, x.wait, x.decode);
  text += fmt::format(", update {:.3f} s, other {:.3f} s", t.update, std::max(rest, 0.0));
  log::values(text);
  if (x.values_sent > 0) {
    const double bits = 8.0 * static_cast<double>(x.bytes_sent) / static_cast<double>(x.values_sent);
    log::values(fmt::format("Exchange of {}: {} sent by this rank of {}, {:.3f} bits per value, 1/{:.1f} of float32",
                            heading(), bytes_text(static_cast<double>(x.bytes_sent)), ranks, bits, 32 / bits));
  }
  if (x.groups)
    log::line(fmt::format("Levels of {}: {} sent by this rank between groups, {} within them", heading(),
                          bytes_text(static_cast<double>(x.bytes_between)),
                          bytes_text(static_cast<double>(x.bytes_sent - x.bytes_between))));
  if (!t.units.empty()) log::line(fmt::format("Work units of {} by rank: {}", heading(), fmt::join(t.units, ", ")));
}

}  // namespace tutti
