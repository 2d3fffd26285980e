// SPDX-License-Identifier: Apache-2.0
// The names of a run's files, and the choice among them when a run starts again.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>

#include "base/exit_codes.h"
#include "base/write_root.h"
#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "train/checkpoint.h"
#include "train/container.h"
#include "train/file.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {

namespace fs = std::filesystem;

std::string model_name(const std::string& model_path, std::int64_t epoch, std::int64_t max_epochs) {
  return epoch == max_epochs ? model_path : numbered_model_name(model_path, epoch);
}

std::string numbered_model_name(const std::string& model_path, std::int64_t epoch) {
  return fmt::format("{}.{}", model_path, epoch);
}

std::string checkpoint_name(const std::string& model) { return model + ".ckp"; }

std::string mid_epoch_name(const std::string& model_path, std::int64_t epoch) {
  return fmt::format("{}.{}.mid", model_path, epoch + 1);
}

// Reading the directory costs the same for any maxEpochs.
void each_numbered_file(const std::string& model_path,
                        const std::function<void(std::int64_t epoch, std::string_view end)>& use) {
  const std::string lead = fs::path(model_path).filename().string() + ".";
  std::error_code error;
  for (const auto& file : fs::directory_iterator(directory_of(model_path), error)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(lead)) continue;
    std::int64_t epoch = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, wrong] = std::from_chars(name.data() + lead.size(), end, epoch);
    if (wrong == std::errc()) use(epoch, std::string_view(stop, end));
  }
}

std::int64_t last_model_epoch(const std::string& model_path) {
  std::int64_t last = -1;
  each_numbered_file(model_path, [&](std::int64_t epoch, std::string_view end) {
    if (end.empty()) last = std::max(last, epoch);
  });
  return last;
}

namespace {

std::optional<fs::file_time_type> time_of(const std::string& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  return time;
}

// The epochs that file names contain: "m.12" is a model after epoch 12, "m.12.mid" belongs to the epoch after the 11th.
std::set<std::int64_t> epochs_with_files(const std::string& model_path) {
  std::set<std::int64_t> epochs;
  each_numbered_file(
      model_path, [&](std::int64_t epoch, std::string_view end) { epochs.insert(end == ".mid" ? epoch - 1 : epoch); });
  return epochs;
}

// Of CheckpointState.
struct FinalState {
  std::int64_t epochs = 0, ended_early = 0;
};

class Search {
 public:
  Search(const std::string& model_path, std::int64_t max_epochs, std::vector<std::string>& warnings)
      : path_(model_path), max_epochs_(max_epochs), warnings_(warnings), epochs_(epochs_with_files(model_path)) {
    epochs_.erase(epochs_.begin(), epochs_.lower_bound(0));
    epochs_.erase(epochs_.lower_bound(max_epochs), epochs_.end());
    final_ = final_state().value_or(FinalState{max_epochs});
    final_place_ = final_.ended_early >= max_epochs ? max_epochs : std::min(final_.epochs, max_epochs);
    epochs_.insert({final_place_, max_epochs});  // the final model has no number
  }

  std::optional<ResumePoint> only(std::int64_t epoch) {
    instead_ = "the training does not go back to it";
    return after_epoch(epoch, model_name(path_, epoch, max_epochs_));
  }

  std::optional<ResumePoint> run() {
    for (auto at = epochs_.rbegin(); at != epochs_.rend(); ++at) {
      const std::int64_t epoch = *at;
      if (epoch < max_epochs_)
        if (auto point = mid_epoch(epoch)) return point;
      if (epoch == final_place_)
        if (auto point = after_epoch(epoch, path_)) return point;
      if (auto point = after_epoch(epoch, numbered_model_name(path_, epoch))) return point;
    }
    return std::nullopt;
  }

 private:
  // The state next to the final model: of fewer epochs than max_epochs_ if the run has become longer or has ended
  // early. CNTK's state does not say, but CNTK keeps the models of all epochs before the last.
  std::optional<FinalState> final_state() const {
    if (cntk::is_model(path_)) {
      const std::int64_t last = last_model_epoch(path_);
      return last >= 0 ? std::optional(FinalState{last + 1}) : std::nullopt;
    }
    const std::string checkpoint = checkpoint_name(path_);
    if (!file_exists(path_) || !file_exists(checkpoint)) return std::nullopt;
    try {
      const ContainerReader state(checkpoint, "checkpoint");
      const std::string early = std::string("state/") + kEndedEarly;
      return FinalState{state.integer("state/epoch"), state.has(early) ? state.integer(early) : 0};
    } catch (const Error&) {
      return std::nullopt;  // after_epoch() says what is wrong with it
    }
  }

