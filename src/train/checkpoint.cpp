// SPDX-License-Identifier: Apache-2.0
// Saves and loads checkpoints. The order of the steps in save_epoch() makes a kill at any moment harmless.
#include "train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>

#include <bit>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "comm/agreement.h"
#include "parallel/local_gradients.h"
#include "train/cntk_checkpoint.h"
#include "train/container.h"
#include "train/file.h"
#include "tutti/error.h"

namespace tutti {

namespace {

void archive_metrics(Archive& a, const std::string& name, StepMetrics& t) {
  a(name + "/samples", t.samples);
  a(name + "/columns", t.columns);
  a(name + "/criterion", t.criterion);
  a(name + "/criterion count", t.criterion_count);
  auto count = static_cast<std::int64_t>(t.evaluations.size());
  a(name + "/evaluations", count);
  t.evaluations.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < t.evaluations.size(); ++i) {
    a(fmt::format("{}/evaluation {} sum", name, i), t.evaluations[i].sum);
    a(fmt::format("{}/evaluation {} count", name, i), t.evaluations[i].count);
  }
}

// Everything but the model. `writer` is null on ranks other than 0. Collective.
void write_state(ContainerWriter* writer, CheckpointState& state, const CheckpointParts& parts, Communicator& comm) {
  if (writer) {
    SavingArchive s(*writer, "state/");
    state.archive(s);
  }
  std::optional<SavingArchive> optimizer;
  if (writer) optimizer.emplace(*writer, "optimizer/");
  parts.optimizer(optimizer ? &*optimizer : nullptr);
  if (writer) {
    if (parts.common_state) {
      SavingArchive c(*writer, "exchange/");
      parts.common_state(c);
    }
    writer->add("ranks", static_cast<std::int64_t>(comm.size()));
    writer->add("rank state of", std::string_view(parts.rank_state ? parts.rank_state_name : ""));
  }
  if (parts.rank_state) gather_state(comm, writer, parts.rank_state);
}

void remove(const std::string& path) {
  std::error_code ignored;  // a leftover costs space only
  std::filesystem::remove(path, ignored);
}

void remove_outdated(const CheckpointFiles& f, std::int64_t epoch) {
  if (epoch > 0) remove(mid_epoch_name(f.model_path, epoch - 1));
  if (epoch > 1) remove(mid_epoch_name(f.model_path, epoch - 2));
  const auto remove_older = [&](std::int64_t keep, const auto& name_of) {
    for (std::int64_t e = epoch - keep; e >= 0 && e > epoch - keep - 3; --e) remove(name_of(e));
  };
  const auto model = [&](std::int64_t e) { return model_name(f.model_path, e, f.max_epochs); };
  // The previous states stay: a restart falls back on them if this one turns out to be damaged.
  const auto state = [&](std::int64_t e) { return checkpoint_name(model(e)); };
  if (!f.keep_all) remove_older(f.keep, state);
  if (f.keep_models > 0) remove_older(f.keep_models, model), remove_older(f.keep_models, state);
}

void write(BackgroundWriter* writer, BackgroundWriter::Job job) {
  if (writer) return writer->submit(std::move(job));
  if (job.first) job.first();
  job.write();
}

using Snapshot = std::shared_ptr<ContainerWriter>;

// Copies the model and, with its state, whatever `file` is to hold.
Snapshot snapshot(const std::string& path, std::string_view kind) {
  return std::make_shared<ContainerWriter>(path, kind, ContainerWriter::Storage::memory);
}

std::function<void()> writing_best(const std::string& model_path, const CheckpointParts& parts) {
  const Snapshot best = snapshot(best_model_name(model_path), "model");
  write_model(*best, parts.model, parts.network_of_files);
  return [best] { best->finish(), best->commit(); };
}

std::string epoch_name(const CheckpointFiles& f, const CheckpointState& state) {
  return state.ended_early > 0 ? f.model_path : model_name(f.model_path, state.epoch, f.max_epochs);
}

// Once the model is finished. The state comes first: a model without a state would be taken for one whose state was
// deleted on purpose, while a state without its model is ignored.
void complete_epoch(const CheckpointFiles& f, std::int64_t epoch, ContainerWriter& model, ContainerWriter& state) {
  state.finish();
  state.commit();
  model.commit();
  remove_outdated(f, epoch);
}

void save_epoch(const CheckpointFiles& f, CheckpointState& state, const CheckpointParts& parts, Communicator& comm,
                BackgroundWriter* writer) {
  if (comm.rank() != 0) return write_state(nullptr, state, parts, comm);
  const std::string name = epoch_name(f, state);
  const Snapshot model = snapshot(name, "model"), checkpoint = snapshot(checkpoint_name(name), "checkpoint");
  write_model(*model, parts.model, parts.network_of_files);
  write_state(checkpoint.get(), state, parts, comm);
  checkpoint->add("model checksum", std::int64_t{0});  // known when the model is written
  // First: a run that is killed before the state is saved trains this epoch again, and saves the same.
  const auto best = f.best ? writing_best(f.model_path, parts) : nullptr;
  write(writer, {name, best, [f, model, checkpoint, epoch = state.epoch] {
                   checkpoint->set("model checksum", std::bit_cast<std::int64_t>(model->finish()));
                   complete_epoch(f, epoch, *model, *checkpoint);
                 }});
}

void save_mid_epoch(const CheckpointFiles& f, CheckpointState& state, const CheckpointParts& parts, Communicator& comm,
                    BackgroundWriter* writer) {
  if (comm.rank() != 0) return write_state(nullptr, state, parts, comm);
  // One file, because two could not be replaced atomically.
  const std::string name = mid_epoch_name(f.model_path, state.epoch);
  const Snapshot file = snapshot(name, "checkpoint");
  write_model(*file, parts.model, parts.network_of_files);
  write_state(file.get(), state, parts, comm);
  write(writer, {name, nullptr, [file] {
                   file->finish();
                   file->commit();
                 }});
}

std::unique_ptr<ContainerReader> open_on_rank_0(const std::string& path, Communicator& comm) {
  std::unique_ptr<ContainerReader> reader;
  on_rank_0(comm, [&] { reader = std::make_unique<ContainerReader>(path, "checkpoint"); });
  return reader;
}

// Removes a file at the end of the block, also if it could not be written.
struct TemporaryFile {
  const std::string& path;
  ~TemporaryFile() { remove(path); }
};

// The name of the method without how layers are divided (divided_layers() of src/actions/placed_training.cpp).
std::string undivided(std::string name) {
  constexpr std::string_view divided = ", layers divided among ";
  const std::size_t at = name.find(divided);
  if (at == name.npos) return name;
  return name.erase(at, std::min(name.find(", ", at + divided.size()), name.size()) - at);
}

}  // namespace

