// SPDX-License-Identifier: Apache-2.0
// hdf5_rows.h -- rows of the files of an HDF5 data set as float32: kept in memory if all of them fit, otherwise read on
// demand, neighbours together.
#pragma once

#include <list>
#include <set>
#include <span>
#include <vector>

#include "reader/buffer.h"
#include "reader/fault_budget.h"
#include "reader/hdf5/hdf5_file.h"

namespace tutti::reader {

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
  Hdf5Rows(std::vector<Column> columns, FaultBudget& budget) : columns_(std::move(columns)), budget_(&budget) {}

  // An open data file, with its rows and the floats per row of each column.
  void add_file(std::string path, std::uint64_t rows, std::vector<std::uint64_t> row_floats);
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
    std::vector<std::vector<Buffer<float>>> slabs;  // per column, when rows are kept
  };
  void load(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows, float* out);
  void load_one_by_one(std::size_t column, std::uint32_t file, std::uint64_t first, std::uint64_t rows, float* out);
  bool check(std::size_t column, Place, const float* row);
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