  std::optional<ResumePoint> mid_epoch(std::int64_t epoch) {
    const std::string file = mid_epoch_name(path_, epoch);
    if (!file_exists(file)) return std::nullopt;
    try {
      const ContainerReader reader(file, "checkpoint");
    } catch (const Error& e) {
      pass_over(e.what());
      return std::nullopt;
    }
    return ResumePoint{false, epoch, true, file, file};
  }

  std::optional<ResumePoint> after_epoch(std::int64_t epoch, const std::string& model) {
    const std::string checkpoint = checkpoint_name(model);
    if (!file_exists(model)) return std::nullopt;
    try {
      if (cntk::is_model(model)) cntk::read_model(model);  // as damage is found when a container is opened
      const std::uint64_t checksum = cntk::is_model(model) ? 0 : ContainerReader(model, "model").checksum();
      ResumePoint point{epoch == max_epochs_, epoch, false, model, {}};
      if (point.finished && model == path_) point.epoch = final_.epochs, point.ended_early = final_.ended_early;
      if (epoch > 0 && cntk::is_checkpoint(checkpoint)) {  // it does not name its model
        cntk::read_checkpoint(checkpoint);
        point.checkpoint = checkpoint;
        return point;
      }
      if (epoch > 0 && file_exists(checkpoint)) {
        const ContainerReader reader(checkpoint, "checkpoint");
        if (std::bit_cast<std::uint64_t>(reader.integer("model checksum")) != checksum)
          throw Error(fmt::format("'{}' belongs to another model than '{}'", checkpoint, model));
        point.checkpoint = checkpoint;
        return point;
      }
      // No state belongs to this model; as in CNTK, it must not be older than its predecessors.
      if (older_than_predecessors(epoch, model)) return std::nullopt;
      if (epoch > 0 && epoch < max_epochs_)
        warnings_.push_back("Checkpoint file is missing. Parameter-learning state (such as momentum) will be reset. (" +
                            checkpoint + ")");
      return point;
    } catch (const Error& e) {
      pass_over(e.what());
      return std::nullopt;
    }
  }

  bool older_than_predecessors(std::int64_t epoch, const std::string& model) const {
    const auto mine = time_of(model);
    for (auto at = epochs_.begin(); at != epochs_.end() && *at < epoch; ++at)
      if (const auto other = time_of(numbered_model_name(path_, *at)); other && mine && *mine < *other) return true;
    return false;
  }

  void pass_over(const std::string& what) { warnings_.push_back(what + "; " + instead_); }

  const std::string& path_;
  const std::int64_t max_epochs_;
  std::vector<std::string>& warnings_;
  std::set<std::int64_t> epochs_;
  FinalState final_;              // of the model without a number
  std::int64_t final_place_ = 0;  // the epoch that it is looked for at
  const char* instead_ = "looking for the checkpoint before it";
};

// "m.12.ckp", "m.ckp" or "m.3.mid" for the model path "m".
bool is_state_file(std::string name, const std::string& base) {
  if (!name.starts_with(base)) return false;
  name.erase(0, base.size());
  if (name == ".ckp") return true;
  const auto digits = name.find_first_not_of("0123456789", 1);
  if (!name.starts_with('.') || digits == 1 || digits == std::string::npos) return false;
  return name.substr(digits) == ".ckp" || name.substr(digits) == ".mid";
}

// What rank 0 finds.
std::optional<ResumePoint> find_on_rank_0(Communicator& comm, const std::function<std::optional<ResumePoint>()>& find) {
  ResumePoint point;
  std::array<std::int64_t, 5> fields{};
  on_rank_0(comm, [&] {
    const auto found = find();
    if (found) point = *found;
    fields = {found.has_value(), point.finished, point.epoch, point.mid_epoch, point.ended_early};
  });
  comm.broadcast(0, std::as_writable_bytes(std::span(fields)));
  broadcast_text(comm, point.model);
  broadcast_text(comm, point.checkpoint);
  if (!fields[0]) return std::nullopt;
  point.finished = fields[1] != 0, point.epoch = fields[2], point.mid_epoch = fields[3] != 0;
  point.ended_early = fields[4];
  return point;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs,
                                             std::vector<std::string>& warnings) {
  return Search(model_path, max_epochs, warnings).run();
}

std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs, Communicator& comm,
                                             std::vector<std::string>& warnings) {
  return find_on_rank_0(comm, [&] { return find_resume_point(model_path, max_epochs, warnings); });
}

std::optional<ResumePoint> find_epoch(const std::string& model_path, std::int64_t epoch, std::int64_t max_epochs,
                                      Communicator& comm, std::vector<std::string>& warnings) {
  return find_on_rank_0(comm, [&] { return Search(model_path, max_epochs, warnings).only(epoch); });
}

