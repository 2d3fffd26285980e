// SPDX-License-Identifier: Apache-2.0
// The index is made from the shapes of all files and from what is small: labels and lengths. Features are read when a
// minibatch needs them.
#include "reader/hdf5/hdf5_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "reader/fault_budget.h"

namespace tutti::reader {
namespace {

std::string shown(const Hdf5Shape& shape) {
  return fmt::format("[{}]", fmt::join(std::span(shape.axes).subspan(1), " x "));
}

// Numbers of a sample when the user does not say: a row of a matrix, the last axis of rows of steps, a whole picture.
std::uint64_t dim_of(const Hdf5Shape& shape) { return shape.axes.size() == 3 ? shape.axes[2] : shape.row_size(); }

}  // namespace

Hdf5Source::Hdf5Source(Hdf5ReaderOptions options)
    : options_(std::move(options)),
      budget_("the HDF5 files", options_.max_errors, options_.trace_level),
      rows_(budget_) {
  for (const auto& [name, s] : options_.input) {
    column_.push_back(s.classes == 0 ? rows_.add_column({s.dataset, static_cast<float>(s.scale)}) : 0);
    infos_.push_back({name, static_cast<std::size_t>(s.classes > 0 ? s.classes : s.dim), s.classes > 0 && s.sparse});
  }
  // The first file that can be read tells the dimensions that the user left out.
  if (std::none_of(infos_.begin(), infos_.end(), [](const StreamInfo& i) { return i.dim == 0; })) return;
  for (std::size_t f = 0; f < options_.paths.size(); ++f) try {
      Hdf5File& file = rows_.open(options_.paths[f].path);
      for (std::size_t s = 0; s < infos_.size(); ++s)
        if (infos_[s].dim == 0) infos_[s].dim = dim_of(file.shape(options_.input[s].second.dataset));
      return;
    } catch (const Error& e) {
      if (static_cast<std::int64_t>(f) >= options_.max_errors || f + 1 == options_.paths.size())
        throw ConfigError(options_.paths[f].where, e.what());
    }
}

std::uint32_t Hdf5Source::steps_in(std::size_t stream, const Hdf5Shape& shape, const std::string& path) const {
  const Hdf5Stream& s = options_.input[stream].second;
  const std::uint64_t dim = infos_[stream].dim;
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("the dataset '{}' of the HDF5 file '{}' has rows of shape {}: {}", s.dataset, path,
                            shown(shape), why));
  };
  std::uint64_t steps = 1;
  if (s.classes > 0) {
    steps = shape.row_size();
    if (shape.axes.size() == 2 && steps == dim && steps > 1 && options_.lengths.empty())
      fail(fmt::format("if they are vectors of {} numbers already, write dim = {} instead of labelDim", steps, steps));
  } else if (shape.row_size() != dim) {
    if (shape.axes.size() < 2 || shape.row_size(2) != dim)
      fail(fmt::format("they are neither one sample nor a sequence of samples with dim = {} of stream '{}'", dim,
                       infos_[stream].name));
    steps = shape.axes[1];
  }
  if (steps > 0x7FFFFFFF) fail("a sequence is too long");
  return static_cast<std::uint32_t>(steps);
}

void Hdf5Source::read_lengths(File& f, Hdf5File& file, std::uint64_t rows, std::vector<char>& good) {
  const Hdf5Shape shape = file.shape(options_.lengths);
  if (shape.rows() != rows || shape.row_size() != 1)
    throw Error(fmt::format("the dataset '{}' of the HDF5 file '{}' should have one length for each of the {} rows",
                            options_.lengths, f.path, rows));
  std::vector<double> values(rows);
  file.read(options_.lengths, 0, rows, values.data());
  f.lengths.assign(rows, 1);
  for (std::uint64_t r = 0; r < rows; ++r) {
    if (values[r] >= 1 && values[r] <= f.longest && values[r] == std::floor(values[r])) {
      f.lengths[r] = static_cast<std::uint32_t>(values[r]);
      continue;
    }
    good[r] = 0;
    budget_.fault(fmt::format("the length of row {} in the dataset '{}' of the HDF5 file '{}' is {}, not from 1 to {}",
                              r, options_.lengths, f.path, values[r], f.longest),
                  "a length counts the steps of the row that are data");
  }
}