void remove_older_models(const CheckpointFiles& f, std::int64_t epoch) {
  if (f.keep_models == 0) return;
  std::vector<std::string> older;
  each_numbered_file(f.model_path, [&](std::int64_t e, std::string_view end) {
    const std::string model = numbered_model_name(f.model_path, e);
    if (e > epoch - f.keep_models) return;
    if (end.empty()) older.push_back(model);
    if (end == checkpoint_name("")) older.push_back(checkpoint_name(model));
  });
  for (const std::string& name : older) remove(name);
}

void discard_epochs(const std::string& model_path, std::int64_t epoch, std::int64_t last, std::int64_t max_epochs) {
  for (std::int64_t e = epoch; e <= last; ++e) {
    remove(mid_epoch_name(model_path, e));
    if (e == epoch) continue;
    remove(model_name(model_path, e, max_epochs));
    remove(checkpoint_name(model_name(model_path, e, max_epochs)));
  }
}

void CheckpointState::archive(Archive& a) {
  a("epoch", epoch);
  a("samples in epoch", samples_in_epoch);
  a("minibatches in epoch", minibatches_in_epoch);
  a("total samples seen", total_samples_seen);
  if (a.loading() ? a.has("samples before") : samples_before != 0) a("samples before", samples_before);
  a("minibatch size", minibatch_size);
  a("learning rate", learning_rate);
  double previous = adjust.previous_criterion;
  a("previous criterion", previous);
  archive_metrics(a, "epoch tally", epoch_metrics);
  archive_metrics(a, "interval tally", interval_metrics);
  if (a.has("adjust/learning rate")) adjust.archive(a);
  if (a.loading() ? a.has("rate factor") : rate_factor != 1) a("rate factor", rate_factor);
  if (a.has("dropped samples")) a("dropped samples", dropped_samples);
  constexpr const char* whole = "samples per epoch";
  if (a.loading() ? a.has(whole) : samples_per_epoch > 0) a(whole, samples_per_epoch);
  best.archive(a);
  choice.archive(a);
  archive_kernels(a, kernels);
  if (a.loading() ? a.has(kEndedEarly) : ended_early != 0) a(kEndedEarly, ended_early);
}

