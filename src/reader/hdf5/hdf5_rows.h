// SPDX-License-Identifier: Apache-2.0
// hdf5_rows.h -- rows of the files of an HDF5 data set as float32: kept in memory if all of them fit, otherwise read on
// demand, neighbours together.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reader/buffer.h"
#include "reader/fault_budget.h"

namespace tutti::reader {

// Rows of datasets in one HDF5 file.
struct Hdf5Shape {
  std::vector<std::uint64_t> axes;  // the first one counts the rows
  std::uint64_t rows() const { return axes.front(); }
  std::uint64_t row_size(std::size_t from_axis = 1) const;  // numbers of that axis and those behind it
};

class Hdf5File {
 public:
  explicit Hdf5File(std::string path);  // throws Error
  ~Hdf5File();
  const std::string& path() const { return path_; }

  // Throws Error if there is no such numeric dataset; the message lists the datasets.
  Hdf5Shape shape(const std::string& dataset);
  // Rows [first, first + rows), all axes of a row in the order of the file, converted from any numeric type.
  void read(const std::string& dataset, std::uint64_t first, std::uint64_t rows, float* out);
  void read(const std::string& dataset, std::uint64_t first, std::uint64_t rows, double* out);

 private:
  struct Open;
  struct Dataset;
  Dataset& dataset(const std::string& name);
  void read_as(std::int64_t type, const std::string& dataset, std::uint64_t first, std::uint64_t rows, void* out);

  std::string path_;
  std::unique_ptr<Open> open_;
};

class Hdf5Rows {
 public:
  struct Place {
    std::uint32_t file = 0, row = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Column {  // of a table: one dataset in all files
    std::string dataset;
    float scale = 1;
  };
  explicit Hdf5Rows(FaultBudget& budget) : budget_(&budget) {}

  // Before any file. Returns its number.
  std::size_t add_column(Column column) { return columns_.push_back(std::move(column)), columns_.size() - 1; }
  // An open data file, with its rows and the floats per row of each column. `used_floats`: of each column and row, if
  // the others only fill it up; they may be anything.
  void add_file(std::string path, std::uint64_t rows, std::vector<std::uint64_t> row_floats,
                std::vector<std::vector<std::uint64_t>> used_floats);
  // A row that was counted as faulty already.
  void known_as_bad(Place place) { bad_.insert(place); }
  std::uint64_t bytes() const { return bytes_; }  // of all rows as floats
  void keep() { keep_ = true; }

  // The open file; a few stay open. Throws Error.
  Hdf5File& open(const std::string& path);

  // The floats of these rows, valid until the next call; null for rows that cannot be read or are not finite, which are
  // counted once. `places` is sorted.
  void read(std::size_t column, std::span<const Place> places, std::vector<const float*>& data);

 private:
  struct File {
    std::string path;
    std::uint64_t rows = 0;
    std::vector<std::uint64_t> row_floats;
    std::vector<std::vector<std::uint64_t>> used_floats;
    std::vector<std::vector<Buffer<float>>> slabs;  // per column, when rows are kept
  };
  void load(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows, float* out);
  void load_one_by_one(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows, float* out);
  void check(std::size_t column, Place, const float* row);
  void give_up(Place, std::string message);
  std::uint64_t slab_rows(const File&, std::size_t column) const;
  const float* kept_row(std::size_t column, Place);

  std::vector<Column> columns_;
  FaultBudget* budget_;
  std::vector<File> files_;
  std::list<Hdf5File> open_;  // the one used last in front
  std::set<Place> bad_;
  std::vector<Buffer<float>> scratch_;  // per column
  std::uint64_t bytes_ = 0;
  bool keep_ = false;
};

}  // namespace tutti::reader