void Hdf5Source::read_labels(File& f, Hdf5File& file, std::size_t stream, std::uint64_t rows, std::vector<char>& good) {
  const auto& [name, s] = options_.input[stream];
  const std::uint64_t steps = f.steps[stream];
  std::vector<double> values(rows * steps);
  file.read(s.dataset, 0, rows, values.data());
  std::vector<std::int32_t>& labels = f.labels[stream];
  labels.assign(rows * steps, 0);
  for (std::uint64_t r = 0; r < rows; ++r)
    for (std::uint64_t t = 0; t < f.steps_of(stream, static_cast<std::uint32_t>(r)); ++t) {
      const double v = values[r * steps + t];
      if (v >= 0 && v < static_cast<double>(s.classes) && v == std::floor(v)) {
        labels[r * steps + t] = static_cast<std::int32_t>(v);
        continue;
      }
      good[r] = 0;
      budget_.fault(
          fmt::format("the label {} of row {}{} in the dataset '{}' of the HDF5 file '{}' is no class from 0 to {}", v,
                      r, steps > 1 ? fmt::format(", step {},", t) : "", s.dataset, f.path, s.classes - 1),
          v == std::floor(v) && v > 0 && v < 1e9 ? dim_fix("labelDim", static_cast<std::int64_t>(v), name)
                                                 : "classes are whole numbers from 0 on");
      break;
    }
}

Hdf5Source::File Hdf5Source::look_at(const std::string& path, std::uint64_t& rows, std::vector<char>& good) {
  Hdf5File& file = rows_.open(path);
  File f;
  f.path = path;
  f.changed = std::filesystem::last_write_time(path);
  f.labels.resize(options_.input.size());
  for (std::size_t s = 0; s < options_.input.size(); ++s) {
    const Hdf5Shape shape = file.shape(options_.input[s].second.dataset);
    if (s == 0) rows = shape.rows();
    if (shape.rows() != rows)
      throw Error(
          fmt::format("the HDF5 file '{}' has {} rows in the dataset '{}', but {} in '{}'; they do not belong together",
                      path, shape.rows(), options_.input[s].second.dataset, rows, options_.input[0].second.dataset));
    f.steps.push_back(steps_in(s, shape, path));
    f.longest = std::max(f.longest, f.steps.back());
  }
  if (rows >= SequenceIndex::most_sequences) throw Error(fmt::format("the HDF5 file '{}' has too many rows", path));
  good.assign(rows, 1);
  if (!options_.lengths.empty()) read_lengths(f, file, rows, good);
  for (std::size_t s = 0; s < options_.input.size(); ++s)
    if (options_.input[s].second.classes > 0) read_labels(f, file, s, rows, good);
  return f;
}

void Hdf5Source::add_sequences(File& f, std::uint64_t rows, const std::vector<char>& good) {
  std::vector<std::uint64_t> row_floats;
  std::vector<std::vector<std::uint64_t>> used_floats;
  std::uint64_t row_bytes = 0;
  for (std::size_t s = 0; s < options_.input.size(); ++s)
    if (options_.input[s].second.classes == 0) {
      row_floats.push_back(f.steps[s] * infos_[s].dim);
      row_bytes += row_floats.back() * sizeof(float);
      if (f.lengths.empty()) continue;
      used_floats.emplace_back();
      for (std::uint32_t r = 0; r < rows; ++r) used_floats.back().push_back(f.steps_of(s, r) * infos_[s].dim);
    }
  const auto bad = static_cast<std::size_t>(std::ranges::count(good, 0));
  dropped_ += bad;
  const std::uint64_t per_chunk = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(options_.chunk_bytes) / std::max<std::uint64_t>(1, row_bytes));
  std::uint64_t chunk_end = 0;
  f.first = index_.sequences();
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (!good[r]) {
      rows_.known_as_bad({static_cast<std::uint32_t>(files_.size()), r});
      continue;
    }
    if (index_.sequences() + 1 == SequenceIndex::most_sequences) throw Error("reading the HDF5 files: too many rows");
    if (r >= chunk_end) {
      index_.begin_chunk();
      chunk_end = r + per_chunk;
    }
    std::uint32_t samples = 0;
    for (std::size_t s = 0; s < options_.input.size(); ++s) samples = std::max(samples, f.steps_of(s, r));
    index_.add(samples);
    if (bad > 0) f.rows.push_back(r);
  }
  f.sequences = index_.sequences() - f.first;
  rows_.add_file(f.path, rows, std::move(row_floats), std::move(used_floats));
  files_.push_back(std::move(f));
}

