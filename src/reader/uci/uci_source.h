// SPDX-License-Identifier: Apache-2.0
// uci_source.h -- tables of columns in a text file, one sample per line: the data sets of the UCI archive, CSV files.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "reader/buffer.h"
#include "reader/fault_budget.h"
#include "reader/mapped_file.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct UciStream {
  std::string name;
  std::size_t start = 0;     // its first column, from 0
  std::size_t columns = 1;   // how many
  std::int64_t classes = 0;  // the column names a class, which becomes one-hot
  bool sparse = false;       // of class streams
  std::string mapping = {};  // file with one label per line, whose number is the class; "" = labels are class numbers
};

struct UciSourceOptions {
  std::string path;
  std::vector<UciStream> streams;
  char delimiter = 0;  // 0 = blanks and tabs, any number of them
  char decimal_point = '.';
  std::int64_t header_lines = 0;
  std::int64_t max_errors = 0;
  std::int64_t trace_level = 0;
  std::int64_t chunk_bytes = 33'554'432;
  std::uint64_t keep_bytes = std::uint64_t{1} << 30;
};

class UciSource final : public SequenceSource {
 public:
  explicit UciSource(UciSourceOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // reads the whole file once; lines that cannot be used are left out
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 private:
  struct Fault {
    std::string_view at;  // the text that is wrong, within the line
    std::string message, fix;
  };
  void read_mapping(const UciStream&, std::unordered_map<std::string, std::int32_t>&);
  std::string_view line_at(std::uint64_t offset) const;
  void split(std::string_view line);
  // The numbers of a line in the order of the streams, class numbers among them as floats; what is wrong, if anything.
  std::optional<Fault> parse(std::string_view line, float* out);
  std::optional<Fault> parse_class(const UciStream&, std::size_t stream, std::string_view field, float& out) const;
  bool number(std::string_view field, float& out);

  UciSourceOptions options_;
  std::vector<StreamInfo> infos_;
  MappedFile file_;
  FaultBudget budget_;
  std::vector<std::unordered_map<std::string, std::int32_t>> maps_;  // per stream
  std::size_t row_floats_ = 0, least_columns_ = 0;
  SequenceIndex index_;
  std::vector<std::uint64_t> offsets_;  // of the lines in use
  Buffer<float> kept_;                  // all rows, unless they are too many
  bool keep_ = true;
  std::vector<std::string_view> fields_;
  std::vector<float> row_;
  std::string scratch_;
};

}  // namespace tutti::reader
