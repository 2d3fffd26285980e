// SPDX-License-Identifier: Apache-2.0
// text_output.h -- writes node values as text, with the format block of the write action.
#pragma once

#include <cstdint>
#include <fstream>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tutti/config.h"
#include "tutti/network.h"

namespace tutti {

// Receives the values of one node from the write action, minibatch by minibatch.
class NodeWriter {
 public:
  virtual ~NodeWriter() = default;
  // sequence_begin: sequences + 1 column offsets into `output`.
  virtual void write(const Network::Output& output, std::span<const std::int64_t> sequence_begin,
                     std::int64_t minibatch) = 0;
  virtual void finish() = 0;
};

enum class OutputType { real, category, sparse };

struct OutputFormat {
  OutputType type = OutputType::real;
  std::string label_mapping_file;
  bool transpose = true;
  std::string prologue, epilogue;
  std::string sequence_prologue, sequence_epilogue = "\\n", sequence_separator;
  std::string sample_separator = "\\n", element_separator = " ";
  std::string precision_format;
  void describe(config::Fields& f);
};

// As text. The stream belongs to the caller and must stay open until finish().
class TextOutput final : public NodeWriter {
 public:
  // `labels` are the lines of the mapping file; empty for none.
  TextOutput(std::ostream& out, const OutputFormat& format, std::string node, std::vector<std::string> labels);
  void write(const Network::Output& output, std::span<const std::int64_t> sequence_begin,
             std::int64_t minibatch) override;
  void finish() override;

 private:
  void matrix(const Network::Output& output, std::int64_t first, std::int64_t last);
  void sample(std::span<const float> values);
  std::string fill(const std::string& pattern, const Shape& shape) const;  // %s %n %d %x

  std::ostream& out_;
  OutputFormat format_;  // escapes already resolved
  std::string node_, number_format_;
  std::vector<std::string> labels_;
  std::int64_t minibatch_ = 0, sequence_ = 0;
  bool begun_ = false;
};

// Reads a label mapping file; line number = class.
std::vector<std::string> read_label_mapping(const std::string& path);
// Throws Error, with `lead` in front, unless the file names as many classes as the node has values.
void check_class_names(const std::string& lead, const std::string& path, std::size_t names, const std::string& node,
                       std::size_t values);

}  // namespace tutti
