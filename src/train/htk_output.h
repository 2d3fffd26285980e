// SPDX-License-Identifier: Apache-2.0
// htk_output.h -- writes node values as HTK feature files, one per utterance: writer = [ writerType = HTKMLFWriter ] of
// the write action.
#pragma once

#include <string>
#include <vector>

#include "train/node_writer.h"
#include "tutti/config.h"

namespace tutti {

// The block of one node.
struct HtkOutputOptions {
  std::int64_t dim = 0;
  std::string list, type = "Real";
  void describe(config::Fields& f);
};

// Reads a list of output files. Throws Error.
std::vector<std::string> read_output_list(const std::string& path);

// Writes utterance i to the file in line i of the list.
class HtkOutput final : public NodeWriter {
 public:
  HtkOutput(std::string node, const HtkOutputOptions&);
  void write(const Network::Output& output, std::span<const std::int64_t> sequence_begin, std::int64_t) override;
  void finish() override;

 private:
  std::string node_;
  HtkOutputOptions options_;
  std::vector<std::string> files_;
  std::size_t next_ = 0;
};

}  // namespace tutti
