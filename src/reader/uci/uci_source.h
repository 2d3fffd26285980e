// SPDX-License-Identifier: Apache-2.0
// uci_source.h -- tables of columns in a text file, one sample per line: the data sets of the UCI archive, CSV files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reader/buffer.h"
#include "reader/fault_budget.h"
#include "reader/lines.h"
#include "reader/mapped_file.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct UciStream {
  enum class Type { category, regression, none };
  std::int64_t dim = 0, start = 0;  // columns, and the first one, from 0
  std::int64_t classes = 0;
  Type type = Type::category;
  std::string mapping = {};  // file with one label per line, whose number is the class; "" = labels are class numbers
  bool sparse = false;       // of class streams
  bool labels = false;       // known by labelDim, labelType or labelMappingFile
  std::string file = {};
  void describe(config::Fields& f);
  bool is_category() const { return labels && type == Type::category; }  // a class in one column, which becomes one-hot
  std::size_t columns() const { return is_category() ? 1 : static_cast<std::size_t>(dim); }
};

// The block of readerType = "UCIFastReader".
struct UciReaderOptions : DataLimits {
  std::vector<std::pair<std::string, UciStream>> streams;
  std::string file;
  std::string delimiter;  // "" = blanks and tabs, any number of them
  std::string decimal_point = ".";
  RandomizeOptions order;
  std::int64_t header_lines = 0;
  void describe(config::Fields& f);
};

class UciSource final : public SequenceSource {
 public:
  explicit UciSource(UciReaderOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // reads the whole file once; lines that cannot be used are left out
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 private:
  std::optional<LineFault> split(std::string_view line);
  // The numbers of a line in the order of the streams, class numbers among them as floats; what is wrong, if anything.
  std::optional<LineFault> parse(std::string_view line, float* out, bool first_line = false);
  std::string columns_fix(std::string_view line) const;
  std::optional<LineFault> parse_class(std::size_t stream, std::string_view field, float& out) const;
  bool number(std::string_view field, float& out);
  std::string number_fix(std::string_view field, bool first_line) const;

  UciReaderOptions options_;
  char delimiter_;  // 0 = blanks
  std::vector<StreamInfo> infos_;
  MappedFile file_;
  FaultBudget budget_;
  std::vector<ClassNames> maps_;  // per stream
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
