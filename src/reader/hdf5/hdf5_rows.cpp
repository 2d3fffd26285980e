// SPDX-License-Identifier: Apache-2.0
// Neighbouring rows are read together; if that fails, row by row, to find the damaged ones.
#include "reader/hdf5/hdf5_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::reader {
namespace {

constexpr std::size_t most_open = 16;
constexpr std::uint64_t slab_bytes = 1 << 20;

}  // namespace

void Hdf5Rows::add_file(std::string path, std::uint64_t rows, std::vector<std::uint64_t> row_floats,
                        std::vector<std::vector<std::uint64_t>> used_floats) {
  for (const std::uint64_t n : row_floats) bytes_ += rows * n * sizeof(float);
  File f{std::move(path), rows, std::move(row_floats), std::move(used_floats), {}};
  f.slabs.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) f.slabs[c].resize(rows / slab_rows(f, c) + 1);
  files_.push_back(std::move(f));
  scratch_.resize(columns_.size());
}

std::uint64_t Hdf5Rows::slab_rows(const File& f, std::size_t column) const {
  return std::max<std::uint64_t>(1, slab_bytes / (f.row_floats[column] * sizeof(float)));
}

Hdf5File& Hdf5Rows::open(const std::string& path) {
  const auto known = std::find_if(open_.begin(), open_.end(), [&](const Hdf5File& f) { return f.path() == path; });
  if (known != open_.end()) {
    open_.splice(open_.begin(), open_, known);
  } else {
    open_.emplace_front(path);
    if (open_.size() > most_open) open_.pop_back();
  }
  return open_.front();
}

void Hdf5Rows::give_up(Place place, std::string message) {
  if (bad_.insert(place).second)
    budget_->fault_here({{}, std::move(message), "correct the file, or remove the row from it"});
}

void Hdf5Rows::check(std::size_t column, Place place, const float* row) {
  const File& f = files_[place.file];
  const std::uint64_t n = f.used_floats.empty() ? f.row_floats[column] : f.used_floats[column][place.row];
  float sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) sum += row[i] * 0.0f;  // 0, unless there is an infinity or NaN
  if (sum == 0) return;
  give_up(
      place,
      fmt::format("row {} of the dataset '{}' of the HDF5 file '{}' holds a value that is not a finite float32 number",
                  place.row, columns_[column].dataset, f.path));
}

void Hdf5Rows::load(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows, float* out) {
  const File& f = files_[file];
  const std::uint64_t n = f.row_floats[column];
  try {
    open(f.path).read(columns_[column].dataset, first, rows, out);
  } catch (const Error&) {
    load_one_by_one(column, file, first, rows, out);
  }
  if (columns_[column].scale != 1.0f)
    for (std::uint64_t i = 0; i < rows * n; ++i) out[i] *= columns_[column].scale;
  for (std::uint64_t r = 0; r < rows; ++r) check(column, {file, static_cast<std::uint32_t>(first + r)}, out + r * n);
}

void Hdf5Rows::load_one_by_one(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows,
                               float* out) {
  const File& f = files_[file];
  const std::uint64_t n = f.row_floats[column];
  for (std::uint64_t r = 0; r < rows; ++r) try {
      open(f.path).read(columns_[column].dataset, first + r, 1, out + r * n);
    } catch (const Error& e) {
      std::fill_n(out + r * n, n, 0.0f);
      give_up({file, static_cast<std::uint32_t>(first + r)}, e.what());
    }
}

const float* Hdf5Rows::kept_row(std::size_t column, Place place) {
  File& f = files_[place.file];
  const std::uint64_t per_slab = slab_rows(f, column), slab = place.row / per_slab, n = f.row_floats[column];
  Buffer<float>& data = f.slabs[column][slab];
  if (data.size() == 0) {
    const std::uint64_t rows = std::min(per_slab, f.rows - slab * per_slab);
    Buffer<float> fresh;
    load(column, place.file, slab * per_slab, rows, fresh.extend(rows * n));
    data = std::move(fresh);
  }
  return data.data() + (place.row - slab * per_slab) * n;
}

void Hdf5Rows::read(std::size_t column, std::span<const Place> places, std::vector<const float*>& data) {
  data.resize(places.size());
  if (keep_) {
    for (std::size_t i = 0; i < places.size(); ++i) data[i] = kept_row(column, places[i]);
  } else {
    std::uint64_t floats = 0;
    for (const Place& p : places) floats += files_[p.file].row_floats[column];
    scratch_[column].clear();
    float* out = scratch_[column].extend(floats);
    for (std::size_t i = 0; i < places.size();) {
      const Place first = places[i];
      const std::uint64_t n = files_[first.file].row_floats[column];
      std::size_t run = 1;
      while (i + run < places.size() && places[i + run].file == first.file && places[i + run].row == first.row + run)
        ++run;
      load(column, first.file, first.row, run, out);
      for (std::size_t r = 0; r < run; ++r) data[i + r] = out + r * n;
      out += run * n;
      i += run;
    }
  }
  if (bad_.empty()) return;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (bad_.contains(places[i])) data[i] = nullptr;
}

}  // namespace tutti::reader
