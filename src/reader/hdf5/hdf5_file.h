// SPDX-License-Identifier: Apache-2.0
// hdf5_file.h -- rows of datasets in one HDF5 file. The only file that uses libhdf5.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::reader {

struct Hdf5Shape {
  std::vector<std::uint64_t> axes;  // the first one counts the rows
  bool integer = false;
  std::uint64_t rows() const { return axes.front(); }
  std::uint64_t row_size() const;
};

class Hdf5File {
 public:
  explicit Hdf5File(std::string path);  // throws Error
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
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

}  // namespace tutti::reader
