// SPDX-License-Identifier: Apache-2.0
// hdf5_source.h -- samples or sequences from HDF5 files with one row per sample and one dataset per stream, as used for
// events of particle physics and other measurements, often in hundreds of files.
#pragma once

#include <filesystem>

#include "reader/fault_budget.h"
#include "reader/hdf5/hdf5_rows.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct Hdf5Stream {
  std::string dataset = {};
  std::int64_t dim = 0;      // of a column; 0 = by the shape of the dataset
  std::int64_t classes = 0;  // the dataset holds class numbers, which become one-hot vectors
  bool sparse = false;       // of class streams
  double scale = 1;
  void describe(config::Fields& f);
};

struct Hdf5Path {
  std::string path;
  SourcePos where;  // in the config or the list of files
};

// The block of readerType = "HDF5Reader".
struct Hdf5ReaderOptions : DataLimits {
  std::string file, list;
  std::vector<std::string> files;
  std::vector<Hdf5Path> paths;  // of all three
  std::vector<std::pair<std::string, Hdf5Stream>> input;
  OrderOptions order;
  TruncationOptions truncation;
  std::string lengths;  // dataset with the steps of each row that count; "" = all
  void describe(config::Fields& f);
};

class Hdf5Source final : public SequenceSource {
 public:
  explicit Hdf5Source(Hdf5ReaderOptions);  // looks at the shapes of the first file
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // looks at all files, and reads labels and lengths
  void begin_epoch() override;
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 private:
  struct File {
    std::string path;
    std::filesystem::file_time_type changed;
    std::uint32_t first = 0, sequences = 0;         // of the data set
    std::vector<std::uint32_t> rows;                // of the sequences; empty when it is all of them
    std::vector<std::uint32_t> lengths;             // per row; empty when all have `longest` steps
    std::vector<std::uint32_t> steps;               // per stream
    std::vector<std::vector<std::int32_t>> labels;  // per stream of classes: rows x steps
    std::uint32_t longest = 0;
    std::uint32_t row(std::uint32_t sequence) const { return rows.empty() ? sequence - first : rows[sequence - first]; }
    std::uint32_t steps_of(std::size_t stream, std::uint32_t row) const {
      return lengths.empty() || steps[stream] < longest ? steps[stream] : lengths[row];
    }
  };
  void add_file(const Hdf5Path&);
  File look_at(const std::string& path, std::uint64_t& rows, std::vector<char>& good);
  void read_labels(File&, Hdf5File&, std::size_t stream, std::uint64_t rows, std::vector<char>& good);
  void read_lengths(File&, Hdf5File&, std::uint64_t rows, std::vector<char>& good);
  void add_sequences(File&, std::uint64_t rows, const std::vector<char>& good);
  std::uint32_t steps_in(std::size_t stream, const Hdf5Shape&, const std::string& path) const;
  const File& file_of(std::uint32_t sequence) const;

  Hdf5ReaderOptions options_;
  std::vector<StreamInfo> infos_;
  FaultBudget budget_;
  Hdf5Rows rows_;
  std::vector<std::size_t> column_;  // of rows_, per stream that is not of classes
  std::vector<File> files_;
  SequenceIndex index_;
  std::size_t dropped_ = 0;
  bool known_ = false;

  struct Wanted {
    Hdf5Rows::Place place;
    std::size_t order = 0;  // among the sequences asked for
  };
  std::vector<Wanted> wanted_;
  std::vector<Hdf5Rows::Place> places_;
  std::vector<const float*> sorted_;
  std::vector<std::vector<const float*>> data_;  // per stream and sequence asked for
};

}  // namespace tutti::reader