void save_checkpoint(const CheckpointFiles& f, CheckpointState state, const CheckpointParts& parts, Communicator& comm,
                     BackgroundWriter* writer) {
  if (state.samples_in_epoch > 0) return save_mid_epoch(f, state, parts, comm, writer);
  if (state.epoch > 0 || state.ended_early > 0) return save_epoch(f, state, parts, comm, writer);
  if (comm.rank() == 0) save_model(model_name(f.model_path, 0, f.max_epochs), parts.model, parts.network_of_files);
}

bool save_last_checkpoint(const CheckpointFiles& f, CheckpointState state, const CheckpointParts& parts,
                          Communicator& comm, BackgroundWriter& writer, std::uint64_t bytes) {
  const bool within_epoch = state.samples_in_epoch > 0;
  const std::string name = within_epoch ? mid_epoch_name(f.model_path, state.epoch) : epoch_name(f, state);
  Snapshot best, model, file;
  const auto open = [&](const std::string& path, std::string_view kind, bool with_model) {
    auto opened = std::make_shared<ContainerWriter>(path, kind);
    if (with_model) write_model(*opened, parts.model, parts.network_of_files);
    return opened;
  };
  std::exception_ptr problem;
  if (comm.rank() == 0) try {
      require_space(name, bytes);
      if (f.best && !within_epoch) best = open(best_model_name(f.model_path), "model", true);
      if (!within_epoch) model = open(name, "model", true);
      file = open(within_epoch ? name : checkpoint_name(name), "checkpoint", within_epoch);
    } catch (const Error&) {
      problem = std::current_exception();
    }
  if (all_agree(comm, !problem)) write_state(file.get(), state, parts, comm);
  if (comm.rank() == 0) {
    writer.submit({name, nullptr, [=, epoch = state.epoch] {
                     if (problem) std::rethrow_exception(problem);
                     if (best) best->finish(), best->commit();
                     if (!model) return file->finish(), file->commit();
                     file->add("model checksum", std::bit_cast<std::int64_t>(model->finish()));
                     complete_epoch(f, epoch, *model, *file);
                   }});
    writer.wait();
  }
  return all_agree(comm, writer.failures_in_a_row() == 0);
}

void save_best_model(const std::string& model_path, const CheckpointParts& parts, BackgroundWriter& writer) {
  writer.submit({best_model_name(model_path), writing_best(model_path, parts), [] {}});
}

void load_model(const ResumePoint& point, ModelView& m, Communicator& comm) {
  load_values(point.model, m, &comm, point.model_kind(), true);
}

void peek_state(const std::string& model_path, std::int64_t max_epochs, Communicator& comm, const Visit& visit) {
  std::vector<std::string> said_when_it_resumes;
  const auto point = find_resume_point(model_path, max_epochs, comm, said_when_it_resumes);
  if (!point || point->checkpoint.empty() || has_cntk_state(*point, comm)) return;
  on_rank_0(comm, [&] {
    const ContainerReader reader(point->checkpoint, "checkpoint");
    LoadingArchive a(reader, "state/");
    visit(a);
  });
}