void Hdf5Source::add_file(const Hdf5Path& path) {
  std::uint64_t rows = 0;
  std::vector<char> good;
  try {
    File f = look_at(path.path, rows, good);
    if (rows > 0) add_sequences(f, rows, good);
  } catch (const std::filesystem::filesystem_error& e) {
    budget_.fault({path.where, fmt::format("reading the HDF5 file '{}': {}", path.path, e.code().message()), {}});
  } catch (const Error& e) {
    budget_.fault({path.where, e.what(), {}});
  }
}

const SequenceIndex& Hdf5Source::index() {
  if (known_) return index_;
  for (const Hdf5Path& path : options_.paths) add_file(path);
  if (index_.sequences() == 0)
    throw ConfigError({}, "the HDF5 files have no usable row", "see docs/readers/arrays.md for the layout");
  budget_.summarize(dropped_);
  if (rows_.bytes() <= static_cast<std::uint64_t>(options_.keep_bytes)) rows_.keep();
  known_ = true;
  return index_;
}

void Hdf5Source::begin_epoch() {
  for (const File& f : files_) {
    std::error_code error;
    if (const auto now = std::filesystem::last_write_time(f.path, error); error || now != f.changed)
      throw Error(fmt::format(
          "reading the HDF5 file '{}': it was changed while in use; start the run again to read the new contents",
          f.path));
  }
}

const Hdf5Source::File& Hdf5Source::file_of(std::uint32_t sequence) const {
  return *std::upper_bound(files_.begin(), files_.end(), sequence,
                           [](std::uint32_t s, const File& f) { return s < f.first + f.sequences; });
}

std::string Hdf5Source::place(std::uint32_t sequence) {
  const File& f = file_of(sequence);
  return fmt::format("row {} of {}", f.row(sequence), f.path);
}

void Hdf5Source::read(std::span<const std::uint32_t> sequences, Share& share) {
  wanted_.clear();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const File& f = file_of(sequences[i]);
    wanted_.push_back({{static_cast<std::uint32_t>(&f - files_.data()), f.row(sequences[i])}, i});
  }
  std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) { return a.place < b.place; });
  places_.clear();
  for (const Wanted& w : wanted_) places_.push_back(w.place);
  data_.resize(infos_.size());
  for (std::size_t s = 0; s < infos_.size(); ++s) {
    if (options_.input[s].second.classes > 0) continue;
    rows_.read(column_[s], places_, sorted_);
    data_[s].resize(sequences.size());
    for (std::size_t i = 0; i < wanted_.size(); ++i) data_[s][wanted_[i].order] = sorted_[i];
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const bool damaged = std::any_of(data_.begin(), data_.end(), [&](const auto& d) { return !d.empty() && !d[i]; });
    if (damaged) {
      share.left_out().push_back(sequences[i]);
      continue;
    }
    const File& f = file_of(sequences[i]);
    const std::uint32_t row = f.row(sequences[i]);
    for (std::size_t s = 0; s < infos_.size(); ++s) {
      const std::uint32_t steps = f.steps_of(s, row);
      if (options_.input[s].second.classes > 0) {
        const std::int32_t* labels = f.labels[s].data() + std::size_t{row} * f.steps[s];
        for (std::uint32_t t = 0; t < steps; ++t) share[s].add_one_hot(static_cast<std::size_t>(labels[t]));
      } else {
        share[s].dense.append(data_[s][i], steps * infos_[s].dim);
        share[s].columns += steps;
      }
    }
    share.end_sequence(index_.samples_of(sequences[i]));
  }
}

}  // namespace tutti::reader