bool is_readable(const ResumePoint& point, Communicator& comm) {
  std::uint8_t readable = 1;
  if (comm.rank() == 0) {
    try {
      if (!cntk::is_model(point.model)) ContainerReader(point.model, point.model_kind());
      if (!point.checkpoint.empty() && !cntk::is_checkpoint(point.checkpoint))
        ContainerReader(point.checkpoint, "checkpoint");
    } catch (const std::exception&) {
      readable = 0;
    }
  }
  comm.broadcast(0, writable_bytes(readable));
  return readable != 0;
}

void log_finished(const ResumePoint& point, const std::string& model_path) {
  log::line(fmt::format("Final model exists: {}", model_path));
  if (point.ended_early > 0)
    log::line(fmt::format("Its training ended early, after {} of {} epochs.", point.epoch, point.ended_early));
  log::line("No further training is necessary.");
  if (cntk::is_model(model_path) && last_model_epoch(model_path) < 0)
    log::line(
        fmt::format("To continue training: CNTK's files do not say how many epochs were trained. Rename '{0}' to "
                    "{0}.<epochs> (and '{0}.ckp' to {0}.<epochs>.ckp), and raise maxEpochs above that number.",
                    model_path));
  else if (point.checkpoint.empty())
    log::line(
        fmt::format("To continue training: '{}' is missing, so the number of trained epochs is unknown. Remove '{}' to "
                    "continue from the newest numbered model, or set makeMode = false to start from scratch.",
                    checkpoint_name(model_path), model_path));
  else
    log::line(fmt::format(
        "To continue training from this model, raise maxEpochs above {}. makeMode = false starts from scratch.",
        std::max(point.epoch, point.ended_early)));
}

bool earlier_run_left_files(const std::string& model_path) {
  return file_exists(model_path) || !epochs_with_files(model_path).empty();
}

void refuse_later_epochs(const std::string& model_path, std::int64_t max_epochs, Communicator& comm) {
  std::int64_t last = 0;  // epochs; 0 = such a run has left no files
  on_rank_0(comm, [&] {
    const std::int64_t found = last_model_epoch(model_path);
    if (found > max_epochs && file_exists(checkpoint_name(numbered_model_name(model_path, found)))) last = found;
  });
  comm.broadcast(0, writable_bytes(last));
  if (last == 0) return;
  throw CodedError(kWrongConfiguration,
                   fmt::format("'{}' has {} epochs, and maxEpochs is {}\nfix: raise maxEpochs to go on from it; or "
                               "makeMode = false to start from scratch; or another modelPath",
                               numbered_model_name(model_path, last), last, max_epochs));
}

ResumePoint copy_model(const ResumePoint& point, const std::string& model, Communicator& comm) {
  ResumePoint copy = point;
  copy.model = model;
  if (!point.checkpoint.empty()) copy.checkpoint = checkpoint_name(model);
  on_rank_0(comm, [&] {
    // As when an epoch is saved: the state first. The old files stay.
    if (!point.checkpoint.empty()) copy_durably(point.checkpoint, copy.checkpoint);
    copy_durably(point.model, model);
  });
  return copy;
}

void date_back_leftovers(const std::string& model_path, std::int64_t max_epochs) {
  const std::string first = model_name(model_path, 0, max_epochs);
  const auto begun = time_of(first);
  if (!begun || first == model_path) return;
  std::vector<std::string> models{model_path};
  each_numbered_file(model_path, [&](std::int64_t epoch, std::string_view end) {
    if (end.empty() && epoch > 0) models.push_back(numbered_model_name(model_path, epoch));
  });
  for (const std::string& model : models) {
    const auto time = time_of(model);
    if (!time || *time < *begun) continue;
    std::string why = outside_write_root(model);  // of a link
    std::error_code error;
    if (why.empty()) fs::last_write_time(model, *begun - std::chrono::seconds(2), error);  // some count in steps of 2 s
    if (error) why = error.message();
    if (!why.empty())
      log::warning(
          fmt::format("'{}' of an earlier run is newer than '{}', and its time cannot be set ({}): a restart may "
                      "take it for a model of this run. fix: remove it",
                      model, first, why));
  }
}

void discard_checkpoints(const std::string& model_path) {
  std::error_code error;
  const std::string base = fs::path(model_path).filename().string();
  std::vector<fs::path> found;
  for (const auto& file : fs::directory_iterator(directory_of(model_path), error))
    if (is_state_file(file.path().filename().string(), base)) found.push_back(file.path());
  for (const fs::path& file : found) {
    fs::remove(file, error);
    if (error) throw Error(fmt::format("removing the earlier run's '{}': {}", file.string(), error.message()));
  }
}

}  // namespace tutti