CheckpointState load_state(const ResumePoint& point, const Visit& optimizer, Communicator& comm) {
  CheckpointState state;
  state.epoch = point.epoch;
  if (point.checkpoint.empty()) return state;
  if (has_cntk_state(point, comm)) return load_cntk_state(point, optimizer, comm);
  const auto reader = open_on_rank_0(point.checkpoint, comm);
  broadcast_state(comm, reader.get(), "state/", [&](Archive& a) { state.archive(a); });
  broadcast_state(comm, reader.get(), "optimizer/", optimizer);
  return state;
}

RankStateReport load_exchange_state(const ResumePoint& point, const CheckpointParts& parts, Communicator& comm) {
  RankStateReport report;
  if (point.checkpoint.empty()) {
    if (point.epoch > 0) report.lost = "there is no checkpoint next to the model";
    return report;
  }
  if (has_cntk_state(point, comm)) {
    if (parts.rank_state_name != NoExchange::name) report.lost = "the checkpoint was written by CNTK";
    return report;
  }
  const auto reader = open_on_rank_0(point.checkpoint, comm);
  bool fits = false, redivided = false;
  on_rank_0(comm, [&] {
    const std::string stored = reader->text("rank state of");
    report.ranks = reader->integer("ranks");
    fits = !stored.empty() && stored == parts.rank_state_name;
    redivided = !stored.empty() && undivided(stored) == undivided(parts.rank_state_name);
    if (stored.empty())
      report.lost = "the checkpoint holds none";
    else if (!fits && (!redivided || holds_exchange_values(*reader)))
      report.lost = fmt::format("the checkpoint was written by {}", stored);
    else if (fits)
      report.gone =
          fmt::format("{}", fmt::join(gone_with_ranks(*reader, static_cast<int>(report.ranks), comm.size()), ", "));
  });
  broadcast_text(comm, report.lost);
  broadcast_text(comm, report.gone);
  comm.broadcast(0, writable_bytes(report.ranks));
  comm.broadcast(0, writable_bytes(fits));
  comm.broadcast(0, writable_bytes(redivided));
  if (redivided && !fits && parts.undivided_state) {
    std::optional<LoadingArchive> common;  // without finish(): the rest of the common state stays unread
    if (comm.rank() == 0) common.emplace(*reader, "exchange/");
    broadcast_state(comm, common ? &*common : nullptr, parts.undivided_state);
  }
  if (!fits) return report;
  if (parts.common_state) broadcast_state(comm, reader.get(), "exchange/", parts.common_state);
  spread_state(comm, reader.get(), static_cast<int>(report.ranks), parts.rank_state);
  return report;
}

void check_writable(const std::string& model_path, std::size_t model_bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(model_path, ignored))
    throw Error(fmt::format("modelPath '{}' is a directory; it must name a file", model_path));
  // In the nearest directory that exists: ranks and runs that start at once may all check, and none removes a directory
  // in which another one writes.
  namespace fs = std::filesystem;
  fs::path folder = fs::absolute(directory_of(model_path), ignored);
  std::size_t longest_name = 0;  // of a directory to come
  for (; !fs::exists(fs::symlink_status(folder, ignored)) && folder.has_relative_path(); folder = folder.parent_path())
    longest_name = std::max(longest_name, folder.filename().native().size());
  struct statvfs space {};
  const bool known = ::statvfs(folder.c_str(), &space) == 0;
  if (known && longest_name > space.f_namemax)
    throw Error(fmt::format("modelPath '{}' has a directory whose name is longer than {} characters", model_path,
                            space.f_namemax));
  const std::string probe = folder / (fs::path(model_path).filename().native() + ".probe.tmp");
  const TemporaryFile leftover{probe};
  File file = File::create(probe);
  const std::byte byte{};
  file.write({&byte, 1});
  file.close();
  if (!known) return;
  // A model and its state, each about the size of the weights.
  const std::uint64_t available = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize, wanted = 2 * model_bytes;
  if (available < wanted)
    throw Error(fmt::format("'{}' has {} MB free; a model and its checkpoint need about {} MB", folder.string(),
                            available >> 20, (wanted >> 20) + 1));
}

}  // namespace tutti
