// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

std::size_t AdmissionHandler::handle(int client, std::span<std::byte> message) {
  Worker& w = workers_[static_cast<std::size_t>(client)];
  if (w.state == State::computing || w.state == State::away) {
    std::memcpy(&w.request, message.data(), sizeof w.request);
    w.state = w.request.leaves ? State::away : State::asking;
    if (!w.request.leaves) queue_.push_back(client);
    decide();
    if (w.state == State::away) return sizeof w.response;
  }
  if (w.state == State::asking) return 0;
  w.state = State::computing;
  std::memcpy(message.data(), &w.response, sizeof w.response);
  return sizeof w.response;
}

void AdmissionHandler::restart() {
  for (Worker& w : workers_) w = {};
  queue_.clear();
  batches_ = 0;
}

namespace {

class Bounded final : public AdmissionHandler {
 public:
  Bounded(int workers, std::int64_t most) : AdmissionHandler(workers), most_(most) {}

 private:
  void decide() override {
    while (!queue_.empty() && admit_with(queue_.front())) {
    }
  }

  // The smallest group with `first` that may push; false if a computing worker forbids it.
  bool admit_with(int first) {
    group_.assign(1, first);
    for (std::size_t before = 0; before != group_.size();) {
      before = group_.size();
      for (const int other : queue_)
        if (!in_group(other) && forbids(other)) group_.push_back(other);
    }
    for (std::size_t i = 0; i < workers_.size(); ++i)
      if (computes(workers_[i].state) && forbids(static_cast<int>(i))) return false;
    for (std::size_t i = 0; i < workers_.size(); ++i)
      if (!in_group(static_cast<int>(i))) workers_[i].missed += static_cast<std::int64_t>(group_.size());
    for (const int member : group_) {
      Worker& w = workers_[static_cast<std::size_t>(member)];
      w.response = {batches_, static_cast<std::int64_t>(group_.size()), 0, w.missed};
      w.missed = 0;
      w.state = State::admitted;
      queue_.erase(std::find(queue_.begin(), queue_.end(), member));
    }
    ++batches_;
    return true;
  }

  static bool computes(State s) { return s == State::computing || s == State::admitted; }
  bool in_group(int worker) const { return std::find(group_.begin(), group_.end(), worker) != group_.end(); }
  bool forbids(int worker) const {
    return workers_[static_cast<std::size_t>(worker)].missed + static_cast<std::int64_t>(group_.size()) > most_;
  }

  const std::int64_t most_;
  std::vector<int> group_;
};

class Backup final : public AdmissionHandler {
 public:
  Backup(int workers, std::int64_t backups) : AdmissionHandler(workers), wanted_(workers - backups) {}

 private:
  void decide() override {
    drop_late_ones();
    std::int64_t with_samples = 0, idle = 0;
    for (const int c : queue_) (workers_[static_cast<std::size_t>(c)].request.samples > 0 ? with_samples : idle)++;
    const auto away =
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.state == State::away; });
    const auto all = static_cast<std::int64_t>(workers_.size());
    if (with_samples < wanted_ && with_samples + idle + away < all) return;
    if (queue_.empty()) return;
    // Idle workers join: they have nothing that could become stale.
    const std::int64_t size = std::min(with_samples, wanted_) + idle;
    std::int64_t left = wanted_;
    for (const int c : queue_) {
      Worker& w = workers_[static_cast<std::size_t>(c)];
      if (w.request.samples > 0 && left-- <= 0) continue;
      w.response = {batches_, size, batches_ + 1, 0};
      w.state = State::admitted;
    }
    ++batches_;
    std::erase_if(queue_, [&](int c) { return workers_[static_cast<std::size_t>(c)].state == State::admitted; });
    drop_late_ones();
  }

  void drop_late_ones() {
    std::erase_if(queue_, [&](int c) {
      Worker& w = workers_[static_cast<std::size_t>(c)];
      if (w.request.step >= batches_) return false;
      w.response = {-1, 0, batches_, 0};
      w.state = State::dropped;
      return true;
    });
  }

  const std::int64_t wanted_;
};

}  // namespace

std::unique_ptr<AdmissionHandler> make_bounded_admission(int workers, std::int64_t most) {
  return std::make_unique<Bounded>(workers, most);
}

std::unique_ptr<AdmissionHandler> make_backup_admission(int workers, std::int64_t backups) {
  return std::make_unique<Backup>(workers, backups);
}

void StalenessCounts::add(std::int64_t staleness) {
  ++bins[std::min(static_cast<std::size_t>(staleness), kBins - 1)];
  ++pushes;
  sum += staleness;
  largest = std::max(largest, staleness);
}

StalenessCounts& StalenessCounts::operator+=(const StalenessCounts& o) {
  for (std::size_t i = 0; i < kBins; ++i) bins[i] += o.bins[i];
  pushes += o.pushes, sum += o.sum, largest = std::max(largest, o.largest);
  return *this;
}

void StalenessCounts::add_up(Communicator& comm) {
  comm.all_reduce_sum(std::span(bins));
  comm.all_reduce_sum(std::span(&pushes, 1));
  comm.all_reduce_sum(std::span(&sum, 1));
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&largest, 1)), std::as_writable_bytes(std::span(all)));
  largest = *std::max_element(all.begin(), all.end());
}

std::string StalenessCounts::text() const {
  std::string text =
      fmt::format("mean {:.2f}, max {}; {} pushes",
                  static_cast<double>(sum) / std::max<double>(1, static_cast<double>(pushes)), largest, pushes);
  const char* sign = ": ";
  for (std::size_t i = 0; i < kBins; ++i)
    if (bins[i] > 0)
      text += fmt::format("{}{}{}: {}", std::exchange(sign, ", "), i, i + 1 == kBins ? "+" : "", bins[i]);
  return text;
}

}  // namespace tutti
